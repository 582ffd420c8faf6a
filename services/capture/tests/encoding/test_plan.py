"""Plans: Debezium's semantics of changes, and what is refused."""

import json
import struct
from dataclasses import replace

import pytest
from plan_parts import (
    OID,
    ROW,
    TABLE,
    cells,
    column,
    context,
    insert_message,
    old_key,
    plan_for,
    tuple_data,
    value,
)

from tidings_capture.cdc.cells import UNCHANGED, Cells
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.types.conversion import ConversionError
from tidings_capture.postgres.wire.copy_format import parse_copy_line
from tidings_capture.postgres.wire.pgoutput import DecodeError


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
    here.position = 3
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


@pytest.mark.parametrize("way", ["fast", "checked"])
def test_operations_that_are_skipped_are_left_out_of_a_changed_key_too(way: str) -> None:
    """As Debezium does: a changed key is not an update, but a delete and a create."""
    head = struct.pack(">I", OID)
    messages = {
        "insert": insert_message(cells()),
        "update": b"U" + head + b"N" + tuple_data(cells()),
        "full": b"U" + head + b"O" + tuple_data(cells()) + b"N" + tuple_data(cells(note=b"m")),
        "moved": b"U" + head + b"K" + tuple_data(old_key()) + b"N" + tuple_data(cells(id=b"8")),
        "delete": b"D" + head + b"K" + tuple_data(old_key()),
    }
    left = {}
    for skipped in ("", "c", "u", "d"):
        plan = plan_for(
            checked_only=way == "checked",
            skipped_operations=frozenset(skipped),
            provide_transaction_metadata=True,
        )
        here = context()
        left[skipped] = {
            name: "".join((value(record) or {"op": "-"})["op"] for record in plan.change(message, 0, here))
            for name, message in messages.items()
        }
        assert here.total_order == sum(len(ops.replace("-", "")) for ops in left[skipped].values())
    assert left == {
        "": {"insert": "c", "update": "u", "full": "u", "moved": "d-c", "delete": "d-"},
        "c": {"insert": "", "update": "u", "full": "u", "moved": "d-", "delete": "d-"},
        "u": {"insert": "c", "update": "", "full": "", "moved": "d-c", "delete": "d-"},
        "d": {"insert": "c", "update": "u", "full": "u", "moved": "c", "delete": ""},
    }


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
    (record,) = plan_for(unavailable_value=b"gone").update(None, None, new, context())
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
    with pytest.raises(ConversionError, match="is not a change of a row"):
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
