"""The cost of conversion alone: from an insert's bytes to its Kafka record, in one process, without any I/O.

Ten-column rows as in `tests/bench/capture/backlog.py`; the best of several passes, in CPU time. What a person who changes the
plan's generated code looks at first.
"""

import random
import struct
import time
from collections.abc import Callable
from typing import Any

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.postgres.encoding.plan import Plan, compile_plan
from tidings_capture.postgres.wire.pgoutput import Insert, decode_message
from tidings_connect.converters.encoding import AvroConverter, Converter, make_converter

JSON = "org.apache.kafka.connect.json.JsonConverter"
MOST_ROWS = 50_000
PASSES = 7
XLOG_HEADER_BYTES = 25


def _column(
    name: str, type_name: str, *, not_null: bool = True, key: int | None = None, typmod: int = -1
) -> Column:
    return Column(name, 1, typmod, type_name, not_null, key)


TABLE = Table(
    "public",
    "bench",
    1,
    (
        _column("id", "int8", key=1),
        _column("quantity", "int4"),
        _column("name", "text"),
        _column("city", "text", not_null=False),
        _column("note", "text", not_null=False),
        _column("amount", "numeric", typmod=(12 << 16 | 2) + 4),
        _column("active", "bool"),
        _column("ratio", "float8", not_null=False),
        _column("created_at", "timestamp"),
        _column("updated_at", "timestamptz"),
    ),
)


def run(rows: int) -> None:
    """Print the microseconds per row of every converter and way."""
    messages = _messages(min(rows, MOST_ROWS))
    for name, schemas_enable in (("JSON without schemas", "false"), ("JSON with schemas", "true")):
        properties = {"key.converter": JSON, "value.converter": JSON}
        properties |= {f"{side}.schemas.enable": schemas_enable for side in tuple(properties)}
        _measure(name, messages, *(make_converter(properties, is_key=is_key) for is_key in (True, False)))
    _measure("Avro", messages, *(AvroConverter(_NoRegistry(), is_key=is_key) for is_key in (True, False)))  # type: ignore[arg-type]  # all that is called


class _NoRegistry:
    """Gives every schema the same id."""

    def register(self, subject: str, schema: str) -> int:
        return 1


def _messages(count: int) -> list[bytes]:
    """XLogData messages with inserts; the same ones every time."""
    chance = random.Random(1)
    messages = []
    for number in range(count):
        moment = (
            f"2026-01-01 12:{number // 60 % 60:02d}:{number % 60:02d}.{chance.randrange(10**6):06d}".rstrip(
                "0"
            )
        )
        cells = [
            str(number),
            str(number % 1000),
            f"customer name {number}",
            f"city {number % 500}",
            f"a note of ordinary length for row {number}",
            f"{chance.randrange(10**7) / 100:.2f}",
            "tf"[number % 2],
            repr(number / 7),
            moment.rstrip("."),
            f"{moment.rstrip('.')}+00",
        ]
        parts = [b"w", bytes(24), b"I", struct.pack(">I", 1), b"N", struct.pack(">H", len(cells))]
        for cell in cells:
            parts.append(b"t" + struct.pack(">I", len(cell)) + cell.encode())
        messages.append(b"".join(parts))
    return messages


def _measure(name: str, messages: list[bytes], key_converter: Converter, value_converter: Converter) -> None:
    options = ConversionOptions("bench", "bench", provide_transaction_metadata=True)
    plan = compile_plan(TABLE, options, key_converter, value_converter, "bench.public.bench")
    tuples = [message.new for data in messages if isinstance(message := decode_message(data[25:]), Insert)]
    context = EventContext()
    context.begin(7, 1_767_225_600_000_000, 1)
    print(
        f"{name}: {_best(lambda: _by_message(plan, messages, context), len(messages)):.2f} us per message",
        end=", ",
    )
    print(f"{_best(lambda: _by_cells(plan, tuples, context), len(tuples)):.2f} us per row of cells", end=", ")
    lines = [b"\t".join(cell for cell in cells if isinstance(cell, bytes)) + b"\n" for cells in tuples]
    context.snapshot_row("true", 1, 7, 1_767_225_600_000_000)
    print(
        f"{_best(lambda: _by_lines(plan, lines, context), len(lines)):.2f} us per snapshot line", flush=True
    )


def _by_message(plan: Plan, messages: list[bytes], context: EventContext) -> None:
    for number, data in enumerate(messages):
        context.position = number
        if not number & 255:
            context.now_ns = time.time_ns()
        plan.change(data, XLOG_HEADER_BYTES, context)


def _by_cells(plan: Plan, tuples: list[Any], context: EventContext) -> None:
    for cells in tuples:
        plan.read(cells, context)


def _by_lines(plan: Plan, lines: list[bytes], context: EventContext) -> None:
    for start in range(0, len(lines), 250):
        plan.read_lines(lines[start : start + 250], context)


def _best(work: Callable[[], None], rows: int) -> float:
    """CPU microseconds per row of the best pass."""
    best = float("inf")
    for _ in range(PASSES):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best / rows * 1e6
