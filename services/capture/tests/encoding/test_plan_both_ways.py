"""Plans: the fast ways to a record give the bytes of the checked one, in JSON and in Avro."""

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_parts import (
    TABLE,
    cells,
    column,
    context,
    converters,
    insert_message,
    old_key,
    plan_for,
)

from tidings_capture.cdc.cells import UNCHANGED, Cells
from tidings_capture.cdc.encoding.options import ConversionOptions, DecimalHandling
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.types.conversion import ConversionError
from tidings_capture.postgres.encoding.plan import Plan, compile_plan
from tidings_capture.postgres.wire.pgoutput import DecodeError
from tidings_connect.converters.encoding import AvroConverter
from tidings_envelope.errors import SchemaError

texts = st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8")).map(str.encode)
rows = st.tuples(
    st.none() | texts | st.just(UNCHANGED),
    st.integers(-(2**63), 2**63 - 1).map(lambda n: str(n).encode()),
    texts,
    st.integers(-(10**9), 10**9).map(lambda n: f"{n // 100}.{n % 100:02d}".encode()),
    st.sampled_from([b"t", b"f"]),
    st.none() | st.datetimes().map(lambda t: t.isoformat(" ").encode()),
    st.none() | st.datetimes().map(lambda t: t.isoformat(" ").encode() + b"+00"),
    st.none() | st.floats().map(lambda f: repr(f).replace("inf", "Infinity").replace("nan", "NaN").encode()),
).map(list)

PLANS = [
    (plan_for(**chosen), plan_for(checked_only=True, **chosen))
    for chosen in ({"provide_transaction_metadata": True}, {"decimal_handling": DecimalHandling.STRING})
]


def test_a_key_has_its_own_converters_nulls() -> None:
    """A column of message.key.columns that is null, and has a default."""
    table = replace(
        TABLE,
        columns=(replace(column("n", "int4"), default_expression="7", key_position=1),),
        replica_identity="f",
    )
    plan = compile_plan(
        table,
        ConversionOptions("shop", "db"),
        *converters(**{"value.converter.replace.null.with.default": "false"}),
        "shop.public.orders",
    )
    ((key, value, _),) = plan.change(insert_message([None]), 0, context())
    assert key == b'{"n":7}'
    assert value is not None
    assert b'"after":{"n":null}' in value


@given(st.sampled_from(PLANS), rows, st.sampled_from(["I", "U"]))
def test_the_fast_ways_are_the_checked_way(plans: tuple[Plan, Plan], row: Cells, tag: str) -> None:
    plan, checked = plans
    message = tag.encode() + insert_message(row)[1:]
    contexts = [context(), context(), context()]
    by_message = plan.change(b"header" + message, 6, contexts[0])
    if tag == "I":
        by_cells, expected = plan.insert(row, contexts[1]), checked.insert(row, contexts[2])
    else:
        by_cells, expected = (
            p.update(None, None, row, c) for p, c in zip((plan, checked), contexts[1:], strict=True)
        )
    assert by_message == by_cells == expected
    assert contexts[0].event_counts == contexts[1].event_counts == contexts[2].event_counts


@given(st.sampled_from(PLANS), st.data())
def test_a_damaged_message_gives_the_same_both_ways(plans: tuple[Plan, Plan], data: st.DataObject) -> None:
    plan, checked = plans
    message = bytearray(insert_message(cells()))
    lengths = [
        m for m in range(8, len(message)) if message[m - 4 : m] in (bytearray(b"t\0\0\0"), bytearray(4))
    ]
    for position in data.draw(st.lists(st.sampled_from([0, 5, 6, 7, 8, *lengths]), min_size=1, max_size=3)):
        message[position] = data.draw(st.integers(0, 255))
    assert outcome(plan.change, bytes(message), 0) == outcome(checked.change, bytes(message), 0)


def outcome(convert: Any, *arguments: Any) -> Any:
    """The records, or the error's type and message."""
    try:
        return convert(*arguments, context())
    except (DecodeError, ConversionError) as error:
        return type(error), str(error)


class Registry:
    """Remembers what is registered."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}

    def register(self, subject: str, schema: str) -> int:
        self.schemas[subject] = fastavro.parse_schema(json.loads(schema))
        return len(self.schemas)


def test_avro_records_are_those_fastavro_reads_and_equal_both_ways() -> None:
    registry = Registry()
    key_converter, value_converter = (AvroConverter(registry, is_key=is_key) for is_key in (True, False))  # type: ignore[arg-type]
    table = replace(TABLE, columns=TABLE.columns[:-1])
    plan = compile_plan(
        table,
        ConversionOptions("shop", "db", provide_transaction_metadata=True),
        key_converter,
        value_converter,
        "shop.public.orders",
    )
    assert set(registry.schemas) == {"shop.public.orders-key", "shop.public.orders-value"}
    here = context()
    (record,) = plan.change(insert_message(cells()), 0, here)
    assert [record] == plan.insert(cells(), context())
    plan.insert(cells(), here)
    assert (here.total_order, here.event_counts) == (2, {"public.orders": 2})
    key, encoded, _ = record
    assert key is not None
    assert encoded is not None
    assert fastavro.schemaless_reader(
        io.BytesIO(key[5:]), registry.schemas["shop.public.orders-key"], None
    ) == {
        "shop": "s",
        "id": 7,
    }
    read: Any = fastavro.schemaless_reader(
        io.BytesIO(encoded[5:]), registry.schemas["shop.public.orders-value"], None
    )
    assert read["after"]["placed"] == 1767225600500000
    assert str(read["after"]["price"]) == "1.50"
    assert read["transaction"] == {"id": "99:600", "total_order": 1, "data_collection_order": 1}
    deleted, _ = plan.delete("K", old_key(), context())
    read = fastavro.schemaless_reader(
        io.BytesIO((deleted[1] or b"")[5:]), registry.schemas["shop.public.orders-value"], None
    )
    assert (read["op"], read["after"], read["before"]["paid"]) == ("d", None, False)
    plan.insert(cells(), here)
    chunk = EventContext()
    chunk.now_ns = 1_700_000_000_123_456_789
    chunk.snapshot_row("incremental", 0, None, 0)
    chunk.follow(here)
    ((_, row, _),) = plan.read_incremental(cells(), chunk)
    read = fastavro.schemaless_reader(
        io.BytesIO((row or b"")[5:]), registry.schemas["shop.public.orders-value"], None
    )
    source = read["source"]
    assert (source["snapshot"], source["lsn"], source["txId"]) == ("incremental", None, None)
    assert source["sequence"].endswith(f',"{here.position}"]')
    assert (source["ts_ms"], source["ts_ns"]) == (1_700_000_000_123, chunk.now_ns)
    assert (read["op"], read["transaction"], read["ts_ns"]) == ("r", None, chunk.now_ns)
    here.position = (
        1000  # a digit more, so that what stands before the digits is written anew, within the transaction
    )
    ((_, row, _),) = plan.insert(cells(), here)
    read = fastavro.schemaless_reader(
        io.BytesIO((row or b"")[5:]), registry.schemas["shop.public.orders-value"], None
    )
    assert (read["source"]["txId"], read["transaction"]["id"]) == (99, "99:1000")


@pytest.mark.parametrize("keeps_null", [False, True])
def test_a_null_of_a_column_with_a_default_in_avro(keeps_null: bool) -> None:
    """``ignore.default.for.nullables``: in new rows, old rows and snapshots."""
    registry = Registry()
    converters = [AvroConverter(registry, is_key=is_key, keeps_null=keeps_null) for is_key in (True, False)]  # type: ignore[arg-type]
    table = replace(
        TABLE,
        columns=(column("n", "int4", key_position=1), replace(column("m", "int4"), default_expression="7")),
        replica_identity="f",
    )
    topic = "shop.public.orders"
    plan = compile_plan(table, ConversionOptions("shop", "db"), *converters, topic)
    ((_, created, _),) = plan.change(insert_message([b"1", None]), 0, context())
    ((_, by_cells, _),) = plan.insert([b"1", None], context())
    ((_, changed, _),) = plan.update("O", [b"1", None], [b"1", b"2"], context())
    assert by_cells == created

    def told(value: bytes | None, part: str) -> Any:
        read: Any = fastavro.schemaless_reader(
            io.BytesIO((value or b"")[5:]), registry.schemas[f"{topic}-value"], None
        )
        return read[part]["m"]

    assert told(created, "after") == told(changed, "before") == (None if keeps_null else 7)
    assert told(changed, "after") == 2


def test_a_column_name_that_avro_does_not_allow_is_refused() -> None:
    table = replace(TABLE, columns=(column("a b", "int4"),))
    key_converter, value_converter = (AvroConverter(Registry(), is_key=k) for k in (True, False))  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="the field name 'a b' is not allowed in Avro"):
        compile_plan(table, ConversionOptions("shop", "db"), key_converter, value_converter, "shop.public.t")
