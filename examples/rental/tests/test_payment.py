"""Rows look as Debezium writes them."""

from datetime import date
from uuid import UUID

from tidings_domain import load_domain
from tidings_domain.testing import Rehearsal, insert

from rental.events import PaymentReceived

ANN = "6f1c2a9e-3f4b-5d6c-8e7f-0a1b2c3d4e5f"


def test_a_payment_needs_no_row_of_its_member() -> None:
    Rehearsal(load_domain("rental")).when(
        insert("rental.payments", id=5, paid_on=20454, member_id=ANN, amount_cents=6000)
    ).expects(
        PaymentReceived(
            paid_on=date(2026, 1, 1), payment_id=5, member_id=UUID(ANN), amount_cents=6000, currency="EUR"
        )
    )
