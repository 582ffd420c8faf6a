"""Aggregates and rules."""

import os
from collections.abc import Iterator
from decimal import Decimal

from bikes.events import OrderPaidV1, OrderPlacedV1, OrderPlacedV2, PaymentTakenBackV1
from tidings_domain import Aggregate, Change, Row, children, down_conversion, reference, rule

SECOND = os.environ.get("BIKES_RULES") == "second"
"""The rules of a second generation: customers in capitals, and only odd payments are news when they are taken back."""
MENDED = bool(os.environ.get("BIKES_MENDED"))
"""The rule `placed` takes an impossible order."""


class Customer(Row, table="public.customers", key="id"):
    id: int
    name: str


class Line(Row, table="public.order_items", key=("order_id", "line_no")):
    order_id: int
    line_no: int
    price: Decimal


class Payment(Row, table="public.payments", key="id"):
    id: int
    order_id: int


class Order(Aggregate, root="public.orders", key="id"):
    id: int
    status: str
    lines = children(Line, by="order_id")
    payments = children(Payment, by="order_id")
    customer = reference(Customer, by="customer_id")


@down_conversion(OrderPlacedV2, to=OrderPlacedV1)
def order_placed_v1(event: OrderPlacedV2) -> OrderPlacedV1:
    return OrderPlacedV1(order_id=event.order_id, lines=event.lines)


@rule(Order, emits=OrderPlacedV2)
def placed(change: Change[Order]) -> Iterator[OrderPlacedV2]:
    if change.created:
        order = change.current
        if order.status == "impossible" and not MENDED:
            raise ValueError(order.status)
        name = order.customer.name if order.customer else None
        yield OrderPlacedV2(
            order_id=order.id,
            lines=len(order.lines),
            customer=name.upper() if name and SECOND else name,
            total=sum((line.price for line in order.lines), Decimal("0.00")),
        )


@rule(Order, emits=OrderPaidV1)
def paid(change: Change[Order]) -> Iterator[OrderPaidV1]:
    if change.became(Order.status, "paid"):
        yield OrderPaidV1(order_id=change.current.id, payments=len(change.current.payments))


@rule(Order, emits=PaymentTakenBackV1, history=os.environ.get("BIKES_HISTORY") == "needed")
def taken_back(change: Change[Order]) -> Iterator[PaymentTakenBackV1]:
    if change.after is not None:
        for payment in change.removed(Order.payments):
            if SECOND and payment.id % 2 == 0:
                continue
            yield PaymentTakenBackV1(order_id=change.after.id, payment_id=payment.id)
