"""What becomes of records in tables of PostgreSQL: order, keys, deletes, placeholders, new columns, rows that are refused."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sink_targets import Sink
from table_records import LETTERS, TOPIC, UPSERT, envelope, put, put_changes_of_rows

from tidings_connect.errors import RecordError
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.errors import LostError, TargetError
from tidings_sinks.jdbc.databases.postgres import PostgresDatabase

Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.mark.parametrize("reduces", ["false", "true"])
def test_the_changes_of_a_row_are_applied_in_their_order(sink: Sink, target: Rows, reduces: str) -> None:
    put_changes_of_rows(sink)
    sink.start(TOPIC, **UPSERT, use_reduction_buffer=reduces)
    sink.wait()
    rows = target("SELECT id, note FROM shop_public_orders ORDER BY id")
    assert rows == [(1, "b"), (3, "q"), (5, "changes its key")]


@pytest.mark.parametrize("reduces", ["false", "true"])
def test_after_a_delete_nothing_of_the_former_row_is_left(sink: Sink, target: Rows, reduces: str) -> None:
    target("CREATE TABLE shop_public_orders (id int PRIMARY KEY, note text, state text DEFAULT 'new')")
    target("INSERT INTO shop_public_orders VALUES (1, 'former', 'old')")
    put(sink, 1, "d")
    put(sink, 1, note="b")
    sink.start(TOPIC, **UPSERT, use_reduction_buffer=reduces)
    sink.wait()
    assert target("SELECT * FROM shop_public_orders") == [(1, "b", "new")]


def test_without_deletes_rows_stay(sink: Sink, target: Rows) -> None:
    put(sink, 1, note="a")
    put(sink, 1, "d")
    sink.start(TOPIC, **{**UPSERT, "delete_enabled": "false"})
    sink.wait()
    assert target("SELECT id FROM shop_public_orders") == [(1,)]


@pytest.mark.parametrize("reduces", ["false", "true"])
def test_a_value_that_was_not_sent_stays_as_it_is(sink: Sink, target: Rows, reduces: str) -> None:
    target("CREATE TABLE shop_public_orders (id int PRIMARY KEY, note text, big text NOT NULL)")
    put(sink, 1, note="a", big="kept")
    put(sink, 1, "u", note="b", big=UNAVAILABLE)
    put(sink, 2, "r", note="a", big="first")
    sink.start(TOPIC, **UPSERT, use_reduction_buffer=reduces)
    sink.wait()
    put(sink, 2, "u", note="b", big=UNAVAILABLE)
    sink.wait()
    assert target("SELECT * FROM shop_public_orders ORDER BY id") == [(1, "b", "kept"), (2, "b", "first")]


def test_truncate_empties_the_table_in_its_place_in_the_order(sink: Sink, target: Rows) -> None:
    put(sink, 1, note="a")
    sink.send(TOPIC, None, envelope("t", None))
    put(sink, 2, note="b")
    sink.start(TOPIC, **UPSERT, truncate_enabled="true")
    sink.wait()
    assert target("SELECT id FROM shop_public_orders") == [(2,)]


def test_a_truncate_of_a_table_that_is_not_there_yet_empties_nothing(sink: Sink, target: Rows) -> None:
    """Also where no record behind it makes the table."""
    sink.send(TOPIC, None, envelope("t", None))
    sink.start(TOPIC, **UPSERT, truncate_enabled="true")
    sink.wait()
    put(sink, 1, note="a")
    sink.wait()
    assert target("SELECT id FROM shop_public_orders") == [(1,)]


def test_without_truncates_rows_stay(sink: Sink, target: Rows) -> None:
    put(sink, 1, note="a")
    sink.send(TOPIC, None, envelope("t", None))
    sink.start(TOPIC, **UPSERT)
    sink.wait()
    assert target("SELECT id FROM shop_public_orders") == [(1,)]


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("record_key", {"insert_mode": "upsert"}),
        ("kafka", {}),
        ("record_value", {"primary_key_fields": "id"}),
    ],
)
def test_new_columns_are_added_whatever_the_key(sink: Sink, target: Rows, mode: str, more: Any) -> None:
    sink.start(TOPIC, primary_key_mode=mode, schema_evolution="basic", **more)
    put(sink, 1, note="a")
    sink.wait()
    put(sink, 2, note="b", extra=5)
    put(sink, 3, note=None, extra=None, more=None)
    sink.wait()
    rows = target("SELECT id, note, extra FROM shop_public_orders ORDER BY id")
    assert rows == [(1, "a", None), (2, "b", 5), (3, None, None)]


def test_the_place_of_a_record_is_its_key(sink: Sink, target: Rows) -> None:
    sink.start(TOPIC, primary_key_mode="kafka", schema_evolution="basic")
    put(sink, 1, note="a")
    put(sink, 1, note="a")
    sink.wait()
    rows = target(
        'SELECT __connect_topic, "__connect_partition", __connect_offset, id FROM shop_public_orders'
    )
    assert rows == [(TOPIC, 0, 0, 1), (TOPIC, 0, 1, 1)]


def test_update_changes_rows_that_are_there_and_makes_none(sink: Sink, target: Rows) -> None:
    target("CREATE TABLE shop_public_orders (id int PRIMARY KEY, note text)")
    target("INSERT INTO shop_public_orders VALUES (1, 'a')")
    sink.start(TOPIC, **{**UPSERT, "insert_mode": "update"})
    put(sink, 1, "u", note="b")
    put(sink, 2, "u", note="c")
    sink.wait()
    assert target("SELECT * FROM shop_public_orders") == [(1, "b")]


def test_a_row_that_is_refused_is_a_dead_letter_and_the_others_are_written(sink: Sink, target: Rows) -> None:
    target(
        "CREATE TABLE shop_public_orders (id int PRIMARY KEY, note varchar(5) UNIQUE, amount int CHECK (amount > 0))"
    )
    put(sink, 1, note="a", amount=1)
    put(sink, 2, note="too long", amount=1)
    put(sink, 3, note="c", amount=-1)
    put(sink, 4, note="a", amount=1)
    sink.send(TOPIC, {"id": 5}, "no struct")
    sink.send(TOPIC, None, envelope("c", {"id": 6, "note": "z", "amount": 1}))
    put(sink, 7, note="\0", amount=1)
    put(sink, 8, note="h", amount="secret")
    put(sink, 9, note="i", amount=9)
    sink.start(TOPIC, **UPSERT, **LETTERS)
    sink.wait()
    assert target("SELECT * FROM shop_public_orders ORDER BY id") == [(1, "a", 1), (9, "i", 9)]
    letters = sink.worker.kafka.topics["letters"]
    places = [dict(headers or [])["__connect.errors.offset"] for _, _, headers in letters]
    assert sorted(map(int, places)) == [1, 2, 3, 4, 5, 6, 7]
    said = [dict(headers or [])["__connect.errors.exception.message"].decode() for _, _, headers in letters]
    assert any("shop_public_orders_note_key" in text for text in said)
    assert not any("secret" in text or "too long" in text for text in said)


def test_a_row_that_is_refused_ends_the_task_and_nothing_of_its_batch_is_written(
    sink: Sink, target: Rows
) -> None:
    target("CREATE TABLE shop_public_orders (id int PRIMARY KEY, note varchar(5))")
    put(sink, 1, note="a")
    put(sink, 2, note="secret that is too long")
    sink.start(TOPIC, **UPSERT)
    with pytest.raises(AssertionError, match="the task failed"):
        sink.worker.wait_for(lambda: False, "a failure")
    assert isinstance(sink.worker.error, RecordError)
    assert "partition 0, offset 1" in str(sink.worker.error)
    assert "secret" not in str(sink.worker.error)
    assert target("SELECT * FROM shop_public_orders") == []


def test_letters_are_not_repeated_by_a_restart(sink: Sink, target: Rows) -> None:
    target("CREATE TABLE shop_public_orders (id int PRIMARY KEY, note varchar(5))")
    put(sink, 1, note="a")
    put(sink, 2, note="too long")
    sink.worker.kafka.inputs.produce(TOPIC, b"{spoilt", b"{}")
    sink.start(TOPIC, **UPSERT, **LETTERS)
    sink.wait()
    sink.worker.restart()
    put(sink, 3, note="c")
    sink.wait()
    assert len(sink.worker.kafka.topics["letters"]) == 2
    assert target("SELECT next_offset FROM tidings_sink_positions") == [(4,)]


@pytest.mark.parametrize(
    ("table", "said"), [(None, "there is no table"), ("(id int PRIMARY KEY)", "has no column for note")]
)
def test_nothing_is_made_without_evolution(sink: Sink, target: Rows, table: str | None, said: str) -> None:
    if table is not None:
        target(f"CREATE TABLE shop_public_orders {table}")
    put(sink, 1, note="a")
    sink.start(TOPIC, **{**UPSERT, "schema_evolution": "none"}, **LETTERS)
    with pytest.raises(AssertionError, match="the task failed"):
        sink.worker.wait_for(lambda: False, "a failure")
    assert isinstance(sink.worker.error, TargetError)
    assert said in str(sink.worker.error)


def test_fields_are_left_out_by_name_and_by_topic(sink: Sink, target: Rows) -> None:
    other = "shop.public.lines"
    sink.start(f"{TOPIC},{other}", **UPSERT, field_exclude_list=f"secret,{TOPIC}:note")
    put(sink, 1, note="a", secret="s", amount=1)
    put(sink, 1, topic=other, note="a", secret="s", amount=1)
    sink.wait()
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = '{}' ORDER BY 1"
    assert target(columns.format("shop_public_orders")) == [("amount",), ("id",)]
    assert target(columns.format("shop_public_lines")) == [("amount",), ("id",), ("note",)]


def test_names_come_from_the_source_and_keep_their_case_when_quoted(sink: Sink, target: Rows) -> None:
    target('CREATE SCHEMA "Copy"')
    sink.start(
        TOPIC,
        **UPSERT,
        collection_name_format="Copy.T_${source.schema}_${source.table}",
        quote_identifiers="true",
    )
    put(sink, 1, someNote="a%s", **{'x"y%': 1})
    put(sink, 2, someNote="b", **{'x"y%': 1})
    put(sink, 2, "d")
    sink.wait()
    assert target('SELECT id, "someNote", "x""y%" FROM "Copy"."T_public_orders"') == [(1, "a%s", 1)]


def test_a_column_that_was_dropped_is_noticed(sink: Sink, target: Rows) -> None:
    sink.start(TOPIC, **UPSERT)
    put(sink, 1, note="a")
    sink.wait()
    target("ALTER TABLE shop_public_orders DROP COLUMN note")
    put(sink, 2, note="b")
    sink.wait()
    target("DROP TABLE shop_public_orders")
    put(sink, 3, note="c")
    sink.wait()
    assert target("SELECT id, note FROM shop_public_orders") == [(3, "c")]


def test_a_connection_that_is_ended_loses_and_doubles_nothing(
    sink: Sink, target: Rows, pg_database: str
) -> None:
    target("CREATE TABLE things (place bigserial, number int)")
    sink.start("numbers", collection_name_format="things")
    sink.send("numbers", None, {"number": 0})
    sink.wait()  # a task whose first connection is ended is started again, which the worker in memory does not do
    sent = 1
    for _ in range(4):
        for _ in range(20):
            sink.send("numbers", None, {"number": sent})
            sent += 1
        with psycopg.connect(pg_database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidings-sink'"
            )
    sink.wait()
    assert target("SELECT number FROM things ORDER BY place") == [(number,) for number in range(sent)]


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
def test_a_commit_that_nobody_answers_is_looked_up(
    sink: Sink, target: Rows, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    commit, lost = PostgresDatabase.commit, []

    def unanswered(database: PostgresDatabase) -> None:
        if lost or not target("SELECT 1 FROM things"):
            commit(database)
            return
        lost.append(True)
        if done:
            commit(database)
        database.close()
        raise LostError("the connection to PostgreSQL was lost")

    target("CREATE TABLE things (place bigserial, number int)")
    monkeypatch.setattr(PostgresDatabase, "commit", unanswered)
    sink.start("numbers", collection_name_format="things")
    for number in range(6):
        sink.send("numbers", None, {"number": number})
        sink.worker.wait_for(lambda sent=number: sink.worker.taken > sent, "the record at the task")
    sink.wait()
    assert lost
    assert target("SELECT number FROM things ORDER BY place") == [(number,) for number in range(6)]


def test_a_task_whose_partition_is_another_s_writes_nothing(sink: Sink, target: Rows) -> None:
    sink.start(TOPIC, **UPSERT)
    put(sink, 1, note="a")
    sink.wait()
    target("UPDATE tidings_sink_positions SET epoch = epoch + 1")
    put(sink, 2, note="b")
    task = sink.worker._tasks[0].supervision
    sink.worker.wait_for(lambda: task.last.outstanding > 0, "a batch that waits")
    assert target("SELECT id FROM shop_public_orders") == [(1,)]
    sink.worker.restart()
    sink.wait()
    assert target("SELECT id FROM shop_public_orders ORDER BY id") == [(1,), (2,)]


def test_unique_values_may_change_hands_within_a_batch(sink: Sink, target: Rows) -> None:
    target("CREATE TABLE shop_public_orders (id int PRIMARY KEY, note text UNIQUE)")
    put(sink, 1, note="a")
    put(sink, 2, note="b")
    put(sink, 1, "u", note="free")
    put(sink, 2, "u", note="a")
    put(sink, 1, "u", note="b")
    sink.start(TOPIC, **UPSERT, use_reduction_buffer="true", **LETTERS)
    sink.wait()
    assert target("SELECT * FROM shop_public_orders ORDER BY id") == [(1, "b"), (2, "a")]
    assert "letters" not in sink.worker.kafka.topics
