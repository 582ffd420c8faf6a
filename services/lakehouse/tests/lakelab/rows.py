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
