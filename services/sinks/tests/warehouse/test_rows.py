"""What becomes of records in tables of the warehouse: order, keys, deletes, placeholders, columns, rows that are refused."""

import random
from pathlib import Path
from typing import Any

import pytest
from sink_targets import Sink
from structlog.testing import capture_logs
from table_records import LETTERS, TOPIC, envelope, put, put_changes_of_rows
from warehouse_parts import ask

from tidings_connect.errors import OptionError, RecordError
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.errors import TargetError

UPSERT = {
    "insert_mode": "upsert",
    "delete_enabled": "true",
    "pk_mode": "record_key",
    "auto_create": "true",
    "auto_evolve": "true",
}
Warehouse = tuple[Sink, Path]


@pytest.mark.parametrize("size", ["1", "3", "1000"])
def test_the_changes_of_a_row_are_merged_in_their_order(warehouse: Warehouse, size: str) -> None:
    sink, file = warehouse
    put_changes_of_rows(sink)
    sink.start(TOPIC, **UPSERT, batch_size=size)
    sink.wait()
    assert ask(file, "SELECT id, note FROM shop_public_orders ORDER BY id") == [
        (1, "b"),
        (3, "q"),
        (5, "changes its key"),
    ]


def test_after_a_delete_nothing_of_the_former_row_is_left(warehouse: Warehouse) -> None:
    sink, file = warehouse
    ask(file, "CREATE TABLE shop_public_orders (id INT PRIMARY KEY, note TEXT, state TEXT DEFAULT 'new')")
    ask(file, "INSERT INTO shop_public_orders VALUES (1, 'former', 'old')")
    put(sink, 1, "d")
    put(sink, 1, note="b")
    sink.start(TOPIC, **UPSERT)
    sink.wait()
    assert ask(file, "SELECT * FROM shop_public_orders") == [(1, "b", "new")]


def test_values_that_were_not_sent_are_those_of_the_batch_or_of_the_table(warehouse: Warehouse) -> None:
    sink, file = warehouse
    ask(file, "CREATE TABLE shop_public_orders (id INT PRIMARY KEY, note TEXT, big TEXT NOT NULL, l TEXT[])")
    put(sink, 1, note="a", big="kept")
    put(sink, 1, "u", note="b", big=UNAVAILABLE)
    put(sink, 1, "u", note=UNAVAILABLE, big="changed")
    put(sink, 2, "r", note="a", big="first")
    sink.start(TOPIC, **UPSERT)
    sink.wait()
    put(sink, 2, "u", note="b", big=UNAVAILABLE)
    put(sink, 2, "u", note=UNAVAILABLE, big=UNAVAILABLE)
    sink.wait()
    rows = ask(file, "SELECT id, note, big FROM shop_public_orders ORDER BY id")
    assert rows == [(1, "b", "changed"), (2, "b", "first")]


def test_a_truncate_of_a_table_that_is_not_there_yet_empties_nothing(warehouse: Warehouse) -> None:
    sink, file = warehouse
    sink.send(TOPIC, None, envelope("t", None))
    sink.start(TOPIC, **UPSERT, truncate_enabled="true")
    sink.wait()
    put(sink, 1, note="a")
    sink.wait()
    assert ask(file, "SELECT id FROM shop_public_orders") == [(1,)]


@pytest.mark.parametrize(("truncates", "rows"), [("true", [(2,)]), ("false", [(1,), (2,)])])
def test_truncate_empties_the_table_in_its_place_in_the_order(
    warehouse: Warehouse, truncates: str, rows: list[Any]
) -> None:
    sink, file = warehouse
    put(sink, 1, note="a")
    sink.send(TOPIC, None, envelope("t", None))
    put(sink, 2, note="b")
    sink.start(TOPIC, **UPSERT, truncate_enabled=truncates)
    sink.wait()
    assert ask(file, "SELECT id FROM shop_public_orders ORDER BY id") == rows


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("record_key", {"insert_mode": "upsert"}),
        ("kafka", {}),
        ("record_value", {"pk_fields": "id"}),
        ("none", {}),
    ],
)
def test_new_columns_are_added_whatever_the_key(warehouse: Warehouse, mode: str, more: Any) -> None:
    sink, file = warehouse
    # By Debezium's names of the options as well.
    sink.start(TOPIC, primary_key_mode=mode, schema_evolution="basic", **more)
    put(sink, 1, note="a")
    sink.wait()
    put(sink, 2, note="b", extra=5)
    put(sink, 3, note=None, extra=None, more=None)
    sink.wait()
    rows = ask(file, "SELECT id, note, extra FROM shop_public_orders ORDER BY id")
    assert rows == [(1, "a", None), (2, "b", 5), (3, None, None)]


def test_update_changes_rows_that_are_there_and_makes_none(warehouse: Warehouse) -> None:
    sink, file = warehouse
    ask(
        file,
        "CREATE TABLE shop_public_orders (id INT, note TEXT)",
        "INSERT INTO shop_public_orders VALUES (1, 'a')",
    )
    sink.start(TOPIC, **{**UPSERT, "insert_mode": "update"})
    put(sink, 1, "u", note="b")
    put(sink, 2, "u", note="c")
    sink.wait()
    assert ask(file, "SELECT * FROM shop_public_orders") == [(1, "b")]


def test_insert_appends_every_record_and_deletes_in_their_place(warehouse: Warehouse) -> None:
    sink, file = warehouse
    for note in ("a", "b"):
        put(sink, 1, note=note)
    put(sink, 2, note="c")
    put(sink, 2, "d")
    put(sink, 2, note="d")
    put(sink, 2, note="e")
    sink.start(TOPIC, **{**UPSERT, "insert_mode": "insert"})
    sink.wait()
    rows = ask(file, "SELECT id, note FROM shop_public_orders ORDER BY rowid")
    assert rows == [(1, "a"), (1, "b"), (2, "d"), (2, "e")]


def test_a_row_that_is_refused_is_a_dead_letter_and_the_others_are_merged(warehouse: Warehouse) -> None:
    sink, file = warehouse
    table = "id INT PRIMARY KEY, note TEXT UNIQUE, amount TINYINT CHECK (amount > 0), kind TEXT NOT NULL"
    ask(file, f"CREATE TABLE shop_public_orders ({table})")
    put(sink, 1, note="a", amount=1, kind="k")
    put(sink, 2, note="b", amount=1000, kind="k")
    put(sink, 3, note="c", amount=-1, kind="k")
    put(sink, 4, note="a", amount=1, kind="k")
    sink.send(TOPIC, {"id": 5}, "no struct")
    sink.send(TOPIC, None, envelope("c", {"id": 6, "note": "z", "amount": 1, "kind": "k"}))
    put(sink, 7, note="g", amount=1, kind=None)
    put(sink, 8, note="h", amount="secret", kind="k")
    sink.send(TOPIC, {"id": None}, envelope("c", {"id": None, "note": "n", "amount": 1, "kind": "k"}))
    put(sink, 9, note="i", amount=9, kind="k")
    put(sink, 10, note="j", amount=2**70, kind="k")
    sink.start(TOPIC, **UPSERT, **LETTERS)
    sink.wait()
    rows = ask(file, "SELECT id, note, amount FROM shop_public_orders ORDER BY id")
    assert rows == [(1, "a", 1), (9, "i", 9)]
    letters = sink.worker.kafka.topics["letters"]
    places = [dict(headers or [])["__connect.errors.offset"] for _, _, headers in letters]
    assert sorted(map(int, places)) == [1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert all(value for _, value, _ in letters), (
        "with the records as they were read, also of those refused at the merge"
    )
    said = [dict(headers or [])["__connect.errors.exception.message"].decode() for _, _, headers in letters]
    assert any("NOT NULL constraint failed: shop_public_orders.kind" in text for text in said)
    assert not any("secret" in text or "1000" in text for text in said)
    assert ask(file, "SELECT next_offset FROM tidings_sink_positions") == [(11,)]


def test_a_row_that_is_refused_ends_the_task(warehouse: Warehouse) -> None:
    sink, file = warehouse
    ask(file, "CREATE TABLE shop_public_orders (id INT, note INT)")
    put(sink, 1, note=1)
    put(sink, 2, note="secret")
    sink.start(TOPIC, **UPSERT)
    with pytest.raises(AssertionError, match="the task failed"):
        sink.worker.wait_for(lambda: False, "a failure")
    assert isinstance(sink.worker.error, RecordError)
    assert "partition 0, offset 1" in str(sink.worker.error)
    assert "secret" not in str(sink.worker.error)


@pytest.mark.parametrize(
    ("table", "said"), [(None, "there is no table"), ("(id INT)", "has no column for note")]
)
def test_nothing_is_made_without_evolution(warehouse: Warehouse, table: str | None, said: str) -> None:
    sink, file = warehouse
    if table is not None:
        ask(file, f"CREATE TABLE shop_public_orders {table}")
    put(sink, 1, note="a")
    sink.start(TOPIC, insert_mode="upsert", pk_mode="record_key", **LETTERS)
    with pytest.raises(AssertionError, match="the task failed"):
        sink.worker.wait_for(lambda: False, "a failure")
    assert isinstance(sink.worker.error, TargetError)
    assert said in str(sink.worker.error)


def test_tables_are_named_by_the_source_in_schemas_that_are_made(warehouse: Warehouse) -> None:
    sink, file = warehouse
    sink.start(TOPIC, **UPSERT, table_name_format="copy_${source.schema}.${source.table}")
    odd: Any = {'x"y%': 1}
    put(sink, 1, someNote="a", **odd)
    put(sink, 2, someNote="b")
    put(sink, 2, "d")
    sink.wait()
    assert ask(file, 'SELECT id, "someNote", "x""y%" FROM copy_public.orders') == [(1, "a", 1)]


def test_a_table_that_changed_between_two_batches_is_noticed(warehouse: Warehouse) -> None:
    sink, file = warehouse
    sink.start(TOPIC, **UPSERT)
    put(sink, 1, note="a")
    sink.wait()
    ask(file, "ALTER TABLE shop_public_orders DROP COLUMN note")
    put(sink, 2, note="b")
    sink.wait()
    ask(file, "DROP TABLE shop_public_orders")
    put(sink, 3, note="c")
    sink.wait()
    assert ask(file, "SELECT id, note FROM shop_public_orders") == [(3, "c")]


def test_a_task_whose_partition_is_another_s_writes_nothing(warehouse: Warehouse) -> None:
    sink, file = warehouse
    sink.start(TOPIC, **UPSERT)
    put(sink, 1, note="a")
    sink.wait()
    ask(file, "UPDATE tidings_sink_positions SET epoch = epoch + 1")
    put(sink, 2, note="b")
    with capture_logs() as logs:
        sink.worker.wait_for(
            lambda: any("not committed" in str(e) or "busy" in str(e) for e in logs), "a refusal"
        )
    assert ask(file, "SELECT id FROM shop_public_orders") == [(1,)]
    sink.worker.restart()
    sink.wait()
    assert ask(file, "SELECT id FROM shop_public_orders ORDER BY id") == [(1,), (2,)]


def test_events_are_there_once_by_their_id_and_what_is_deprecated_is_said(warehouse: Warehouse) -> None:
    sink, file = warehouse
    topic = "shop.order-placed.v1"
    with capture_logs() as logs:
        sink.start(
            topic,
            insert_mode="upsert",
            pk_mode="record_header",
            pk_fields="ce_id,ce_subject",
            auto_create="true",
        )
        for number, event in ((1, "e-1"), (2, "e-2"), (1, "e-1")):
            headers = [
                ("ce_id", event.encode()),
                ("ce_subject", f"order-{number}".encode()),
                ("ce_deprecated", b"true"),
            ]
            sink.send(topic, f"order-{number}", {"order_id": number}, headers=headers)
        sink.wait()
    assert ask(file, 'SELECT ce_id, ce_subject, order_id FROM "shop_order-placed_v1" ORDER BY 1') == [
        ("e-1", "order-1", 1),
        ("e-2", "order-2", 2),
    ]
    assert [each["topic"] for each in logs if each["event"] == "events of a topic are deprecated"] == [topic]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("connection.url", "jdbc:duckdb:relative.duckdb", "absolute path"),
        ("insert.mode", "upsert", "needs pk.mode"),
        ("delete.enabled", "true", "pk.mode=record_key"),
        ("primary.key.mode", "some", "one of none"),
        ("tidings.duckdb.memory.limit", "much", "256MB"),
        ("connection.password", "x", "has no users"),
        ("tidings.snapshot.file", "warehouse", "it is the warehouse itself"),
    ],
)
def test_wrong_options_are_refused_by_name(warehouse: Warehouse, name: str, value: str, said: str) -> None:
    sink, file = warehouse
    text = str(file) if value == "warehouse" else value
    with pytest.raises(OptionError, match=said) as caught:
        sink.worker.put({**sink.config, "topics": TOPIC, name: text})
    assert name in str(caught.value)


@pytest.mark.parametrize("seed", range(2))
def test_random_streams_end_as_the_model_says(warehouse: Warehouse, seed: int) -> None:
    """Inserts, updates with values that were not sent, deletes, changes of keys and columns, TRUNCATE; restarts in between."""
    print("seed", seed)
    sink, file = warehouse
    chance = random.Random(seed)
    rows: dict[int, dict[str, Any]] = {}
    columns = ["note", "big"]

    def change() -> None:
        number = chance.randrange(12)
        match chance.choices(["write", "delete", "key", "column", "truncate"], [70, 15, 10, 3, 2])[0]:
            case "write":
                row: dict[str, Any] = {name: f"{chance.random():.3f}" for name in columns}
                unsent = {name for name in columns if number in rows and chance.random() < 0.3}
                put(sink, number, "u", **row | dict.fromkeys(unsent, UNAVAILABLE))
                rows[number] = rows.get(number, {}) | {name: row[name] for name in row if name not in unsent}
            case "delete":
                put(sink, number, "d")
                rows.pop(number, None)
            case "key" if number in rows:
                put(sink, number, "d")
                row = {name: rows[number].get(name) for name in columns}
                put(sink, number + 100, **row)
                rows.pop(number)
                rows[number + 100] = row
            case "column":
                columns.append(f"c{len(columns)}")
            case "truncate":
                sink.send(TOPIC, None, envelope("t", None))
                rows.clear()

    sink.start(TOPIC, **UPSERT, truncate_enabled="true", batch_size=str(chance.choice([3, 7, 100])))
    for _ in range(6):
        for _ in range(chance.randrange(5, 60)):
            change()
        if chance.random() < 0.4:
            sink.worker.restart()
        if chance.random() < 0.6:
            sink.wait()
    put(sink, 999, "u", **dict.fromkeys(columns, "end"))
    sink.wait()
    names = ["id", *columns]
    found = ask(file, f"SELECT {', '.join(names)} FROM shop_public_orders WHERE id <> 999 ORDER BY id")
    assert found == [(number, *(row.get(name) for name in columns)) for number, row in sorted(rows.items())]
