"""The store's aggregate and its rules; what they say is computed once more, in SQL, by `truth`.

The domain has two versions, which a fault changes between while state exists: the second one reads a column more of each
order, and has its rules in another order. What is published must be the same. A file says which version a process has.
"""

import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from tidings_domain import Aggregate, Change, Row, children, down_conversion, reference, rule
from translatorlab.events import (
    NAME,
    ItemAdded,
    ItemRemoved,
    OrderDeleted,
    OrderPlacedV1,
    OrderPlacedV2,
    OrderSeen,
    StatusChanged,
)

SECOND = Path(os.environ.get("TIDINGS_LAB_SECOND", f"/nonexistent/{NAME}")).exists()
"""Whether this process has the second version."""
SCHEMA = os.environ.get("TIDINGS_LAB_SCHEMA", "public")
"""PostgreSQL's; MariaDB's database."""


class Customer(Row, table=f"{SCHEMA}.customers", key="id"):
    id: int
    name: str


class Item(Row, table=f"{SCHEMA}.items", key="id"):
    """May move to another order; a delete tells nothing but its id."""

    id: int
    price: Decimal


class Payment(Row, table=f"{SCHEMA}.payments", key=("order_id", "number")):
    order_id: int
    number: int
    amount: Decimal


class Order(Aggregate, root=f"{SCHEMA}.orders", key="id"):
    id: int
    status: str
    if SECOND:
        note: str | None = None  # states of the first version lack it
    items = children(Item, by="order_id")
    payments = children(Payment, by="order_id")
    customer = reference(Customer, by="customer_id", required=True)


@down_conversion(OrderPlacedV2, to=OrderPlacedV1)
def order_placed_v1(event: OrderPlacedV2) -> OrderPlacedV1:
    return OrderPlacedV1(order_id=event.order_id, items=event.items)


@rule(Order, emits=OrderPlacedV2)
def placed(change: Change[Order]) -> Iterator[OrderPlacedV2]:
    if change.created:
        order = change.current
        total = sum((item.price for item in order.items), Decimal("0.00"))
        yield OrderPlacedV2(
            order_id=order.id, items=len(order.items), total=total, customer=order.customer.name
        )


@rule(Order, emits=StatusChanged)
def status_changed(change: Change[Order]) -> Iterator[StatusChanged]:
    if change.before is not None and change.changed(Order.status):
        order = change.current
        yield StatusChanged(
            order_id=order.id,
            former=change.before.status,
            status=order.status,
            items=len(order.items),
            paid=sum((payment.amount for payment in order.payments), Decimal("0.00")),
            customer=order.customer.name,
        )


@rule(Order, emits=(ItemAdded, ItemRemoved))
def items_changed(change: Change[Order]) -> Iterator[ItemAdded | ItemRemoved]:
    if change.before is not None and change.after is not None:
        for item in change.added(Order.items):
            yield ItemAdded(order_id=change.after.id, item_id=item.id, price=item.price)
        for item in change.removed(Order.items):
            yield ItemRemoved(order_id=change.after.id, item_id=item.id)


@rule(Order, emits=OrderDeleted)
def deleted(change: Change[Order]) -> Iterator[OrderDeleted]:
    if change.deleted and change.before is not None:
        yield OrderDeleted(order_id=change.before.id)


@rule(Order, emits=OrderSeen, snapshot=True)
def seen(change: Change[Order]) -> Iterator[OrderSeen]:
    if change.created:
        yield OrderSeen(order_id=change.current.id)
