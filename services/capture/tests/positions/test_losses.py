"""Loss is never silent: slot, publication and the server's history behind our back, and what ``on.slot.loss`` does then."""

import contextlib
import json
import os
import signal
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tidings_capture.postgres.errors import HistoryError, PublicationError, SlotError
from tidings_capture.postgres.offsets.history import History, Publication, left_out, switch_point
from tidings_capture.postgres.offsets.losses import Found, find_losses
from tidings_capture.postgres.offsets.offset import SourceOffset, decode_offset, encode_offset
from tidings_capture.postgres.server.setup import SlotState
from tidings_capture.postgres.settings.config import read_connector_config
from tidings_capture.postgres.settings.options import check_options
from tidings_stack.capture import CaptureWorker as Worker

JSON = "org.apache.kafka.connect.json.JsonConverter"
MINIMAL = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "database.hostname": "h",
    "database.user": "u",
    "database.dbname": "d",
    "topic.prefix": "p",
    "key.converter": JSON,
    "value.converter": JSON,
}
HISTORY = History("7", 1, 16, "iudt", (100, 200, 101, 201))
TABLES = [("public", "a"), ("public", "b")]


def publication(**changes: Any) -> Publication:
    members = {("public", "a"): (100, (200,)), ("public", "b"): (101, (201,))}
    return Publication(**{"id": 16, "all_tables": False, "operations": "iudt", "members": members, **changes})


def loss(
    offset: Any = None,
    *,
    slot: Any = None,
    end: int = 1000,
    history: Any = HISTORY,
    published: Any = None,
    files: Any = None,
) -> Any:
    offset = offset or SourceOffset(done_lsn=500, lsn=500, commit_lsn=400, history=HISTORY)
    found = Found(
        slot or SlotState(500, "reserved", active=False),
        end,
        history,
        published or publication(),
        files or {}.get,
    )
    config = read_connector_config("c", MINIMAL, {}, "run")
    return find_losses(offset, found, TABLES, config)


def test_all_is_well() -> None:
    assert loss()[1] is None
    assert (
        loss(SourceOffset(done_lsn=500, lsn=500))[1] is None
    )  # Debezium's offset says nothing of the server


@pytest.mark.parametrize(
    ("given", "kind", "reason"),
    [
        ({"slot": SlotState(501, "reserved", active=False)}, SlotError, "slot_moved"),
        ({"slot": SlotState(400, "lost", active=False)}, SlotError, "slot_lost"),
        ({"end": 499}, HistoryError, "server_behind"),
        ({"history": History("8", 1)}, HistoryError, "other_server"),
        ({"published": publication(id=17)}, PublicationError, "publication"),
        ({"published": publication(operations="iud")}, PublicationError, "publication"),
    ],
)
def test_what_is_lost_is_named(given: dict[str, Any], kind: Any, reason: str) -> None:
    error = loss(**given)[1]
    assert type(error) is kind
    assert error.reason == reason
    assert "on.slot.loss=incremental" in error.hint


def test_a_promoted_replica_goes_on_where_nothing_is_lost() -> None:
    offset = SourceOffset(done_lsn=0x500, lsn=0x500, commit_lsn=0x400, history=HISTORY)
    promoted = History("7", 3, 16, "iudt", HISTORY.tables)

    def after(content: Any) -> Any:
        slot = SlotState(0x100, "reserved", active=False)
        return loss(offset, slot=slot, end=0x2000, history=promoted, files=lambda _: content)

    # It had everything; it lacked only WAL in which nothing was captured; it lacked a change that was sent.
    assert after("1\t0/600\tno recovery target specified\n\n2\t0/700\tx\n") == (offset, None)
    position, error = after("1\t0/450\tx\n2\t0/700\tx\n")
    assert (position.done_lsn, position.lsn, error) == (0x450, 0x450, None)
    error = after("1\t0/3FF\tx\n2\t0/700\tx\n")[1]
    assert isinstance(error, HistoryError)
    assert "left timeline 1 at 0/3FF" in str(error)
    assert "does not come from timeline 1" in str(after("2\t0/700\tx\n")[1])
    assert switch_point("", 1) is None


def test_which_tables_the_publication_was_without() -> None:
    def without(**members: Any) -> Any:
        known = publication().members
        return left_out(
            HISTORY, publication(members={**known, **{("public", t): v for t, v in members.items()}}), TABLES
        )

    assert without() == []
    assert without(b=(101, ())) == [("public", "b")]
    assert without(b=(101, (999,))) == [("public", "b")]  # taken out, and put in again
    assert without(b=(101, (5, 201))) == []
    assert without(b=(555, ())) == []  # another table of that name: dropped and created, it has no history
    assert (
        left_out(HISTORY, publication(members={("public", "a"): (100, (200,))}), TABLES) == []
    )  # b was dropped
    assert left_out(HISTORY, None, TABLES) is None
    assert left_out(History("7", 1), publication(), TABLES) == []
    everything = publication(all_tables=True, members={})
    assert left_out(History("7", 1, 16, "iudt"), everything, TABLES) == []


def test_the_offset_holds_its_history() -> None:
    offset = SourceOffset(done_lsn=5, lsn=5, history=HISTORY)
    stored = encode_offset(offset)
    # Kafka Connect discards an offset with a value that is not a primitive, and Debezium would take a new snapshot.
    assert all(isinstance(value, (str, int, bool)) for value in json.loads(stored).values())
    assert json.loads(json.loads(stored)["tidings_history"]) == {
        "system": "7", "timeline": 1, "publication": 16, "operations": "iudt", "tables": [100, 200, 101, 201],
    }  # fmt: skip
    assert decode_offset(stored) == offset


def test_options() -> None:
    for value, wrong in (("", False), ("20%", False), ("20 parsecs", True), ("101%", True), ("0%", True)):
        problems = check_options(MINIMAL | {"tidings.wal.guard.warn": value})
        assert ("tidings.wal.guard.warn" in problems) is wrong, value
    assert "on.slot.loss" in check_options(MINIMAL | {"on.slot.loss": "shrug"})
    assert "read.only" in str(check_options(MINIMAL | {"on.slot.loss": "incremental"})["on.slot.loss"])
    fine = MINIMAL | {"read.only": "true", "tidings.wal.guard.warn": "1GB", "tidings.wal.guard.drop": "90%"}
    assert check_options(fine) == {}
    assert "read.only" in str(check_options(MINIMAL | {"tidings.wal.guard.drop": "90%"}))
    assert check_options(fine | {"tidings.wal.guard.pause": "500MB"}).keys() == {"tidings.wal.guard.drop"}
    assert check_options(fine | {"tidings.wal.guard.pause.connectors": "a"}).keys() == {
        "tidings.wal.guard.pause.connectors"
    }


def rest(worker: Worker, name: str, action: Any) -> None:
    assert worker.request("PUT", f"/connectors/{name}/{action}")[0] in {202, 204}


def configure(worker: Worker, name: str, config: Any) -> None:
    status, body = worker.request("PUT", f"/connectors/{name}/config", config)
    assert status == 200, body


def test_a_dropped_slot_and_every_table_read_again(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    """Also a table without a key, which cannot be read in chunks; and the new stream is there meanwhile."""
    sql("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE k (v int)")
    config = connector_config | {
        "snapshot.mode": "no_data",
        "incremental.snapshot.chunk.size": "2",
        "read.only": "true",
    }
    name = create(config)
    sql("INSERT INTO a SELECT generate_series(1, 3)", "INSERT INTO k VALUES (1)")
    wait_records(f"{name}.public.a", 3)
    rest(worker, name, "pause")
    free = f"SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{name}'"
    wait_until("the slot to be free", lambda: sql(free) == [(True,)])
    sql(f"SELECT pg_drop_replication_slot('{name}')")
    sql("INSERT INTO a SELECT generate_series(4, 9)", "INSERT INTO k VALUES (2)")
    rest(worker, name, "resume")
    trace = worker.wait_task(name, "FAILED")["trace"]
    assert "does not exist any more" in trace
    assert "on.slot.loss=incremental" in trace

    configure(worker, name, config | {"on.slot.loss": "incremental"})
    worker.wait_task(name, "RUNNING")
    pid = worker.task_pid()
    os.kill(pid, signal.SIGKILL)  # what has yet to be read is stored with the new position
    wait_until("another process", lambda: worker.task_pid() not in {pid, None})
    worker.wait_task(name, "RUNNING")
    sql("INSERT INTO a VALUES (10)", "INSERT INTO k VALUES (3)")

    def seen(table: Any, column: str) -> dict[Any, Any]:
        found = {}
        for record in read_topic(f"{name}.public.{table}"):
            found.setdefault(record.value["after"][column], set()).add(record.value["op"])
        return found

    wait_until(
        "every row", lambda: set(seen("a", "id")) == set(range(1, 11)) and set(seen("k", "v")) == {1, 2, 3}
    )
    assert all("r" in seen("a", "id")[number] for number in range(4, 10))
    assert "r" in seen("k", "v")[2]
    assert "c" in seen("a", "id")[10]
    assert (
        f'tidings_capture_losses_total{{connector="{name}",reason="slot_missing"}} 1.0'
        in worker.request("GET", "/metrics")[1]
    )
    wait_until(
        "the end of the reading",
        lambda: (
            f'tidings_capture_recovering{{connector="{name}"}} 0.0' in worker.request("GET", "/metrics")[1]
        ),
    )


def test_a_publication_that_was_without_a_table(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    config = connector_config | {
        "publication.autocreate.mode": "filtered",
        "snapshot.mode": "no_data",
        "read.only": "true",
    }
    name = create(config)
    sql("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    wait_records(f"{name}.public.b", 1)
    # Under a running task.
    sql(f'ALTER PUBLICATION "{name}" DROP TABLE b', "INSERT INTO b VALUES (2)", "INSERT INTO a VALUES (2)")
    trace = worker.wait_task(name, "FAILED")["trace"]  # perhaps before the row of a was read
    assert trace.startswith("publication: ")
    assert "without public.b," in trace
    # Put in again by hand: the changes in between are still missing.
    sql(f'ALTER PUBLICATION "{name}" ADD TABLE b')
    worker.request("POST", f"/connectors/{name}/tasks/0/restart")
    wait_until("the same again", lambda: "without public.b," in (worker.task(name).get("trace") or ""))
    configure(worker, name, config | {"on.slot.loss": "incremental"})
    worker.wait_task(name, "RUNNING")
    wait_until("the row", lambda: {r.value["after"]["id"] for r in read_topic(f"{name}.public.b")} == {1, 2})
    wait_records(f"{name}.public.a", 2)
    assert len(read_topic(f"{name}.public.a")) == 2  # only what was left out is read again

    # Dropped as a whole while nobody looked; accepted.
    rest(worker, name, "pause")
    sql(f'DROP PUBLICATION "{name}"', "INSERT INTO b VALUES (3)")
    configure(worker, name, config)
    rest(worker, name, "resume")
    assert "does not exist any more" in worker.wait_task(name, "FAILED")["trace"]
    configure(worker, name, config | {"on.slot.loss": "continue"})
    worker.wait_task(name, "RUNNING")
    sql("INSERT INTO b VALUES (4)")
    wait_until("the next row", lambda: 4 in {r.value["after"]["id"] for r in read_topic(f"{name}.public.b")})
    assert 3 not in {r.value["after"]["id"] for r in read_topic(f"{name}.public.b")}


def test_failover_to_a_replica(
    stack: Any,
    pg_server: Callable[..., Any],
    worker: Worker,
    unique_name: str,
    connector_config: dict[str, str],
    read_topic: Callable[[str], list[Any]],
    wait_until: Callable[..., Any],
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    """The replica lacks the last change of table a, which has been published; of table b it lacks nothing."""
    primary = pg_server("17")
    replica = stack.add_replica(primary, {"hot_standby_feedback": "on"})

    def ask(server: Any, statement: str) -> Any:
        with psycopg.connect(server.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    for table in ("a", "b"):
        ask(primary, f"CREATE TABLE {table} (id int PRIMARY KEY)")
    parts = conninfo_to_dict(primary.url)
    names = {table: f"{unique_name}_{table}" for table in ("a", "b")}

    def config(table: Any, server: Any, **changes: Any) -> Any:
        name = names[table]
        return connector_config | {
            "database.port": str(server.port), "database.password": str(parts["password"]),
            "database.dbname": "postgres", "table.include.list": f"public.{table}", "topic.prefix": name,
            "slot.name": name, "publication.name": name, "publication.autocreate.mode": "filtered",
            "slot.failover": "true", "snapshot.mode": "no_data", "read.only": "true", **changes,
        }  # fmt: skip

    try:
        for table, name in names.items():
            assert worker.request("PUT", f"/connectors/{name}/config", config(table, primary))[0] == 201
            worker.wait_task(name, "RUNNING")
            ask(primary, f"INSERT INTO {table} VALUES (1)")
            wait_records(f"{name}.public.{table}", 1)
        synced = "SELECT count(*) FROM pg_replication_slots WHERE synced AND NOT temporary AND invalidation_reason IS NULL"

        def both_synced() -> bool:  # what sync_replication_slots=on does at intervals of up to 30 seconds
            ask(primary, "SELECT pg_log_standby_snapshot()")
            # The slot may be ahead of what the replica has got yet, which this function refuses.
            with contextlib.suppress(psycopg.errors.ObjectNotInPrerequisiteState):
                ask(replica, "SELECT pg_sync_replication_slots()")
            return ask(replica, synced) == [(2,)]

        wait_until("the slots on the replica", both_synced, 120)
        wait_until("the rows on the replica", lambda: ask(replica, "SELECT count(*) FROM b") == [(1,)])
        ask(replica, "ALTER SYSTEM SET primary_conninfo = ''")
        ask(replica, "SELECT pg_reload_conf()")
        wait_until(
            "no replication", lambda: ask(replica, "SELECT count(*) FROM pg_stat_wal_receiver") == [(0,)]
        )
        ask(primary, "INSERT INTO a VALUES (2)")
        wait_records(f"{names['a']}.public.a", 2)
        for name in names.values():
            rest(worker, name, "stop")
        primary.kill()
        ask(replica, "SELECT pg_promote()")
        ask(replica, "INSERT INTO a VALUES (3)")
        ask(replica, "INSERT INTO b VALUES (3)")

        def ids(table: Any) -> list[Any]:
            return [record.value["after"]["id"] for record in read_topic(f"{names[table]}.public.{table}")]

        for table, name in names.items():
            configure(worker, name, config(table, replica))
            rest(worker, name, "resume")
        worker.wait_task(names["b"], "RUNNING")
        wait_until("the new primary's row", lambda: ids("b") == [1, 3])
        trace = worker.wait_task(names["a"], "FAILED")["trace"]
        assert trace.startswith("history: the server left timeline 1 at ")
        configure(worker, names["a"], config("a", replica, **{"on.slot.loss": "incremental"}))
        wait_until("all that the new primary has", lambda: {1, 3} <= set(ids("a")[2:]))
    finally:
        for name in names.values():
            worker.request("DELETE", f"/connectors/{name}")
        replica.close()
        primary.close()
