"""Older versions of events that still have readers, each made of the next newer one."""

from tidings_domain import down_conversion
from tidings_shop.events import OrderPlacedV1, OrderPlacedV2


@down_conversion(OrderPlacedV2, to=OrderPlacedV1)
def order_placed_v1(event: OrderPlacedV2) -> OrderPlacedV1:
    """Version 1 knew the customer by number only, and told no lines."""
    return OrderPlacedV1(
        order_id=event.order_id,
        customer_id=event.customer.customer_id,
        total=event.total,
        currency=event.currency,
        placed_at=event.placed_at,
    )
