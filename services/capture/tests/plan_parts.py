"""A table, its rows and the plans that convert them, for tests of plans."""

import json
import struct
from dataclasses import replace
from typing import Any

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.postgres.encoding.plan import Plan, compile_plan
from tidings_connect.converters.encoding import Converter, make_converter
from tidings_connect.data.records import Record

JSON = "org.apache.kafka.connect.json.JsonConverter"
NUMERIC_10_2 = (10 << 16 | 2) + 4
OID = 4711


def column(name: str, type_name: str, **more: Any) -> Column:
    return Column(name, 1, **{"typmod": -1, "type_name": type_name, "not_null": False, **more})


TABLE = Table(
    "public",
    "orders",
    OID,
    (
        column("note", "text"),
        column("id", "int8", not_null=True, key_position=2),
        column("shop", "text", not_null=True, key_position=1),
        column("price", "numeric", typmod=NUMERIC_10_2, not_null=True),
        column("paid", "bool", not_null=True, default_expression="false"),
        column("placed", "timestamp"),
        column("seen", "timestamptz"),
        column("weight", "float8"),
        column("tags", "_text", element=None),
    ),
)
ROW: Cells = [
    b"n",
    b"7",
    b"s",
    b"1.50",
    b"t",
    b"2026-01-01 00:00:00.5",
    b"2026-01-01 00:00:00.123456+00",
    b"2.5",
    None,
]


def converters(**properties: str) -> tuple[Converter, Converter]:
    chosen = {
        "key.converter": JSON,
        "value.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        **properties,
    }
    return make_converter(chosen, is_key=True), make_converter(chosen, is_key=False)


def plan_for(table: Table = TABLE, *, checked_only: bool = False, **options: Any) -> Plan:
    table = replace(table, columns=tuple(c for c in table.columns if c.name != "tags"))
    chosen = ConversionOptions("shop", "db", **options)
    return compile_plan(
        table, chosen, *converters(), f"shop.{table.qualified_name}", checked_only=checked_only
    )


def context() -> EventContext:
    made = EventContext()
    made.begin(99, 1_767_225_600_123_456, 500)
    made.position = 600
    made.now_ns = 1_767_225_601_000_000_001
    return made


def cells(**changes: bytes | None) -> Cells:
    names = [c.name for c in TABLE.columns[:-1]]
    row = dict(zip(names, ROW[:-1], strict=True)) | changes
    return list(row.values())


def old_key(**changes: bytes | None) -> Cells:
    nothing = dict.fromkeys((c.name for c in TABLE.columns[:-1]), None)
    return list((nothing | {"id": b"7", "shop": b"s"} | changes).values())


def tuple_data(row: Cells) -> bytes:
    parts = [struct.pack(">H", len(row))]
    for cell in row:
        parts.append(
            b"n"
            if cell is None
            else b"t" + struct.pack(">I", len(cell)) + cell
            if isinstance(cell, bytes)
            else b"u"
        )
    return b"".join(parts)


def insert_message(row: Cells) -> bytes:
    return b"I" + struct.pack(">I", OID) + b"N" + tuple_data(row)


def value(record: Record) -> Any:
    return None if record[1] is None else json.loads(record[1])
