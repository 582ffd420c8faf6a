"""Whether pgoutput's option ``binary`` would pay: what a cell costs on its way to JSON, from PostgreSQL's text and from its binary
form, and what either costs the server.

The text's side is the code that the plans generate (`fast_json`); the binary side is the shortest Python that gives the same
bytes for ordinary values, without the checks that the real thing would need: so binary is flattered.
"""

import datetime
import struct
import time
from binascii import b2a_base64
from collections.abc import Callable
from typing import Any

import orjson
import psycopg
from tests.bench.conversion import PASSES

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.tables import Column
from tidings_capture.postgres.encoding.fast_json import snippet
from tidings_capture.postgres.types.selection import conversion_for
from tidings_envelope.java.numbers import double_json
from tidings_stack import Stack

CELLS = 100_000
_PG_EPOCH_US = 946_684_800_000_000
"""2000-01-01, from which PostgreSQL counts, in microseconds since 1970."""
_DAY = 86_400_000_000
_LONG, _INT, _DOUBLE, _NUMERIC = (struct.Struct(form).unpack for form in (">q", ">i", ">d", ">HhHH"))
_ZERO_DAY = datetime.date(2000, 1, 1).toordinal()


def _numeric(cell: bytes) -> bytes:
    """Scale 2; format: ``numeric_send`` in PostgreSQL's ``numeric.c``: digits of base 10,000 behind weight, sign and scale."""
    count, weight, sign, _ = _NUMERIC(cell[:8])
    number = 0
    for digit in struct.unpack(f">{count}H", cell[8:]):
        number = number * 10_000 + digit
    exponent = 4 * (weight - count + 1) + 2
    number = number * 10**exponent if exponent >= 0 else number // 10**-exponent
    if sign:
        number = -number
    return b'"%b"' % b2a_base64(
        number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True), newline=False
    )


def _zoned(cell: bytes) -> bytes:
    days, rest = divmod(_LONG(cell)[0], _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    day = datetime.date.fromordinal(_ZERO_DAY + days)
    return b'"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ"' % (
        *(day.year, day.month, day.day),
        *(*divmod(minutes, 60), second, fraction),
    )


_KINDS: dict[str, tuple[str, int, str, Callable[[bytes], bytes]]] = {
    "bigint": ("int8", -1, "i::bigint * 1000003", lambda cell: b"%d" % _LONG(cell)),
    "integer": ("int4", -1, "i", lambda cell: b"%d" % _INT(cell)),
    "text": ("text", -1, "'customer name ' || i", lambda cell: orjson.dumps(cell.decode())),
    "numeric(12,2)": ("numeric", (12 << 16 | 2) + 4, "(i / 7.0)", _numeric),
    "boolean": ("bool", -1, "(i % 2 = 0)", lambda cell: b"true" if cell == b"\1" else b"false"),
    "double precision": ("float8", -1, "i / 7.0", lambda cell: double_json(_DOUBLE(cell)[0])),
    "timestamp": (
        "timestamp",
        -1,
        "timestamp '2026-01-01' + i * interval '1.000007 second'",
        lambda cell: b"%d" % (_LONG(cell)[0] + _PG_EPOCH_US),
    ),
    "timestamptz": ("timestamptz", -1, "timestamptz '2026-01-01' + i * interval '1.000007 second'", _zoned),
    "date": ("date", -1, "date '2026-01-01' + i % 1000", lambda cell: b"%d" % (_INT(cell)[0] + 10_957)),
    "bytea": (
        "bytea",
        -1,
        "decode(repeat(md5(i::text), 8), 'hex')",
        lambda cell: b'"%b"' % b2a_base64(cell, newline=False),
    ),
}


def run(_: int) -> None:
    """Print nanoseconds per cell for both forms, then what the server does with a million cells."""
    with Stack(members=("pg",)) as stack, psycopg.connect(stack.pg.url, autocommit=True) as connection:
        texts = binaries = 0.0
        for kind, (name, typmod, expression, convert) in _KINDS.items():
            query = f"SELECT ({expression})::{kind} FROM generate_series(1, {CELLS}) i"
            text, binary = (_cells(connection, query, binary=form) for form in (False, True))
            loop, expected = _text_loop(name, typmod, text)
            assert [convert(cell) for cell in binary] == expected, kind
            text_ns, binary_ns = (
                _best(loop),
                _best(lambda convert=convert, cells=binary: _all(convert, cells)),
            )
            texts, binaries = texts + text_ns, binaries + binary_ns
            print(f"{kind:17} text {text_ns:6.0f} ns, binary {binary_ns:6.0f} ns", flush=True)
        print(f"{'all of them':17} text {texts:6.0f} ns, binary {binaries:6.0f} ns")
        _server(connection)


def _cells(connection: psycopg.Connection[Any], query: str, *, binary: bool) -> list[bytes]:
    """What the server sends, as it is."""
    result = connection.execute(query, binary=binary).pgresult  # type: ignore[call-overload]  # ours
    assert result is not None
    return [bytes(result.get_value(row, 0)) for row in range(result.ntuples)]


def _text_loop(name: str, typmod: int, cells: list[bytes]) -> tuple[Callable[[], None], list[bytes]]:
    """The plan's own code for a column, in a loop over cells; and what it gives."""
    conversion = conversion_for(Column("c", 1, typmod, name, not_null=True), ConversionOptions("b", "b"))
    assert conversion is not None
    found = snippet(conversion, "own")
    if found is None:
        encode = conversion.convert
        dumps = orjson.dumps
        give = lambda cell: dumps(b2a_base64(encode(cell), newline=False).decode())  # noqa: E731
        return lambda: _all(give, cells), [give(cell) for cell in cells]
    lines, names = found
    body = "\n".join(f"        {line.replace('{c}', 'c')}" for line in lines)
    source = (
        f"def loop(cells):\n    for c in cells:\n{body}\n"
        f"def give(cells):\n    out = []\n    for c in cells:\n{body}\n        out.append(c)\n    return out"
    )
    exec(source, names)
    return lambda: names["loop"](cells), names["give"](cells)


def _all(convert: Callable[[bytes], bytes], cells: list[bytes]) -> None:
    for cell in cells:
        convert(cell)


def _best(work: Callable[[], None]) -> float:
    """CPU nanoseconds per cell of the best pass."""
    best = float("inf")
    for _ in range(PASSES):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best / CELLS * 1e9


def _server(connection: psycopg.Connection[Any]) -> None:
    """What pgoutput itself takes for the same changes in both forms."""
    connection.execute(
        "CREATE TABLE wide (id bigint PRIMARY KEY, n integer, t text, a numeric(12,2), b boolean, d double precision,"
        " at timestamp, z timestamptz)"
    )
    connection.execute("CREATE PUBLICATION wide FOR TABLE wide")
    connection.execute("SELECT pg_create_logical_replication_slot('wide', 'pgoutput')")
    connection.execute(
        f"INSERT INTO wide SELECT i, i, 'customer name ' || i, i / 7.0, i % 2 = 0, i / 7.0, timestamp '2026-01-01'"
        f" + i * interval '1.000007 second', now() FROM generate_series(1, {CELLS}) i"
    )
    query = (
        "SELECT sum(length(data)) FROM pg_logical_slot_peek_binary_changes('wide', NULL, NULL, 'proto_version', '1',"
        " 'publication_names', 'wide', 'binary', %s)"
    )
    for value in ("false", "true"):
        best, size = float("inf"), 0
        for _ in range(3):
            start = time.perf_counter()
            row = connection.execute(query, [value]).fetchone()
            best, size = min(best, time.perf_counter() - start), int(row[0]) if row else 0
        print(f"the server, binary={value}: {best / CELLS * 1e6:.2f} us and {size / CELLS:.0f} bytes per row")
