"""The events of the store's domain, as `tidings-schemas generate` would write them; the environment names the domain.

Every lab has topics of its own, and they are called after the domain.
"""

import os
from decimal import Decimal
from typing import ClassVar

from tidings_domain import BusinessEvent

NAME = os.environ.get("TIDINGS_LAB_NAME", "store")

_MONEY = '{"type": "bytes", "logicalType": "decimal", "precision": 14, "scale": 2}'


def _contract(name: str, major: int, **fields: str) -> str:
    listed = ", ".join(f'{{"name": "{field}", "type": {type_}}}' for field, type_ in fields.items())
    return f'{{"type": "record", "name": "{name}", "namespace": "store.v{major}", "fields": [{listed}]}}'


class OrderPlacedV1(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "order-placed"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = _contract("OrderPlaced", 1, order_id='"long"', items='"int"')
    order_id: int
    items: int


class OrderPlacedV2(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "order-placed"
    __major__: ClassVar[int] = 2
    __contract__: ClassVar[str] = _contract(
        "OrderPlaced", 2, order_id='"long"', items='"int"', total=_MONEY, customer='"string"'
    )
    order_id: int
    items: int
    total: Decimal
    customer: str


class StatusChanged(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "status-changed"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = _contract(
        "StatusChanged",
        1,
        order_id='"long"',
        former='"string"',
        status='"string"',
        items='"int"',
        paid=_MONEY,
        customer='"string"',
    )
    order_id: int
    former: str
    status: str
    items: int
    paid: Decimal
    customer: str


class ItemAdded(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "item-added"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = _contract("ItemAdded", 1, order_id='"long"', item_id='"long"', price=_MONEY)
    order_id: int
    item_id: int
    price: Decimal


class ItemRemoved(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "item-removed"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = _contract("ItemRemoved", 1, order_id='"long"', item_id='"long"')
    order_id: int
    item_id: int


class OrderDeleted(BusinessEvent, frozen=True, kw_only=True):
    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "order-deleted"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = _contract("OrderDeleted", 1, order_id='"long"')
    order_id: int


class OrderSeen(BusinessEvent, frozen=True, kw_only=True):
    """Of a rule that snapshots are for, too."""

    __domain__: ClassVar[str] = NAME
    __event__: ClassVar[str] = "order-seen"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = _contract("OrderSeen", 1, order_id='"long"')
    order_id: int


EVENTS = (OrderPlacedV1, OrderPlacedV2, StatusChanged, ItemAdded, ItemRemoved, OrderDeleted, OrderSeen)
