"""Random changes of one table, as capture could send them: late, repeated and broken ones among them."""

from __future__ import annotations

import random
import time
from decimal import Decimal
from typing import Any

from lakelab.schemas import ORDERS
from lakelab.topics import TableTopic
from tidings_envelope.decimals import decimal_to_bytes

PLACEHOLDER = "__debezium_unavailable_value"
DAY = 86_400_000
NOON = int(time.time() * 1000) // DAY * DAY - 3 * DAY + DAY // 2
"""Of three days ago: brokers remove what is much older."""
WIDE: list[dict[str, Any]] = [
    *ORDERS,
    {"name": "ratio", "type": ["null", "double"], "default": None},
    {"name": "part", "type": ["null", "float"], "default": None},
    {"name": "open", "type": ["null", "boolean"], "default": None},
    {"name": "raw", "type": ["null", "bytes"], "default": None},
    {
        "name": "at",
        "type": ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTime"}],
        "default": None,
    },
    {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}], "default": None},
    {"name": "more", "type": ["null", {"type": "map", "values": ["null", "string"]}], "default": None},
    {
        "name": "place",
        "type": [
            "null",
            {
                "type": "record",
                "name": "Place",
                "fields": [
                    {"name": "x", "type": "double"},
                    {"name": "srid", "type": ["null", "int"], "default": None},
                ],
            },
        ],
        "default": None,
    },
]
NUMBER: dict[str, Any] = {
    "name": "anything",
    "type": [
        "null",
        {
            "type": "record",
            "name": "VariableScaleDecimal",
            "namespace": "io.debezium.data",
            "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
            "connect.name": "io.debezium.data.VariableScaleDecimal",
        },
    ],
    "default": None,
}
"""A numeric without a scale: for tables of more columns than `WIDE`."""
LATER = [
    *(field for field in WIDE if field["name"] not in {"part", "amount"}),
    {"name": "amount", "type": ["null", "string"], "default": None},
    {"name": "channel", "type": "string", "default": "shop"},
]


def random_changes(
    chance: random.Random, table: TableTopic, turn: int, kinds: str = "cccuuuuddrrit!jx"
) -> None:
    """Fourteen records, whose positions overlap with those of the turns before and behind.

    Args:
        table: with `WIDE` or `LATER` columns, and topics that nobody else writes with.
        kinds: what they are drawn from: operations, i and x what an incremental snapshot has read and not found, ! a value that was
            not logged, j what cannot be read.
    """
    fields = {field["name"] for field in table.fields}
    for _ in range(14):
        commit = 100 * turn + chance.randrange(160)
        lsn, partition = commit + chance.randrange(1, 40), chance.randrange(2)
        table.topics.timestamp_ms = NOON + chance.randrange(3) * DAY
        row = {name: value for name, value in _row(chance).items() if name in fields}
        if "channel" in fields:
            row["amount"] = chance.choice([None, "a lot"])
        kind = chance.choice(kinds)
        if kind == "i":
            table.read_again(row, commit, lsn, partition=partition)
        elif kind == "x":
            table.found_gone(row, commit, lsn, partition=partition)
        elif kind == "r":
            table.change("r", row, None, lsn, snapshot="true", partition=partition)
        elif kind == "t":
            table.truncate(commit - 60, lsn - 60, partition=partition)
        elif kind == "!":
            table.change("u", {**row, "note": PLACEHOLDER}, commit, lsn, partition=partition)
        elif kind == "j":
            key, value = table.encoded(row, commit, lsn)
            value = chance.choice([b"junk", b"{}", value[:12]])
            table.topics.produce(table.topic, key, value, [("h", b"1"), ("n", None)], partition)
        else:
            table.change(kind, row, commit, lsn, before=row if kind == "u" else None, partition=partition)
    table.topics.flush()


def _row(chance: random.Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return value if chance.random() < 0.8 else None

    return {
        "id": chance.randrange(6),
        "status": maybe("plac\u00e9d"),
        "note": maybe(f"n{chance.randrange(100)}'"),
        "amount": maybe(Decimal(chance.randrange(-(10**9), 10**9)).scaleb(-2)),
        "required_on": maybe(chance.randrange(-1000, 30000)),
        "ordered_at": maybe(
            chance.choice(["2024-01-01T00:00:00.123456Z", "infinity", "0001-01-01T00:00:00Z"])
        ),
        "updated_at": maybe(chance.randrange(-(10**15), 10**15)),
        "ratio": maybe(chance.choice([0.1, float("nan"), float("-inf"), -0.0])),
        "part": maybe(1.5),
        "open": maybe(True),
        "raw": maybe(b"\0\xff"),
        "at": maybe(chance.randrange(86_400_000_000)),
        "tags": maybe([maybe("a"), "b"]),
        "more": maybe({"k": maybe("v")}),
        "place": maybe({"x": 1.25, "srid": maybe(4326)}),
        "channel": chance.choice(["shop", "mail"]),
        "anything": _number(chance.randrange(100)),
    }


def _number(number: int) -> dict[str, Any] | None:
    """One of them in ten does not fit decimal(38,2), another one is null."""
    if number % 10 == 0:
        return None
    scale, unscaled = (3, 1001) if number % 10 == 1 else (number % 3, 10 ** (number // 4) - 7)
    return {"scale": scale, "value": decimal_to_bytes(Decimal(unscaled), 0)}
