"""What rental.loans means, and what of it is news: the rows of all partitions, as one table."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Literal
from uuid import UUID

from tidings_domain import Aggregate, Change, Row, children, reference, rule

from rental.events import LoanBegun, LoanBegunV1Item, LoanReturned


class ItemRef(Row, table="rental.items", key="id"):
    id: int
    title: str


class LoanItem(Row, table="rental.loan_items", key=("begun_on", "loan_id", "item_id")):
    begun_on: date
    loan_id: int
    item_id: int
    price_cents: int

    item = reference(ItemRef, by="item_id", required=True)


class Loan(Aggregate, root="rental.loans", key=("begun_on", "id")):
    id: int
    begun_on: date
    member_id: UUID
    channel: Literal["counter", "web", "partner"]
    due_on: date
    returned_at: datetime | None
    total_cents: int

    items = children(LoanItem, by=("begun_on", "loan_id"))


@rule(Loan, emits=LoanBegun)
def loan_begun(change: Change[Loan]) -> Iterator[LoanBegun]:
    """A loan and its things are committed together."""
    if change.created:
        loan = change.current
        yield LoanBegun(
            begun_on=loan.begun_on,
            loan_id=loan.id,
            member_id=loan.member_id,
            channel=loan.channel,
            due_on=loan.due_on,
            items=tuple(
                LoanBegunV1Item(item_id=line.item_id, title=line.item.title, price_cents=line.price_cents)
                for line in loan.items
            ),
            total_cents=loan.total_cents,
            currency="EUR",
        )


@rule(Loan, emits=LoanReturned)
def loan_returned(change: Change[Loan]) -> Iterator[LoanReturned]:
    """All is back: the column had no time, and has one."""
    loan = change.after
    if loan is None or loan.returned_at is None or not change.changed(Loan.returned_at):
        return
    if change.before is not None and change.before.returned_at is not None:
        return  # a time that was corrected
    late = (loan.returned_at.astimezone(UTC).date() - loan.due_on).days
    yield LoanReturned(
        begun_on=loan.begun_on,
        loan_id=loan.id,
        member_id=loan.member_id,
        returned_at=loan.returned_at,
        days_late=max(0, late),
    )
