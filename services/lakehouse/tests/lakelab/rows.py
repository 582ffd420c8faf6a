"""Rows as change events give them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any


def order(number: int, note: str | None = "n", **more: Any) -> dict[str, Any]:
    """A row of `orders`; `more` are columns that are other or further."""
    return {
        "id": number,
        "status": "placed",
        "note": note,
        "amount": Decimal("12.34"),
        "required_on": 19000,
        "ordered_at": "2024-01-01T00:00:00.123456Z",
        "updated_at": 1_700_000_000_000_000,
        **more,
    }


def event_headers(event_id: str | None, **more: str) -> list[tuple[str, bytes]]:
    """Of a record of `shop.order-placed.v1`; `more` are attributes that are other or further."""
    attributes = {
        "ce_source": "/shop",
        "ce_type": "shop.order-placed.v1",
        "ce_subject": "1",
        "ce_time": "2024-01-01T00:00:00.5Z",
        "ce_specversion": "1.0",
        **more,
    }
    if event_id is not None:
        attributes["ce_id"] = event_id
    return [(name, value.encode()) for name, value in attributes.items()]
