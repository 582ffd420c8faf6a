"""Rows look as Debezium writes them: dates as days since 1970."""

from datetime import UTC, date, datetime
from uuid import UUID

import pytest
from tidings_domain import load_domain
from tidings_domain.testing import Rehearsal, insert, update

from rental.events import LoanBegun, LoanBegunV1Item, LoanReturned

ANN = "6f1c2a9e-3f4b-5d6c-8e7f-0a1b2c3d4e5f"
BEGUN, DUE = date(2026, 1, 1), date(2026, 1, 8)
LOAN = insert(
    "rental.loans",
    id=7,
    begun_on=20454,
    member_id=ANN,
    channel="web",
    due_on=20461,
    returned_at=None,
    total_cents=6000,
)
LINES = [
    insert("rental.loan_items", begun_on=20454, loan_id=7, item_id=item, price_cents=cents)
    for item, cents in ((1, 5000), (2, 1000))
]


@pytest.fixture
def rental() -> Rehearsal:
    # A row has what every aggregate declares of its table, here Item as well.
    thing = {
        "category_id": 1,
        "tags": [],
        "condition": "new",
        "daily_cents": 900,
        "deposit": "0.00",
        "deleted_at": None,
    }
    return Rehearsal(load_domain("rental")).given(
        insert("rental.categories", id=1, parent_id=None, name="Outdoor"),
        insert("rental.items", id=1, title="Tent for four", **thing),
        insert("rental.items", id=2, title="Lamp", **thing),
    )


def test_a_loan_is_told_with_its_things(rental: Rehearsal) -> None:
    rental.when(LOAN, *LINES).expects(
        LoanBegun(
            begun_on=BEGUN,
            loan_id=7,
            member_id=UUID(ANN),
            channel="web",
            due_on=DUE,
            items=(
                LoanBegunV1Item(item_id=1, title="Tent for four", price_cents=5000),
                LoanBegunV1Item(item_id=2, title="Lamp", price_cents=1000),
            ),
            total_cents=6000,
            currency="EUR",
        )
    )


@pytest.mark.parametrize(("day", "late"), [(7, 0), (8, 0), (11, 3)])
def test_it_is_back_once(rental: Rehearsal, day: int, late: int) -> None:
    rental.given(LOAN, *LINES)
    back = update("rental.loans", id=7, begun_on=20454, returned_at=f"2026-01-{day:02}T10:00:00.000000Z")
    rental.when(back).expects(
        LoanReturned(
            begun_on=BEGUN,
            loan_id=7,
            member_id=UUID(ANN),
            returned_at=datetime(2026, 1, day, 10, tzinfo=UTC),
            days_late=late,
        )
    )
    corrected = update("rental.loans", id=7, begun_on=20454, returned_at=f"2026-01-{day:02}T11:00:00.000000Z")
    rental.when(corrected).expects()
