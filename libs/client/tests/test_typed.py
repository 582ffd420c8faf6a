"""What becomes of an event's values, and what is said where they do not fit."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pytest

from tidings_client import ClientError, event
from tidings_client.typed import compile_class, topic_of


class Kind(Enum):
    A = "A"


@dataclass(frozen=True)
class Inner:
    amount: Decimal


@event("depot.thing-made", version=3)
@dataclass(frozen=True)
class Thing:
    number: int
    ratio: float
    name: str
    ok: bool
    raw: bytes
    price: Decimal
    at: datetime
    on: date
    clock: time
    uid: UUID
    kind: Kind
    word: Literal["a", "b"]
    inner: Inner
    inners: tuple[Inner, ...]
    names: dict[str, Decimal]
    note: str | None
    other: Inner | None = None
    more: list[int] = field(default_factory=list)


UID = UUID("6f1c2a9e-3f4b-5d6c-8e7f-0a1b2c3d4e5f")
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
AVRO: dict[str, Any] = {
    "number": 1, "ratio": 1.5, "name": "n", "ok": True, "raw": b"raw", "price": Decimal("1.50"), "at": AT,
    "on": date(2026, 1, 1), "clock": time(12, 0), "uid": UID, "kind": "A", "word": "a", "inner": {"amount": Decimal(2)},
    "inners": [{"amount": Decimal(3)}], "names": {"x": Decimal(4)}, "note": None, "unknown": 5,
}  # fmt: skip
JSON: dict[str, Any] = AVRO | {
    "raw": "cmF3", "price": "1.50", "at": "2026-01-01T12:00:00Z", "on": "2026-01-01", "clock": "12:00:00", "uid": str(UID),
    "inner": {"amount": "2"}, "inners": [{"amount": "3"}], "names": {"x": "4"},
}  # fmt: skip


@pytest.mark.parametrize("values", [AVRO, JSON], ids=["avro", "json"])
def test_values(values: dict[str, Any]) -> None:
    made = compile_class(Thing)(values)
    assert made == Thing(
        1, 1.5, "n", True, b"raw", Decimal("1.50"), AT, date(2026, 1, 1), time(12, 0), UID, Kind.A, "a",
        Inner(Decimal(2)), (Inner(Decimal(3)),), {"x": Decimal(4)}, None,
    )  # fmt: skip
    assert topic_of(Thing) == "depot.thing-made.v3"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"number": "secret"}, "Thing.number: must be int, not str"),
        ({"number": True}, "Thing.number: must be int, not bool"),
        ({"ratio": "secret"}, "Thing.ratio: must be int or float, not str"),
        ({"price": "secret"}, "Thing.price has a value that does not fit"),
        ({"price": 1.5}, "Thing.price: must be Decimal, not float"),
        ({"at": "secret"}, "Thing.at has a value that does not fit"),
        ({"kind": "secret"}, "Thing.kind has a value that does not fit"),
        ({"inner": {}}, "Thing.inner: Inner.amount is not in the event, and has no default"),
        ({"inners": 7}, "Thing.inners has a value that does not fit"),
    ],
)
def test_what_does_not_fit_is_told_by_field_without_its_value(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ClientError, match=f"^{says}$") as caught:
        compile_class(Thing)(AVRO | wrong)
    assert "secret" not in str(caught.value)


def test_a_class_that_is_no_dataclass() -> None:
    with pytest.raises(ClientError, match="Plain is not a dataclass"):

        @event("a.b", version=1)
        class Plain:
            pass
