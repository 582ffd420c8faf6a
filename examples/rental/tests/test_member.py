"""Rows look as Debezium writes them."""

from datetime import UTC, date, datetime
from uuid import UUID

from tidings_domain import load_domain
from tidings_domain.testing import Rehearsal, insert, update

from rental.events import MemberJoined, MemberLeft

ANN = "6f1c2a9e-3f4b-5d6c-8e7f-0a1b2c3d4e5f"


def test_a_member_comes_goes_and_comes_back() -> None:
    rental = Rehearsal(load_domain("rental"))
    joined = MemberJoined(member_id=UUID(ANN), joined_on=date(2026, 1, 1))
    rental.when(
        insert("rental.members", id=ANN, email="ann@example.org", joined_on=20454, deleted_at=None)
    ).expects(joined)
    rental.when(update("rental.members", id=ANN, email="ann@example.com")).expects()
    rental.when(update("rental.members", id=ANN, deleted_at="2026-02-01T12:00:00.000000Z")).expects(
        MemberLeft(member_id=UUID(ANN), left_at=datetime(2026, 2, 1, 12, tzinfo=UTC))
    )
    rental.when(update("rental.members", id=ANN, deleted_at=None)).expects(joined)
