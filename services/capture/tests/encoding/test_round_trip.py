"""Random tables and values, written to a real PostgreSQL, come back equal: through pgoutput, the decoder, both ways of the
plan, and both converters. Hypothesis prints the example that fails."""

import base64
import datetime
import io
import json
import math
import struct
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.filters import ColumnFilter
from tidings_capture.cdc.types.conversion import ConversionError
from tidings_capture.postgres.client import Endpoint, Session
from tidings_capture.postgres.encoding.plan import Plan, compile_plan
from tidings_capture.postgres.server.catalog import Catalog
from tidings_capture.postgres.wire.pgoutput import DecodeError, Insert, Relation, decode_message
from tidings_connect.converters.encoding import JsonConverter
from tidings_envelope.avro.codec import AvroCodec
from tidings_envelope.avro.schema import avro_schema_json
from tidings_envelope.codec import Codec, Frame
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.schema import ConnectSchema

EPOCH = datetime.date(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
MIDNIGHT = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a zone
TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
SETTINGS = (
    "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c extra_float_digits=1"
)


@dataclass(frozen=True)
class Kind:
    """A column type, values of it, and how what a converter wrote becomes such a value again."""

    sql: str
    values: st.SearchStrategy[Any]
    back: Callable[[Any], Any] = lambda value: value
    """From JSON, and from Avro where that is the same; Decimals and bytes of JSON are bytes here already."""


def octets(value: Any) -> bytes:
    return value if isinstance(value, bytes) else base64.b64decode(value)


def decimal(scale: int) -> Callable[[Any], Decimal]:
    def back(value: Any) -> Decimal:
        if isinstance(value, Decimal):
            return value
        return Decimal(int.from_bytes(octets(value), "big", signed=True)).scaleb(-scale)

    return back


def variable(value: dict[str, Any]) -> Decimal:
    unscaled = int.from_bytes(octets(value["value"]), "big", signed=True)
    return Decimal(unscaled) / (Decimal(10) ** value["scale"])


def real(value: Any) -> float:
    return float(value)


def single(value: Any) -> float:
    return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])


def zoned(value: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(value)


def bits(size: int) -> Callable[[Any], str]:
    return lambda value: f"{int.from_bytes(octets(value), 'little'):0{size}b}"


def point(value: dict[str, Any]) -> tuple[float, float]:
    x, y = float(value["x"]), float(value["y"])
    assert octets(value["wkb"]) == struct.pack("<BIdd", 1, 1, x, y)
    return x, y


def arrays(element: Kind, values: st.SearchStrategy[Any]) -> Kind:
    def back(items: list[Any]) -> list[Any]:
        return [None if item is None else element.back(item) for item in items]

    return Kind(f"{element.sql}[]", st.lists(st.none() | values, max_size=4), back)


def numbers(digits: int, places: int) -> st.SearchStrategy[Decimal]:
    limit = 10 ** (digits - places)
    return st.decimals(-limit + 1, limit - 1, places=places, allow_nan=False, allow_infinity=False)


INTEGER = Kind("integer", st.integers(-(2**31), 2**31 - 1))
STRING = Kind("text", TEXT)
NUMERIC = Kind("numeric(12,3)", numbers(12, 3), decimal(3))
DATE = Kind("date", st.dates(), lambda value: EPOCH + datetime.timedelta(value))
SCALARS = [
    Kind("smallint", st.integers(-(2**15), 2**15 - 1)),
    INTEGER,
    Kind("bigint", st.integers(-(2**63), 2**63 - 1)),
    Kind("oid", st.integers(0, 2**32 - 1)),
    Kind("boolean", st.booleans()),
    Kind("double precision", st.floats(), real),
    Kind("real", st.floats(width=32), single),
    NUMERIC,
    Kind("numeric", numbers(20, 7), variable),
    Kind("money", numbers(12, 2), decimal(2)),
    STRING,
    Kind("varchar(30)", TEXT),
    Kind("bytea", st.binary(max_size=20), octets),
    Kind("uuid", st.uuids(), uuid.UUID),
    DATE,
    Kind("timestamp", st.datetimes(), lambda value: MIDNIGHT + value * MICROSECOND),
    Kind("timestamptz", st.datetimes(timezones=st.just(datetime.UTC)), zoned),
    Kind("time", st.times(), lambda value: (MIDNIGHT + value * MICROSECOND).time()),
    Kind("jsonb", st.dictionaries(TEXT, st.none() | st.booleans() | TEXT, max_size=3).map(json.dumps), json.loads),
    Kind("bit(13)", st.text("01", min_size=13, max_size=13), bits(13)),
    Kind("point", st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)), point),
    Kind("hstore", st.dictionaries(TEXT, st.none() | TEXT, max_size=20), json.loads),
    Kind("mood", st.sampled_from(["sad", "it's \"ok\"", "😀"])),
]  # fmt: skip
ARRAYS = [arrays(kind, kind.values) for kind in (INTEGER, STRING, NUMERIC, DATE)]
KINDS = SCALARS + ARRAYS


class AvroInMemory:
    """An Avro converter without a registry."""

    def __init__(self) -> None:
        self.codec: Codec = AvroCodec()
        self.schemas: dict[str, Any] = {}

    def frame(self, topic: str, schema: ConnectSchema) -> Frame:
        if schema.name is not None and schema.name.endswith(".Envelope"):
            self.schemas[topic] = fastavro.parse_schema(json.loads(avro_schema_json(schema)))
        return Frame(b"", b"")

    def encoder(self, topic: str, schema: ConnectSchema) -> Callable[[Any], bytes]:
        raise NotImplementedError

    def close(self) -> None: ...


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Kind], list[list[Any]]]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))
    rows = st.tuples(*[st.none() | kind.values for kind in kinds]).map(list)
    return kinds, draw(st.lists(rows, min_size=1, max_size=4))


@dataclass
class Source:
    connection: psycopg.Connection[Any]
    catalog: Catalog
    number: int = 0

    def messages(self, kinds: list[Kind], rows: list[list[Any]]) -> list[bytes]:
        """What pgoutput says about a new table of these columns that gets these rows."""
        self.number += 1
        execute = self.connection.execute
        columns = ", ".join(f"c{i} {kind.sql}" for i, kind in enumerate(kinds))
        execute(f"CREATE TABLE t{self.number} (id serial PRIMARY KEY, {columns})")  # type: ignore[call-overload]
        names = ", ".join(f"c{i}" for i in range(len(kinds)))
        marks = ", ".join(f"%s::text::{kind.sql}" for kind in kinds)
        for row in rows:
            texts = [None if value is None else literal(value) for value in row]
            execute(f"INSERT INTO t{self.number} ({names}) VALUES ({marks})", texts)  # type: ignore[call-overload]
        found = execute(
            "SELECT data FROM pg_logical_slot_get_binary_changes(current_database()::name, NULL, NULL,"
            " 'proto_version', '1', 'publication_names', 'all')"
        ).fetchall()
        return [data for (data,) in found]


def literal(value: Any) -> str:
    """A value in PostgreSQL's text format."""
    match value:
        case bytes():
            return "\\x" + value.hex()
        case tuple():
            return "({!r},{!r})".format(*value).replace("inf", "Infinity")
        case list():
            return "{" + ",".join("NULL" if v is None else quoted(literal(v)) for v in value) + "}"
        case dict():
            pairs = (f"{quoted(k)}=>{'NULL' if v is None else quoted(v)}" for k, v in value.items())
            return ",".join(pairs)
        case float():
            return repr(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return str(value)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.fixture(scope="module")
def source(pg_url: str) -> Any:
    from tidings_stack.postgres import create_database, drop_database

    url = create_database(pg_url, "round_trip")
    parts = conninfo_to_dict(url)
    endpoint = Endpoint(
        str(parts["host"]), int(parts["port"] or 5432), str(parts["user"]), str(parts["dbname"]), str(parts.get("password") or "")
    )  # fmt: skip
    with (
        psycopg.connect(url, autocommit=True, options=SETTINGS) as connection,
        closing(Session(endpoint)) as session,
    ):
        connection.execute("CREATE EXTENSION hstore")
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'it''s \"ok\"', '😀')")
        connection.execute('CREATE PUBLICATION "all" FOR ALL TABLES')
        connection.execute("SELECT pg_create_logical_replication_slot(current_database()::name, 'pgoutput')")
        yield Source(connection, Catalog(session, ColumnFilter()))
    drop_database(pg_url, "round_trip")


def records(messages: list[bytes], plans: Callable[[Relation], tuple[Plan, Plan]]) -> list[bytes]:
    """The values of the rows, which both ways of a plan agree on."""
    found, pair = [], None
    context = EventContext()
    context.begin(1, 0, None)
    for data in messages:
        message = decode_message(data)
        if isinstance(message, Relation):
            pair = plans(message)
        elif isinstance(message, Insert):
            assert pair is not None
            fast, checked = (plan.change(b"x" + data, 1, context) for plan in pair)
            assert [record[:2] for record in fast] == [record[:2] for record in checked]
            found += [value for _, value, _ in fast if value is not None]
    return found


def same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return math.isnan(theirs) if math.isnan(mine) else mine == theirs
    return bool(mine == theirs)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(table=tables())
def test_what_is_written_comes_back(source: Source, table: tuple[list[Kind], list[list[Any]]]) -> None:
    kinds, rows = table
    messages = source.messages(kinds, rows)
    avro, plain = AvroInMemory(), JsonConverter(JsonCodec(), schemas_enable=False)
    for converter in (plain, avro):

        def plans(relation: Relation, converter: Any = converter) -> tuple[Plan, Plan]:
            made = source.catalog.table_of_relation(relation)
            fast, checked = (
                compile_plan(made, OPTIONS, converter, converter, "shop.t", checked_only=only)
                for only in (False, True)
            )
            return fast, checked

        values = records(messages, plans)
        assert len(values) == len(rows)
        for row, value in zip(rows, values, strict=True):
            after = decoded(converter, value)["after"]
            for index, (kind, written) in enumerate(zip(kinds, row, strict=True)):
                read = after[f"c{index}"]
                expected = json.loads(written) if kind.sql == "jsonb" and written is not None else written
                assert same(None if read is None else kind.back(read), expected), kind.sql


OPTIONS = ConversionOptions("shop", "shop")


def decoded(converter: Any, value: bytes) -> Any:
    if isinstance(converter, AvroInMemory):
        return fastavro.schemaless_reader(io.BytesIO(value), converter.schemas["shop.t"], None)
    return orjson.loads(value)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(table=tables(), data=st.data())
def test_a_damaged_message_is_an_error_or_what_the_checked_way_makes_of_it(
    source: Source, table: tuple[list[Kind], list[list[Any]]], data: st.DataObject
) -> None:
    """A corpus from a real server, cut short, lengthened, with a byte of its framing changed and with a byte of a cell
    changed: an error that says where, and never a record that the two ways do not agree on. A damaged cell is an error of
    our own kinds at most: the fast way trusts a cell to be what PostgreSQL writes for its type, and may pass it on."""
    messages = source.messages(*table)
    relation = next(m for m in map(decode_message, messages) if isinstance(m, Relation))
    made = source.catalog.table_of_relation(relation)
    plain = JsonConverter(JsonCodec(), schemas_enable=False)
    fast, checked = (
        compile_plan(made, OPTIONS, plain, plain, "shop.t", checked_only=only) for only in (False, True)
    )
    whole = next(m for m in messages if m[:1] == b"I")
    cut = data.draw(st.integers(1, len(whole) - 1))
    places = framing(whole)
    changed = with_byte(whole, data.draw(st.sampled_from(places)), data.draw(st.integers(0, 255)))
    cells = sorted(set(range(len(whole))) - set(places))
    if cells:
        damaged_cell = with_byte(whole, data.draw(st.sampled_from(cells)), data.draw(st.integers(0, 255)))
        for plan in (fast, checked):
            outcome(plan, damaged_cell)
    for damaged in (whole[:cut], whole + data.draw(st.binary(min_size=1, max_size=9)), changed):
        outcomes = [outcome(plan, damaged) for plan in (fast, checked)]
        assert outcomes[0] == outcomes[1]
        if damaged != changed:
            assert "offset" in outcomes[0], outcomes[0]


def framing(insert: bytes) -> list[int]:
    """The places of an Insert message that are not in a cell's text: tags, the relation, counts and lengths."""
    places, place = list(range(8)), 8
    while place < len(insert):
        present = insert[place : place + 1] == b"t"
        places += range(place, place + (5 if present else 1))
        place += 5 + int.from_bytes(insert[place + 1 : place + 5], "big") if present else 1
    return places


def with_byte(message: bytes, place: int, byte: int) -> bytes:
    return message[:place] + bytes([byte]) + message[place + 1 :]


def outcome(plan: Plan, message: bytes) -> str:
    context = EventContext()
    context.begin(1, 0, None)
    try:
        return repr(plan.change(message, 0, context))
    except (DecodeError, ConversionError) as error:
        return f"{type(error).__name__}: {error}"
