"""What is news in the shop. Each rule sees what one transaction did to one aggregate, and yields business events."""

from collections.abc import Iterator

from tidings_domain import Change, rule
from tidings_shop.domain.aggregates import Customer, Order, Product
from tidings_shop.events import (
    CustomerRegistered,
    OrderCancelled,
    OrderPaid,
    OrderPlaced,
    OrderPlacedCustomer,
    OrderPlacedLine,
    OrderShipped,
    ProductPriceChanged,
)


@rule(Order, emits=OrderPlaced)
def placed(change: Change[Order]) -> Iterator[OrderPlaced]:
    """An order is placed when its row and its lines are committed, in one transaction."""
    if not change.created:
        return
    order = change.current
    buyer = order.customer
    yield OrderPlaced(
        order_id=order.id,
        customer=OrderPlacedCustomer(
            customer_id=buyer.id,
            email=buyer.email,
            first_name=buyer.first_name,
            last_name=buyer.last_name,
            city=buyer.city,
        ),
        total=order.total,
        currency=order.currency,
        placed_at=order.ordered_at,
        required_on=order.required_on,
        lines=tuple(
            OrderPlacedLine(
                line_no=line.line_no,
                product_id=line.product_id,
                quantity=line.quantity,
                unit_price=line.unit_price,
                discount=line.discount,
                amount=line.amount,
            )
            for line in order.lines
        ),
    )


@rule(Order, emits=OrderPaid, once=True)
def paid(change: Change[Order]) -> Iterator[OrderPaid]:
    """An order is paid when its payments reach its total, or its status says so; whichever comes first, and once."""
    order = change.after
    if order is None or not order.is_paid or (change.before is not None and change.before.is_paid):
        return
    yield OrderPaid(
        order_id=order.id,
        customer_id=order.customer_id,
        total=order.total,
        paid=order.paid,
        currency=order.currency,
        payments=len(order.payments),
        paid_at=max((payment.paid_at for payment in order.payments), default=change.at),
    )


@rule(Order, emits=OrderShipped)
def shipped(change: Change[Order]) -> Iterator[OrderShipped]:
    """Every new shipment is news of its own."""
    for shipment in change.added(Order.shipments):
        yield OrderShipped(
            order_id=change.current.id,
            shipment_id=shipment.id,
            carrier=shipment.carrier,
            tracking_code=shipment.tracking_code,
            shipped_at=shipment.shipped_at,
        )


@rule(Order, emits=OrderCancelled)
def cancelled(change: Change[Order]) -> Iterator[OrderCancelled]:
    """An order is cancelled when its status becomes so."""
    if change.became(Order.status, "cancelled"):
        order = change.current
        yield OrderCancelled(
            order_id=order.id,
            customer_id=order.customer_id,
            was_paid=change.before is not None and change.before.is_paid,
            cancelled_at=change.at,
        )


@rule(Customer, emits=CustomerRegistered)
def registered(change: Change[Customer]) -> Iterator[CustomerRegistered]:
    """A customer is registered when the row appears."""
    if change.created:
        customer = change.current
        yield CustomerRegistered(
            customer_id=customer.id,
            email=customer.email,
            first_name=customer.first_name,
            last_name=customer.last_name,
            city=customer.city,
            newsletter=customer.newsletter,
            registered_at=customer.created_at,
        )


@rule(Product, emits=ProductPriceChanged)
def price_changed(change: Change[Product]) -> Iterator[ProductPriceChanged]:
    """A price is news when it changes, not when the product is new."""
    if change.before is not None and change.after is not None and change.changed(Product.price):
        product = change.after
        yield ProductPriceChanged(
            product_id=product.id,
            sku=product.sku,
            name=product.name,
            old_price=change.before.price,
            new_price=product.price,
            changed_at=change.at,
        )
