"""Signals by every channel, and what they do to an incremental snapshot."""

import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest
from a_transform import A_TRANSFORM
from confluent_kafka import Producer

from tidings_capture.cdc.incremental.state import Collection, IncrementalState, restored_state
from tidings_capture.cdc.signals.channels import signal_of_json, signal_of_row
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.postgres.server.chunk_query import chunk_query, literal
from tidings_envelope.java.hash_order import copied_map_order
from tidings_stack.capture import CaptureWorker as Worker


@pytest.fixture
def rows(sql: Callable[..., list[tuple[Any, ...]]]) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY, t text)")
    sql("INSERT INTO a SELECT i, 'x' FROM generate_series(1, 10) i")
    sql("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")


@pytest.fixture
def options(connector_config: dict[str, str]) -> Any:
    return connector_config | {
        "snapshot.mode": "no_data",
        "table.include.list": "public.a",
        "signal.data.collection": "public.signals",
        "signal.poll.interval.ms": "100",
        "incremental.snapshot.chunk.size": "3",
    }


def ids(records: Any) -> list[Any]:
    return [r.key["id"] for r in records if r.value and r.value["source"]["snapshot"] == "incremental"]


SNAPSHOT = {"type": "execute-snapshot", "data": {"data-collections": ["public.a"]}}


def test_by_file(
    create: Callable[..., str],
    options: Any,
    rows: None,
    tmp_path: Path,
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    file = tmp_path / "signals.txt"
    name = create(options | {"signal.enabled.channels": "file,source", "signal.file": str(file)})
    file.write_text("nonsense\n" + json.dumps({"id": "1", **SNAPSHOT}) + "\n" + '{"id": "half')
    assert ids(wait_records(f"{name}.public.a", 10)) == list(range(1, 11))
    assert file.read_text() == '{"id": "half'


def test_by_topic_for_this_connector_alone(
    create: Callable[..., str],
    options: Any,
    rows: None,
    kafka_bootstrap: str,
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    worker: Worker,
) -> None:
    topic = f"{options['topic.prefix']}-asked"
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    text = json.dumps({"id": "1", **SNAPSHOT})
    producer.produce(topic, text, "another")
    producer.produce(topic, text, options["topic.prefix"])
    producer.flush(30)
    name = create(
        options
        | {
            "signal.enabled.channels": "kafka,source",
            "signal.kafka.topic": topic,
            "signal.kafka.groupId": topic,
        }
    )
    assert ids(wait_records(f"{name}.public.a", 10)) == list(range(1, 11))
    # A restart does not read it again.
    assert worker.request("POST", f"/connectors/{name}/tasks/0/restart")[0] == 204
    worker.wait_task(name, "RUNNING")
    producer.produce(topic, json.dumps({"id": "2", **SNAPSHOT}), name)
    producer.flush(30)
    wait_records(f"{name}.public.a", 20)
    assert len(ids(read_topic(f"{name}.public.a"))) == 20


def test_by_rest_with_pause_and_stop(
    worker: Worker,
    create: Callable[..., str],
    options: Any,
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
    read_topic: Callable[[str], list[Any]],
) -> None:
    sql("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b SELECT generate_series(1, 10)")
    sql("INSERT INTO a SELECT i, 'x' FROM generate_series(11, 200) i")
    name = create(options | {"table.include.list": "public.a,public.b"})

    def post(type_: Any, **data: Any) -> Any:
        return worker.request("POST", f"/connectors/{name}/signals", {"type": type_, "data": data})

    assert post("execute-snapshot", **{"data-collections": ["public.a", "public.b"]})[0] == 202
    assert post("pause-snapshot")[0] == 202
    wait_until("the first chunk", lambda: len(ids(read_topic(f"{name}.public.a"))) >= 3)
    for key in (1000, 1001):
        sql(f"INSERT INTO a VALUES ({key}, 'streamed')")
        wait_until(
            "the stream", lambda key=key: any(r.key["id"] == key for r in read_topic(f"{name}.public.a"))
        )
        sent = len(ids(read_topic(f"{name}.public.a")))
        if key == 1000:
            paused_at = sent
    assert sent == paused_at < 200, "it went on although it is paused"
    assert post("stop-snapshot", **{"data-collections": ["public.b"]})[0] == 202
    assert post("resume-snapshot")[0] == 202
    wait_until("the rest", lambda: len(ids(read_topic(f"{name}.public.a"))) >= 200)
    assert post("execute-snapshot", **{"data-collections": ["public.b"]})[0] == 202
    assert ids(wait_records(f"{name}.public.b", 10)) == list(range(1, 11)), "a stopped table was read"
    assert worker.request("POST", f"/connectors/{name}/signals", {"data": {}})[0] == 400
    assert worker.request("PUT", f"/connectors/{name}/stop")[0] == 204
    assert post("log")[0] == 409


def test_a_table_without_a_key_by_a_surrogate(
    worker: Worker,
    create: Callable[..., str],
    options: Any,
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    sql("CREATE TABLE c (n int, t text)", "INSERT INTO c SELECT i, 'x' FROM generate_series(1, 7) i")
    sql("INSERT INTO c VALUES (NULL, 'null')")
    name = create(options | {"table.include.list": "public.c"})
    data = {"data-collections": ["public.c"], "surrogate-key": "n"}
    worker.request("POST", f"/connectors/{name}/signals", {"type": "execute-snapshot", "data": data})
    found = [r.value["after"]["n"] for r in wait_records(f"{name}.public.c", 8)]
    assert found == [1, 2, 3, 4, 5, 6, 7, None]


def test_sql_that_postgresql_refuses_does_not_end_the_stream(
    worker: Worker,
    create: Callable[..., str],
    options: Any,
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
) -> None:
    name = create(
        options
        | {
            "notification.enabled.channels": "sink",
            "notification.sink.topic.name": f"{options['topic.prefix']}.notes",
        }
    )
    wrong = {"data-collection": "public.a", "filter": "SELECT nonsense FROM public.a"}
    data = {"data-collections": ["public.a"], "type": "blocking", "additional-conditions": [wrong]}
    asked = {"type": "execute-snapshot", "data": data}
    assert worker.request("POST", f"/connectors/{name}/signals", asked)[0] == 202
    wait_until(
        "it is given up", lambda: [r.value["type"] for r in read_topic(f"{name}.notes")][-1:] == ["ABORTED"]
    )
    sql("UPDATE a SET t = 'y' WHERE id = 1")
    assert [r.value["op"] for r in wait_records(f"{name}.public.a", 1)] == ["u"]
    assert worker.task(name)["state"] == "RUNNING"


def test_without_a_signal_table_until_there_is_one(
    worker: Worker,
    create: Callable[..., str],
    options: Any,
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
) -> None:
    notes = f"{options['topic.prefix']}.notes"
    name = create(
        options
        | {
            "signal.data.collection": 'public."Late"',
            "notification.enabled.channels": "sink",
            "notification.sink.topic.name": notes,
        }
    )
    assert worker.request("POST", f"/connectors/{name}/signals", SNAPSHOT)[0] == 202
    told = lambda: [r.value for r in read_topic(notes)]  # noqa: E731
    wait_until("it is given up", lambda: [note["type"] for note in told()][-1:] == ["COMPLETED"])
    assert told()[-2]["additional_data"]["status"] == "SQL_EXCEPTION"
    sql('CREATE TABLE "Late" (id text PRIMARY KEY, type text, data text)')
    assert worker.request("POST", f"/connectors/{name}/signals", SNAPSHOT)[0] == 202
    assert ids(wait_records(f"{name}.public.a", 10)) == list(range(1, 11))


def test_a_table_that_changes_in_the_middle(
    worker: Worker,
    create: Callable[..., str],
    options: Any,
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    read_topic: Callable[[str], list[Any]],
) -> None:
    name = create(options)
    sql("ALTER TABLE a ADD COLUMN late int DEFAULT 7")
    sql("INSERT INTO a VALUES (50, 'y')")
    body = {"type": "execute-snapshot", "data": {"data-collections": ["public.a"]}}
    worker.request("POST", f"/connectors/{name}/signals", body)
    wait_until("all", lambda: len(ids(read_topic(f"{name}.public.a"))) >= 11)
    sql("ALTER TABLE a DROP COLUMN t", "UPDATE a SET late = 8 WHERE id = 50")
    worker.request("POST", f"/connectors/{name}/signals", body)
    wait_until("all again", lambda: len(ids(read_topic(f"{name}.public.a"))) >= 22)
    last = [r.value["after"] for r in read_topic(f"{name}.public.a") if r.value["op"] == "r"][-11:]
    assert last == [{"id": i, "late": 7} for i in range(1, 11)] + [{"id": 50, "late": 8}]


@pytest.mark.parametrize("marks", ["signal table", "read only"])
def test_a_delete_that_others_do_not_see_yet_is_not_undone(
    worker: Worker,
    create: Callable[..., str],
    options: Any,
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    commits_wait: Callable[..., AbstractContextManager[None]],
    wait_until: Callable[..., Any],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    marks: str,
) -> None:
    """A commit is in the WAL, and streamed, before others see it: a chunk that is read meanwhile still holds the row."""
    more = {"read.only": "true"} if marks == "read only" else {}
    name = create(options | more | {"incremental.snapshot.chunk.size": "20"})
    with commits_wait("DELETE FROM a WHERE id = 5"):
        wait_records(f"{name}.public.a", 1)
        assert sql("SELECT count(*) FROM a") == [(10,)]
        assert worker.request("POST", f"/connectors/{name}/signals", SNAPSHOT)[0] == 202
        time.sleep(1.5)  # whoever does not wait reads the chunk within milliseconds
    sql("INSERT INTO a VALUES (11, 'behind')")
    wait_until("the row behind", lambda: any(r.key["id"] == 11 for r in read_topic(f"{name}.public.a")))
    wait_until("the chunk", lambda: len(ids(read_topic(f"{name}.public.a"))) >= 9)
    assert sorted(set(ids(read_topic(f"{name}.public.a"))) - {11}) == [1, 2, 3, 4, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("limited", [False, True], ids=["of a superuser", "of a user who sees no activity"])
def test_a_delete_that_was_streamed_before_a_restart_is_not_undone(
    worker: Worker,
    create: Callable[..., str],
    options: Any,
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    commits_wait: Callable[..., AbstractContextManager[None]],
    wait_until: Callable[..., Any],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    unique_name: str,
    limited: bool,
) -> None:
    """A stream does not tell again what is behind its position, and others may not see all of that yet.

    What a session waits for is shown to its own user and to pg_monitor's; everybody sees the transaction that the position names.
    """
    config = options | {"read.only": "true", "incremental.snapshot.chunk.size": "20"}
    topic = f"{unique_name}.public.a"
    if limited:
        sql(
            f"CREATE ROLE {unique_name} LOGIN REPLICATION PASSWORD 'p'",
            f"GRANT SELECT ON a, signals TO {unique_name}",
            f"CREATE PUBLICATION {unique_name} FOR TABLE a",
        )
        config |= {
            "database.user": unique_name,
            "database.password": "p",
            "publication.autocreate.mode": "disabled",
        }
    name = create(config)
    with commits_wait("DELETE FROM a WHERE id = 5"):
        wait_records(topic, 1)
        if not limited:
            sql("INSERT INTO a VALUES (11, 'seen at once')")
            wait_records(topic, 3)  # the delete's tombstone is one
        task = worker.task_pid()
        assert worker.request("POST", f"/connectors/{name}/tasks/0/restart")[0] == 204
        wait_until("another task", lambda: worker.task_pid() not in (None, task))
        worker.wait_task(name, "RUNNING")
        assert sql("SELECT count(*) FROM a WHERE id = 5") == [(1,)]
        assert worker.request("POST", f"/connectors/{name}/signals", SNAPSHOT)[0] == 202
        time.sleep(2)  # whoever does not wait reads the chunk within milliseconds
        assert not ids(read_topic(topic))
    wait_until("the chunk", lambda: len(ids(read_topic(topic))) >= 9)
    assert sorted(set(ids(read_topic(topic))) - {11}) == [1, 2, 3, 4, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("channel", ["REST", "table"])
def test_commits_that_wait_for_this_very_stream_end_while_chunks_are_read(
    worker: Worker,
    create: Callable[..., str],
    options: Any,
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    pg_database: str,
    synchronous_standbys: Callable[[str], AbstractContextManager[None]],
    wait_until: Callable[..., Any],
    read_topic: Callable[[str], list[Any]],
    channel: str,
) -> None:
    """`synchronous_standby_names = '*'` takes a capture task for a standby, too, if no other is there.

    The task writes signals and heartbeats beside its stream; neither may wait for what the stream does next. A signal's own
    transaction is streamed as far as its row when it is dealt with.
    """
    sql("CREATE TABLE beats (at timestamptz)")
    beats = {"heartbeat.interval.ms": "50", "heartbeat.action.query": "INSERT INTO beats VALUES (now())"}
    name = create(options | beats | {"incremental.snapshot.chunk.size": "1"})
    stop = Event()

    def write() -> int:
        written = 0
        with psycopg.connect(pg_database, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute("UPDATE a SET t = t || 'x' WHERE id = 5")
                written += 1
        return written

    with psycopg.connect(pg_database, autocommit=True) as other, ThreadPoolExecutor(5) as pool:
        with synchronous_standbys("*"):
            writers: list[Future[Any]] = [pool.submit(write) for _ in range(4)]
            try:
                if channel == "REST":
                    assert worker.request("POST", f"/connectors/{name}/signals", SNAPSHOT)[0] == 202
                else:
                    insert = "INSERT INTO signals VALUES ('s', 'execute-snapshot', %s)"
                    pool.submit(other.execute, insert, [json.dumps(SNAPSHOT["data"])])
                wait_until("the last chunk", lambda: 10 in ids(read_topic(f"{name}.public.a")), 40)
                seen = sql("SELECT count(*) FROM beats")
                wait_until("a heartbeat", lambda: sql("SELECT count(*) FROM beats") > seen)
            finally:
                stop.set()
        assert all(writer.result(30) for writer in writers)


@pytest.mark.parametrize("transforms", [{}, A_TRANSFORM], ids=["as they are", "transformed"])
@pytest.mark.parametrize("read_only", ["false", "true"])
def test_rows_that_change_within_the_window_are_left_to_the_stream(
    worker: Worker,
    create: Callable[..., str],
    options: Any,
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    arm: Callable[..., Callable[[], bool]],
    wait_until: Callable[..., Any],
    read_topic: Callable[[str], list[Any]],
    transforms: dict[str, str],
    read_only: str,
) -> None:
    """Else what was read before the change would be told behind it. Transforms have the rows in another form than Kafka."""
    name = create(options | transforms | {"read.only": read_only})
    sql("UPDATE a SET t = t WHERE id = 9")  # the stream announces the table
    topic = f"{name}.public.a"
    wait_until("the stream", lambda: read_topic(topic))
    frozen = arm("window.read", action="freeze")
    assert worker.request("POST", f"/connectors/{name}/signals", SNAPSHOT)[0] == 202
    wait_until("the chunk is read", frozen)
    sql("UPDATE a SET t = 'newer' WHERE id = 1", "DELETE FROM a WHERE id = 2")
    os.kill(worker.task_pid(), signal.SIGCONT)
    wait_until("the last chunk", lambda: 10 in ids(read_topic(topic)))
    assert ids(read_topic(topic)) == list(range(3, 11))


def test_a_label_that_an_enum_gets_while_a_chunk_waits(
    worker: Worker,
    create: Callable[..., str],
    options: Any,
    sql: Callable[..., list[tuple[Any, ...]]],
    arm: Callable[..., Callable[[], bool]],
    wait_until: Callable[..., Any],
    read_topic: Callable[[str], list[Any]],
) -> None:
    """The table's plan is made anew in the middle of the window: a delete behind that counts as one before."""
    sql("CREATE TYPE mood AS ENUM ('sad')", "CREATE TABLE a (id int PRIMARY KEY, m mood)")
    sql("INSERT INTO a SELECT i, 'sad' FROM generate_series(1, 3) i")
    sql("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
    name = create(options)
    sql("UPDATE a SET m = m WHERE id = 1")  # announced, with the labels of now
    topic = f"{name}.public.a"
    wait_until("the update", lambda: read_topic(topic))
    frozen = arm("window.read", action="freeze")
    assert worker.request("POST", f"/connectors/{name}/signals", SNAPSHOT)[0] == 202
    wait_until("the chunk is read", frozen)
    sql(
        "ALTER TYPE mood ADD VALUE 'glad'",
        "UPDATE a SET m = 'glad' WHERE id = 1",
        "DELETE FROM a WHERE id = 2",
    )
    os.kill(worker.task_pid(), signal.SIGCONT)
    wait_until("the chunk", lambda: 3 in ids(read_topic(topic)))
    records = [(r.key["id"], r.value["op"]) for r in read_topic(topic) if r.value]
    assert (2, "r") not in records[records.index((2, "d")) :]


def column(name: str, *, not_null: bool = True) -> Column:
    return Column(name, 23, -1, "int4", not_null, key_position=1)


def test_queries() -> None:
    one = Table("s", "t", 1, (column("a"), column("b", not_null=False)))
    assert chunk_query(one, one.columns[:1], "", None, ["9"], 5) == (
        'COPY (SELECT "a", "b" FROM "s"."t" ORDER BY "a" LIMIT 5) TO STDOUT'
    )
    assert """WHERE (x) AND (("a") > ('3')) AND NOT (("a") > ('9')) ORDER""" in chunk_query(
        one, one.columns[:1], "x", ["3"], ["9"], 5
    )
    both = chunk_query(one, one.columns, "", ["3", "4"], None, 5)
    assert """WHERE (("a" > '3') OR ("a" = '3' AND ("b" > '4' OR "b" IS NULL)))""" in both
    assert """WHERE (("a" > '3'))""" in chunk_query(one, one.columns, "", ["3", None], None, 5)
    assert literal("a'\\") == "E'a''\\\\'"


def test_state_survives_the_offset() -> None:
    state = IncrementalState([Collection("public.a", "x > 1", "k", "s1")], "s1", ["3"], ["9"], ["6"])
    found = restored_state(json.loads(json.dumps(state.stored())))
    assert found == IncrementalState(state.collections, "s1", ["3"], ["9"], ["3"])
    assert restored_state(None).running is False
    assert IncrementalState().stored() is None


def test_signals_that_cannot_be_understood() -> None:
    assert signal_of_json("{") is None
    assert signal_of_json("[]") is None
    assert signal_of_json('{"id": 1, "data": {}}') is None
    assert signal_of_json('{"id": 1, "type": "log", "data": 3}') is None
    assert signal_of_row([b"1", b"log", b"nonsense"]) is None
    assert signal_of_row([None, b"log", b"{}"]) is None
    assert signal_of_row([b"1", b"log", None]).data == {}


def test_order_of_a_copied_map() -> None:
    names = ["scanned_collection", "total_rows_scanned"]
    assert sorted(copied_map_order(names, ["connector_name"])) == ["connector_name", *names]
    assert copied_map_order(["data_collections"], ["connector_name"]) == [
        "connector_name",
        "data_collections",
    ]
