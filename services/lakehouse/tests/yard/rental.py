"""Transactions of the second example's tables (examples/rental) among those of a history: keys of several columns, dates and uuids in
keys, arrays, required references, and rows that are marked as deleted."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from yard.history import KEYS as YARD
from yard.history import History

KEYS: dict[str, tuple[str, ...]] = {
    "rental.categories": ("id",),
    "rental.members": ("id",),
    "rental.items": ("id",),
    "rental.loans": ("begun_on", "id"),
    "rental.loan_items": ("begun_on", "loan_id", "item_id"),
    "rental.payments": ("paid_on", "id"),
}
_INT, _LONG, _TEXT = "int", "long", "string"
_UUID = {"type": "string", "connect.name": "io.debezium.data.Uuid", "connect.version": 1}
_DATE = {"type": "int", "connect.name": "io.debezium.time.Date", "connect.version": 1}
_AT = ["null", {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp", "connect.version": 1}]
_TEXTS = {"type": "array", "items": "string"}
_MONEY = {
    "type": "bytes",
    "scale": 2,
    "precision": 10,
    "connect.version": 1,
    "logicalType": "decimal",
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
}


def _fields(**types: Any) -> list[dict[str, Any]]:
    return [{"name": name, "type": type_} for name, type_ in types.items()]


FIELDS = {
    "rental.categories": _fields(id=_INT, parent_id=["null", _INT], name=_TEXT),
    "rental.members": _fields(id=_UUID, email=_TEXT, joined_on=_DATE, deleted_at=_AT),
    "rental.items": _fields(
        id=_LONG,
        category_id=_INT,
        title=_TEXT,
        tags=_TEXTS,
        condition=_TEXT,
        daily_cents=_LONG,
        deposit=_MONEY,
        deleted_at=_AT,
    ),
    "rental.loans": _fields(
        begun_on=_DATE,
        id=_LONG,
        member_id=_UUID,
        channel=_TEXT,
        due_on=_DATE,
        returned_at=_AT,
        total_cents=_LONG,
    ),
    "rental.loan_items": _fields(begun_on=_DATE, loan_id=_LONG, item_id=_LONG, price_cents=_LONG),
    "rental.payments": _fields(paid_on=_DATE, id=_LONG, member_id=_UUID, amount_cents=_LONG),
}
_DAY = 20_000


def lend(history: History) -> None:
    """One transaction more: somebody joins, something is listed, lent, damaged, given back or paid for."""
    r = history.random
    found = {name: [*history.rows.setdefault(name, {}).values()] for name in KEYS}
    number = 1 + sum(map(len, found.values()))
    kind = r.choice(("category", "member", "item", "item", "loan", "loan", "back", "worse", "left", "paid"))
    category, member, item = (r.choice(found[name] or [None]) for name in [*KEYS][:3])
    loan = r.choice(found["rental.loans"] or [None])
    changes: list[tuple[str, str, Any, Any]]
    if kind == "category" or category is None:
        row = {"id": number, "parent_id": category and category["id"], "name": f"category {number}"}
        changes = [("rental.categories", "c", None, row)]
    elif kind == "member" or member is None:
        row = {"id": str(UUID(int=number)), "email": "a@example.org", "joined_on": _DAY, "deleted_at": None}
        changes = [("rental.members", "c", None, row)]
    elif kind == "item" or item is None:
        row = {
            "id": number,
            "category_id": category["id"],
            "title": f"thing {number} é",
            "tags": [f"tag {one}" for one in range(number % 3)],
            "condition": "new",
            "daily_cents": 150,
            "deposit": Decimal("12.50"),
            "deleted_at": None,
        }
        changes = [("rental.items", "c", None, row)]
    elif kind == "worse":
        changes = [("rental.items", "u", None, {**item, "condition": r.choice(("good", "worn", "broken"))})]
    elif kind == "left":
        changes = [("rental.members", "u", None, {**member, "deleted_at": "2026-01-02T03:04:05.12Z"})]
    elif kind == "paid":
        row = {"paid_on": _DAY + number, "id": number, "member_id": member["id"], "amount_cents": number}
        changes = [("rental.payments", "c", None, row)]
    elif kind == "back" and loan is not None:
        changes = [("rental.loans", "u", None, {**loan, "returned_at": "2026-03-04T05:06:07Z"})]
    else:
        row = {
            "begun_on": _DAY + number,
            "id": number,
            "member_id": member["id"],
            "channel": "web",
            "due_on": _DAY + number + 7,
            "returned_at": None,
            "total_cents": 150,
        }
        line = {"begun_on": row["begun_on"], "loan_id": number, "item_id": item["id"], "price_cents": 150}
        changes = [("rental.loan_items", "c", None, line), ("rental.loans", "c", None, row)]
    for table, _, _, after in changes:
        history.rows[table][tuple(after[name] for name in KEYS[table])] = after
    history.commit(changes)


def all_keys() -> dict[str, tuple[str, ...]]:
    """Of the tables of both domains."""
    return {**{name: (key,) for name, key in YARD.items()}, **KEYS}
