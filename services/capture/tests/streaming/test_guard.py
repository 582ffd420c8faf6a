"""The guard: its levels, and its four steps on a real server whose disk is about to fill."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tidings_capture.postgres.errors import GuardError
from tidings_capture.postgres.offsets.progress import TaskProgress
from tidings_capture.postgres.wal.forecast import ServerWal, SlotWal
from tidings_capture.postgres.wal.guard import level_of, others_that_hold, room_of
from tidings_capture.postgres.wal.options import read_wal_options
from tidings_capture.postgres.wal.task_guard import TaskGuard
from tidings_stack.capture import CaptureWorker as Worker

MB = 1 << 20
OPTIONS = read_wal_options(
    {
        "tidings.wal.guard.warn": "10MB",
        "tidings.wal.guard.stop.snapshots": "30MB",
        "tidings.wal.guard.pause": "60%",
        "tidings.wal.guard.drop": "90%",
    }
)


def slot(megabytes: int | None, name: str = "s") -> SlotWal:
    size = None if megabytes is None else float(megabytes * MB)
    return SlotWal(name, "logical", "d", "pgoutput", False, size, size, None, "reserved")


@pytest.mark.parametrize(
    ("megabytes", "room", "former", "level"),
    [
        (9, 100, 0, 0),
        (10, 100, 0, 1),
        (30, 100, 1, 2),
        (60, 100, 2, 3),
        (90, 100, 0, 4),
        # It eases below 90 % of a limit.
        (28, 100, 2, 2),
        (26, 100, 2, 1),
        (8, 100, 1, 0),
        # Nothing to take a percentage of: the steps in bytes still work.
        (99, None, 0, 2),
        (None, 100, 3, 0),
    ],
)
def test_levels(megabytes: int | None, room: int | None, former: int, level: int) -> None:
    server = ServerWal("h:1", volume_bytes=None if room is None else float(room * MB))
    assert level_of(OPTIONS, slot(megabytes), server, former) == level


def test_room_and_who_else_holds_the_wal() -> None:
    assert room_of(ServerWal("h:1")) is None
    assert room_of(ServerWal("h:1", keep_limit_bytes=5.0, volume_bytes=7.0)) == 5.0
    assert room_of(ServerWal("h:1", volume_bytes=7.0)) == 7.0
    ours = slot(50)
    server = ServerWal("h:1", (ours, slot(49, "newer"), slot(50, "as old"), slot(None, "lost")))
    assert others_that_hold(ours, server) == ["as old"]
    assert OPTIONS.on_loss == "incremental"  # who lets it drop the slot wants the work to go on


def test_a_task_interrupts_its_snapshot_when_the_level_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = TaskProgress()
    guard = TaskGuard(progress)
    guard.level = 1
    guard.check()
    progress.state = "snapshot"
    guard.check()
    assert not guard.no_snapshots
    guard.level = 2
    with pytest.raises(GuardError, match=r"stop\.snapshots"):
        guard.check()
    # The next attempt begins at the level: it gets a minute before it is interrupted again.
    again = TaskGuard(progress)
    again.level = 2
    again.check()
    monkeypatch.setattr("tidings_capture.postgres.wal.task_guard._PATIENCE_SECONDS", 0.0)
    with pytest.raises(GuardError):
        again.check()
    assert not again.stream_only


@pytest.fixture(scope="module")
def guarding(worker_properties: Callable[..., Path], start_worker: Callable[..., Worker]) -> Any:
    """A worker that looks at the slots five times a second."""
    return start_worker(worker_properties(f"guard-{os.getpid()}", tidings_wal_interval_ms="200"))


def metric(worker: Worker, name: str, connector: Any) -> Any:
    lines = worker.request("GET", "/metrics")[1].splitlines()
    found = [line for line in lines if line.startswith(f'{name}{{connector="{connector}"')]
    return float(found[0].rpartition(" ")[2]) if found else None


def test_no_snapshots_while_the_slot_retains_too_much(
    guarding: Any,
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    read_topic: Callable[[str], list[Any]],
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    """A limit of one byte is always passed. What was asked for is not forgotten, and read when the guard lets it."""
    name, topic = connector_config["topic.prefix"], f"{connector_config['topic.prefix']}.public.a"
    sql("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a SELECT generate_series(1, 5)")
    config = connector_config | {"snapshot.mode": "no_data", "read.only": "true"}
    guarded = config | {"tidings.wal.guard.stop.snapshots": "1B"}
    assert guarding.request("PUT", f"/connectors/{name}/config", guarded)[0] == 201
    guarding.wait_task(name, "RUNNING")
    wait_until("the guard", lambda: metric(guarding, "tidings_wal_guard_level", name) == 2)
    # The task is told over the pipe that the signals come through, so before them.
    blocking = {"type": "execute-snapshot", "data": {"data-collections": ["public.a"], "type": "blocking"}}
    assert guarding.request("POST", f"/connectors/{name}/signals", blocking)[0] == 202
    incremental = {"type": "execute-snapshot", "data": {"data-collections": ["public.a"]}}
    assert guarding.request("POST", f"/connectors/{name}/signals", incremental)[0] == 202
    wait_until("the refusal", lambda: "no snapshot now" in guarding.log.read_text())
    sql("INSERT INTO a VALUES (6)")
    wait_records(topic, 1)
    sql("INSERT INTO a VALUES (7)")
    assert [record.value["op"] for record in wait_records(topic, 2)] == ["c", "c"]
    assert guarding.request("PUT", f"/connectors/{name}/config", config)[0] == 200
    wait_until(
        "the rows",
        lambda: (
            {r.value["after"]["id"] for r in read_topic(topic) if r.value["op"] == "r"} == set(range(1, 8))
        ),
    )
    guarding.request("DELETE", f"/connectors/{name}")


@pytest.mark.turns
def test_the_slot_is_dropped_and_everything_is_read_again(
    request: pytest.FixtureRequest,
    sql: Callable[..., list[tuple[Any, ...]]],
    pg_server: Callable[..., Any],
    guarding: Any,
    unique_name: str,
    connector_config: dict[str, str],
    read_topic: Callable[[str], list[Any]],
    wait_until: Callable[..., Any],
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    """A connector that somebody paused and forgot: the guard goes through its steps while traffic goes on."""
    server = pg_server("16", min_wal_size="32MB", max_wal_size="32MB")
    worker = guarding
    parts = conninfo_to_dict(server.url)
    connection = psycopg.connect(server.url, autocommit=True)
    request.addfinalizer(connection.close)
    connection.execute("CREATE TABLE a (id int PRIMARY KEY, filler text)")
    sql("CREATE TABLE b (id int PRIMARY KEY)")  # on another server: there it may rest
    connection.execute("CREATE TABLE noise (filler text)")
    one, other = f"{unique_name}_one", f"{unique_name}_other"

    def config(name: str, table: Any, **changes: Any) -> Any:
        return connector_config | {
            "database.port": str(server.port), "database.password": str(parts["password"]),
            "database.dbname": "postgres", "table.include.list": f"public.{table}", "topic.prefix": name,
            "slot.name": name, "publication.name": name, "publication.autocreate.mode": "filtered",
            "snapshot.mode": "no_data", "read.only": "true", **changes,
        }  # fmt: skip

    guarded = config(
        one, "a", **{
            "tidings.wal.volume.size": "60MB", "tidings.wal.guard.warn": "15%",
            "tidings.wal.guard.stop.snapshots": "30%", "tidings.wal.guard.pause": "45%",
            "tidings.wal.guard.pause.connectors": f"{unique_name}_oth.*", "tidings.wal.guard.drop": "80%",
        },
    )  # fmt: skip
    resting = connector_config | {"topic.prefix": other, "slot.name": other, "snapshot.mode": "no_data"}
    for name, settings in ((one, guarded), (other, resting)):
        assert worker.request("PUT", f"/connectors/{name}/config", settings)[0] == 201
        worker.wait_task(name, "RUNNING")
    connection.execute("INSERT INTO a VALUES (1, 'x')")
    wait_records(f"{one}.public.a", 1)
    assert worker.request("PUT", f"/connectors/{one}/pause")[0] == 202

    rows = [1]

    def write() -> None:
        rows.append(rows[-1] + 1)
        connection.execute("INSERT INTO a VALUES (%s, 'y')", (rows[-1],))
        connection.execute(
            "INSERT INTO noise SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 90000)"
        )

    def seen() -> Any:
        """Whether the guard has seen all that was written: it must not be overtaken."""
        retained = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::float8 FROM pg_replication_slots WHERE slot_name = %s"
        now = connection.execute(retained, (one,)).fetchone()
        lines = worker.request("GET", "/metrics")[1].splitlines()
        shown = [
            x for x in lines if x.startswith("pg_replication_slots_pg_wal_lsn_diff{") and f'"{one}"' in x
        ]
        return now is not None and bool(shown) and float(shown[0].rpartition(" ")[2]) >= now[0]

    def write_until(what: Any, reached: Any) -> bool:
        def check() -> bool:
            if reached():
                return True
            if seen():
                write()
            return False

        wait_until(what, check, 120)

    def reaches(level: Any) -> None:
        write_until(f"level {level}", lambda: (metric(worker, "tidings_wal_guard_level", one) or 0) >= level)

    reaches(1)
    reaches(3)
    # The other connector rests, whose own slot is in no need.
    wait_until("the other to rest", lambda: worker.task(other)["state"] == "PAUSED")
    assert f"rests for connector {one}" in worker.task(other)["trace"]
    write_until("the drop", lambda: metric(worker, "tidings_wal_guard_drops_total", one) == 1.0)
    slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
    assert connection.execute(slots, (one,)).fetchall() == [(0,)]
    worker.wait_task(other, "RUNNING")
    connection.execute("UPDATE a SET filler = 'changed while there was no slot' WHERE id = 1")
    assert "the guard dropped the slot to save the primary" in worker.log.read_text()

    assert worker.request("PUT", f"/connectors/{one}/resume")[0] == 202
    worker.wait_task(one, "RUNNING")
    rows.append(rows[-1] + 1)
    connection.execute("INSERT INTO a VALUES (%s, 'new')", (rows[-1],))

    def state() -> dict[Any, Any]:
        return {record.key["id"]: record.value["after"]["filler"] for record in read_topic(f"{one}.public.a")}

    wait_until(
        "every row as it is now", lambda: state() == dict(connection.execute("SELECT * FROM a").fetchall())
    )
    assert set(state()) == set(rows)
    assert metric(worker, "tidings_capture_losses_total", one) == 1.0
    for name in (one, other):
        worker.request("DELETE", f"/connectors/{name}")
    server.close()
