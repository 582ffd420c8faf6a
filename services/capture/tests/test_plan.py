"""Plans: Debezium's semantics of changes, and two ways to the same bytes."""

import io
import json
import struct
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_capture.conversion_options import ConversionOptions, DecimalHandling
from tidings_capture.converters import AvroConverter, Converter, make_converter
from tidings_capture.copy_format import parse_copy_line
from tidings_capture.event_context import EventContext
from tidings_capture.pgoutput import UNCHANGED, Cells, DecodeError
from tidings_capture.plan import Plan, Record, compile_plan
from tidings_capture.relations import Column, Table
from tidings_capture.types.conversion import ConversionError
from tidings_envelope.errors import SchemaError

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
    made.lsn = 600
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


def test_an_insert_to_the_byte() -> None:
    ((key, encoded, headers),) = plan_for(provide_transaction_metadata=True).insert(cells(), context())
    assert key == b'{"shop":"s","id":7}'
    assert encoded == (
        b'{"before":null,"after":{"note":"n","id":7,"shop":"s","price":"AJY=","paid":true,"placed":1767225600500000,'
        b'"seen":"2026-01-01T00:00:00.123456Z","weight":2.5},"source":{"version":"3.7.0.Final",'
        b'"connector":"postgresql","name":"shop","ts_ms":1767225600123,"snapshot":"false","db":"db",'
        b'"sequence":"[\\"500\\",\\"600\\"]","ts_us":1767225600123456,"ts_ns":1767225600123456000,"schema":"public",'
        b'"table":"orders","txId":99,"lsn":600,"xmin":null,"origin":null,"origin_lsn":null},'
        b'"transaction":{"id":"99:600","total_order":1,"data_collection_order":1},"op":"c","ts_ms":1767225601000,'
        b'"ts_us":1767225601000000,"ts_ns":1767225601000000001}'
    )
    assert headers is None


def test_events_are_numbered_in_the_transaction_and_in_the_table() -> None:
    here = context()
    orders = plan_for(provide_transaction_metadata=True)
    lines = plan_for(replace(TABLE, name="lines"), provide_transaction_metadata=True)
    records = [*orders.insert(cells(), here), *lines.insert(cells(), here), *orders.insert(cells(), here)]
    blocks = [value(record)["transaction"] for record in records]
    assert [(b["total_order"], b["data_collection_order"]) for b in blocks] == [(1, 1), (2, 1), (3, 2)]
    assert (here.total_order, here.event_counts) == (3, {"public.orders": 2, "public.lines": 1})
    here.begin(100, 5, 700)
    ((_, encoded, _),) = orders.insert(cells(), here)
    again = json.loads(encoded or b"")
    assert (again["transaction"]["total_order"], again["source"]["txId"], again["source"]["sequence"]) == (
        1,
        100,
        '["700","600"]',
    )


def test_without_transaction_metadata_events_are_not_numbered() -> None:
    here = context()
    assert value(plan_for().insert(cells(), here)[0])["transaction"] is None
    assert here.total_order == 0


def test_the_first_transaction_of_a_stream_has_no_last_commit() -> None:
    here = EventContext()
    here.begin(1, 2, None)
    here.lsn = 3
    assert value(plan_for().insert(cells(), here)[0])["source"]["sequence"] == '[null,"3"]'


def test_an_origin_is_in_the_source() -> None:
    here = context()
    here.from_origin("other", 42)
    source = value(plan_for().insert(cells(), here)[0])["source"]
    assert (source["origin"], source["origin_lsn"]) == ("other", 42)


def test_a_snapshot_row() -> None:
    here = EventContext()
    here.snapshot_row("first", 10, 5, 1_000_000)
    (record,) = plan_for(provide_transaction_metadata=True).read(cells(), here)
    read = value(record)
    assert (read["op"], read["transaction"], read["source"]["snapshot"]) == ("r", None, "first")
    assert (read["source"]["sequence"], read["source"]["lsn"], read["source"]["txId"]) == (
        '[null,"10"]',
        10,
        5,
    )
    here.snapshot_row("last", 10, 5, 1_000_000)
    assert value(plan_for().read(cells(), here)[0])["source"]["snapshot"] == "last"


def line(**changes: bytes) -> bytes:
    names = [c.name for c in TABLE.columns[:-1]]
    return b"\t".join((dict(zip(names, ROW[:-1], strict=True)) | changes).values()) + b"\n"  # type: ignore[arg-type]


@pytest.mark.parametrize("checked_only", [False, True])
def test_lines_of_a_snapshot_are_read_like_their_cells(checked_only: bool) -> None:
    here = EventContext()
    here.snapshot_row("true", 10, 5, 1_000_000)
    odd = [
        line(id=b"1"),
        line(id=b"2", note=b"\\N"),
        line(id=b"3", note=b"a\\tb\\\\c"),
        line(id=b"4", note=b"control \x01 and \x1f"),
        line(id=b"5", note="outside the plane \U0001f600".encode()),
        line(id=b"6", note='quotes " and é'.encode(), placed=b"infinity"),
        line(id=b"7"),
    ]
    plan, checked = plan_for(checked_only=checked_only), plan_for(checked_only=True)
    expected = [record for one in odd for record in checked.read(parse_copy_line(one), here)]
    assert plan.read_lines(odd, here) == expected
    assert [json.loads(key or b"")["id"] for key, _, _ in plan.read_lines(odd, here)] == list(range(1, 8))


def test_a_line_of_one_column() -> None:
    here = EventContext()
    here.snapshot_row("true", 10, 5, 1_000_000)
    plan = plan_for(replace(TABLE, columns=TABLE.columns[:1]))
    assert [value(record)["after"] for record in plan.read_lines([b"x\n", b"\\N\n", b"\n"], here)] == [
        {"note": "x"},
        {"note": None},
        {"note": ""},
    ]


@pytest.mark.parametrize(
    "broken", [line(price=b"x"), line().replace(b"\t", b"", 1), line(note=b"more\tcells")]
)
def test_a_line_of_a_snapshot_that_cannot_be_read(broken: bytes) -> None:
    here = EventContext()
    here.snapshot_row("true", 10, 5, 1_000_000)
    with pytest.raises(ConversionError, match=r"column 'price'|columns instead of 8"):
        plan_for().read_lines([line(), broken, line()], here)


def test_a_transaction_after_the_snapshot_is_never_taken_for_it() -> None:
    """Snapshot and stream have contexts of their own and share plans, which cache what a context's state renders to."""
    plan = plan_for(provide_transaction_metadata=True)
    snapshot, streamed = EventContext(), EventContext()
    for marker in ("first", "true", "last"):
        snapshot.snapshot_row(marker, 10, 5, 1_000_000)
        plan.read(cells(), snapshot)
        for _ in range(8):
            streamed.begin(77, 2_000_000, 9)
            made = value(plan.insert(cells(), streamed)[0])
            assert (made["source"]["snapshot"], made["source"]["txId"]) == ("false", 77)
            assert made["transaction"]["id"].startswith("77:")
            plan.read(cells(), snapshot)


def test_an_update_under_replica_identity_default_has_no_before() -> None:
    (record,) = plan_for().update(None, None, cells(note=b"m"), context())
    assert (value(record)["op"], value(record)["before"], value(record)["after"]["note"]) == ("u", None, "m")


def test_an_update_under_replica_identity_full_has_the_old_row() -> None:
    (record,) = plan_for().update("O", cells(), cells(note=b"m"), context())
    assert (value(record)["op"], value(record)["before"]["note"], value(record)["after"]["note"]) == (
        "u",
        "n",
        "m",
    )


@pytest.mark.parametrize(("kind", "old"), [("K", old_key()), ("O", cells())])
def test_a_changed_key_is_a_delete_a_tombstone_and_a_create(kind: str, old: Cells) -> None:
    here = context()
    plan = plan_for(provide_transaction_metadata=True, context_headers=(("c", b"x"),))
    deleted, tombstone, created = plan.update(kind, old, cells(id=b"8"), here)
    assert [record[0] for record in (deleted, tombstone, created)] == [
        b'{"shop":"s","id":7}',
        b'{"shop":"s","id":7}',
        b'{"shop":"s","id":8}',
    ]
    assert (value(deleted)["op"], value(tombstone), value(created)["op"]) == ("d", None, "c")
    assert value(created)["before"] is None
    new_key, context_header = ("__debezium.newkey", b'{"shop":"s","id":8}'), ("c", b"x")
    assert deleted[2] == tombstone[2] == [new_key, context_header]
    assert created[2] == [("__debezium.oldkey", b'{"shop":"s","id":7}'), context_header]
    assert [value(r)["transaction"]["total_order"] for r in (deleted, created)] == [1, 2]
    assert here.event_counts == {"public.orders": 2}


def test_without_tombstones_a_changed_key_is_two_records() -> None:
    plan = plan_for(tombstones_on_delete=False)
    assert [value(r)["op"] for r in plan.update("K", old_key(), cells(id=b"8"), context())] == ["d", "c"]
    assert len(plan.delete("K", old_key(), context())) == 1


def test_a_deleted_row_of_which_only_the_key_is_known_has_invented_values() -> None:
    deleted, tombstone = plan_for().delete("K", old_key(), context())
    assert value(deleted)["before"] == {
        "note": None,
        "id": 7,
        "shop": "s",
        "price": "AA==",
        "paid": False,
        "placed": None,
        "seen": None,
        "weight": None,
    }
    assert value(deleted)["after"] is None
    assert tombstone == (deleted[0], None, None)


def test_an_unchanged_toasted_value_is_the_placeholder_or_the_old_rows_value() -> None:
    new: Cells = [UNCHANGED, *cells()[1:]]
    assert (
        value(plan_for().update(None, None, new, context())[0])["after"]["note"]
        == "__debezium_unavailable_value"
    )
    assert value(plan_for().update("O", cells(), new, context())[0])["after"]["note"] == "n"
    (record,) = plan_for(unavailable_value_placeholder="gone").update(None, None, new, context())
    assert value(record)["after"]["note"] == "gone"


def test_an_unchanged_value_without_a_placeholder_in_a_required_column_is_refused() -> None:
    new: Cells = [*cells()[:3], UNCHANGED, *cells()[4:]]
    with pytest.raises(ConversionError, match=r"column 'price' of type numeric.*no placeholder"):
        plan_for().update(None, None, new, context())


def test_a_truncate_has_no_key_and_no_rows() -> None:
    (record,) = plan_for().truncate(context())
    assert record[0] is None
    assert (value(record)["op"], value(record)["before"], value(record)["after"]) == ("t", None, None)


def test_a_table_without_a_key() -> None:
    table = replace(TABLE, columns=tuple(replace(c, key_position=None) for c in TABLE.columns))
    plan = plan_for(table)
    assert plan.insert(cells(), context())[0][0] is None
    assert plan.update("O", cells(), cells(id=b"8"), context())[0][0] is None
    deleted, tombstone = plan.delete("O", cells(), context())
    assert (deleted[0], tombstone) == (None, (None, None, None))


def test_columns_that_are_excluded_or_unknown_are_left_out() -> None:
    table = replace(
        TABLE,
        columns=(*TABLE.columns[:-1], column("where", "point"), column("lsn", "pg_lsn")),
        excluded_columns=frozenset(("where", "id")),
    )
    plan = plan_for(table)
    row: Cells = [*cells(), b"(1,2)", b"0/1"]
    ((key, encoded, _),) = plan.insert(row, context())
    assert plan.change(insert_message(row), 0, context())[0][1] == encoded
    assert key == b'{"shop":"s","id":7}'
    assert list(json.loads(encoded or b"")["after"]) == [
        "note",
        "shop",
        "price",
        "paid",
        "placed",
        "seen",
        "weight",
    ]
    assert plan.omitted_columns == ("lsn",)


def test_a_key_of_an_unknown_type_is_refused() -> None:
    table = replace(TABLE, columns=(column("lsn", "pg_lsn", not_null=True, key_position=1),))
    with pytest.raises(ConversionError, match=r"key column 'lsn' of public\.orders"):
        plan_for(table)


@pytest.mark.parametrize("name", ["price", "placed", "id", "paid", "weight"])
def test_a_cell_of_another_type_is_refused_without_its_content(name: str) -> None:
    row = cells(**{name: b"secret"})
    plan = plan_for()
    refusal = rf"column '{name}' of type"
    with pytest.raises(ConversionError, match=refusal) as by_cells:
        plan.insert(row, context())
    with pytest.raises(ConversionError, match=refusal) as by_message:
        plan.change(insert_message(row), 0, context())
    assert "secret" not in "".join([*_chain(by_cells.value), *_chain(by_message.value)])


def _chain(error: BaseException | None) -> list[str]:
    """The messages that a log would show."""
    if error is None:
        return []
    cause = error.__cause__ if error.__suppress_context__ else error.__cause__ or error.__context__
    return [str(error), *_chain(cause)]


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(ConversionError, match="has 7 columns instead of 8"):
        plan_for().insert(cells()[:-1], context())
    with pytest.raises(ConversionError, match="has 7 columns instead of 8"):
        plan_for().change(insert_message(cells()[:-1]), 0, context())


@pytest.mark.parametrize("data", [b"T\0\0\0\1\0\0\0\0\1", b"B" + bytes(20)])
def test_a_message_that_is_no_change_is_refused(data: bytes) -> None:
    with pytest.raises(ConversionError, match="is no change of a row"):
        plan_for().change(data, 0, context())


@pytest.mark.parametrize("start", [0, 25])
def test_a_message_cut_short_anywhere_is_refused(start: int) -> None:
    message = insert_message(cells(note=b"x" * 300))
    plan = plan_for()
    for size in range(len(message)):
        here = context()
        with pytest.raises(DecodeError):
            plan.change(bytes(start) + message[:size], start, here)
        assert here.total_order == 0
    with pytest.raises(DecodeError, match="too many"):
        plan.change(bytes(start) + message + b"\0", start, context())


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
    assert source["sequence"].endswith(f',"{here.lsn}"]')
    assert (source["ts_ms"], source["ts_ns"]) == (1_700_000_000_123, chunk.now_ns)
    assert (read["op"], read["transaction"], read["ts_ns"]) == ("r", None, chunk.now_ns)
    here.lsn = (
        1000  # a digit more, so that what stands before the digits is written anew, within the transaction
    )
    ((_, row, _),) = plan.insert(cells(), here)
    read = fastavro.schemaless_reader(
        io.BytesIO((row or b"")[5:]), registry.schemas["shop.public.orders-value"], None
    )
    assert (read["source"]["txId"], read["transaction"]["id"]) == (99, "99:1000")


def test_a_column_name_that_avro_does_not_allow_is_refused() -> None:
    table = replace(TABLE, columns=(column("a b", "int4"),))
    key_converter, value_converter = (AvroConverter(Registry(), is_key=k) for k in (True, False))  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="the field name 'a b' is not allowed in Avro"):
        compile_plan(table, ConversionOptions("shop", "db"), key_converter, value_converter, "shop.public.t")
