"""What rental.payments means, and what of it is news.

The foreign key stands on some of the partitions only, so that nobody promises the member's row; no rule needs it.
"""

from collections.abc import Iterator
from datetime import date
from uuid import UUID

from tidings_domain import Aggregate, Change, rule

from rental.events import PaymentReceived


class Payment(Aggregate, root="rental.payments", key=("paid_on", "id")):
    id: int
    paid_on: date
    member_id: UUID
    amount_cents: int


@rule(Payment, emits=PaymentReceived)
def payment_received(change: Change[Payment]) -> Iterator[PaymentReceived]:
    """A payment's row never changes."""
    if change.created:
        payment = change.current
        yield PaymentReceived(
            paid_on=payment.paid_on,
            payment_id=payment.id,
            member_id=payment.member_id,
            amount_cents=payment.amount_cents,
            currency="EUR",
        )
