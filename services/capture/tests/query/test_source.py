"""Query sources on a real PostgreSQL: what is read and not read, offsets, crashes between equal timestamps."""

import gc
import random
from collections.abc import Callable
from zoneinfo import ZoneInfo

import psycopg
import pytest
from query_parts import BOTH, TABLE, await_ids, ids, quick_wait

from tidings_capture.query.address import read_address
from tidings_capture.query.errors import QueryError
from tidings_capture.query.postgresql import Postgres
from tidings_connect.testing.memory_worker import Crash, MemoryWorker

POINTS = ["batch.sent", "records.acknowledged", "offset.written", "offset.stored"]


def test_offsets_are_those_of_the_well_known_connectors(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], pg_database: str
) -> None:
    """Both ways: what they stored is gone on from, and what is stored has their form."""
    run(
        TABLE,
        "INSERT INTO ev (updated) SELECT ('2026-01-01 00:00:0' || n || '.000123Z')::timestamptz FROM generate_series(1, 3) n",
    )
    begin(**BOTH)
    await_ids(worker, [1, 2, 3])
    database = psycopg.conninfo.conninfo_to_dict(pg_database)["dbname"]
    stored = {
        "partition": {"protocol": "1", "table": f"{database}.public.ev"},
        "offset": {"timestamp": 1767225603000, "timestamp_nanos": 123000, "incrementing": 3},
    }
    worker.wait_for(lambda: worker.offsets() == [stored], "the offset")
    worker.stop()
    worker.alter_offsets(
        [{**stored, "offset": {**stored["offset"], "timestamp": 1767225602000, "incrementing": 2}}]
    )
    worker.resume()
    await_ids(worker, [1, 2, 3, 3])


def test_an_offset_of_an_older_version_is_found(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) SELECT 'x' FROM generate_series(1, 3)")
    begin(mode="incrementing", **{"table.whitelist": "ev"})
    await_ids(worker, [1, 2, 3])
    worker.stop()
    worker.reset_offsets()
    worker.alter_offsets([{"partition": {"table": "ev"}, "offset": {"incrementing": 2}}])
    worker.resume()
    await_ids(worker, [1, 2, 3, 3])


def test_an_update_is_a_new_record_and_equal_timestamps_are_told_apart_by_the_number(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (updated, note) SELECT '2026-01-01Z', 'x' FROM generate_series(1, 2)")
    begin(**BOTH)
    await_ids(worker, [1, 2])
    run("INSERT INTO ev (updated) VALUES ('2026-01-01Z')")
    await_ids(worker, [1, 2, 3])
    run("UPDATE ev SET note = 'y', updated = '2026-01-02Z' WHERE id = 1")
    await_ids(worker, [1, 2, 3, 1])
    assert worker.values("q-ev")[-1]["note"] == "y"


def test_rows_wait_for_the_delay(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (updated) VALUES (now() - interval '1 hour'), (now())")
    begin(**BOTH, **{"timestamp.delay.interval.ms": "60000"})
    await_ids(worker, [1])


@pytest.mark.parametrize("mode", ["incrementing", "timestamp+incrementing"])
def test_a_row_that_is_committed_late_is_waited_for(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], pg_database: str, mode: str
) -> None:
    """With tidings.late.commits=wait; the well-known connectors lose it."""
    run(TABLE)
    begin(**{**BOTH, "mode": mode}, **{"tidings.late.commits": "wait"})
    worker.wait_for(lambda: worker.state == "RUNNING", "RUNNING")
    run("INSERT INTO ev (note) VALUES ('first')")
    await_ids(worker, [1])
    with psycopg.connect(pg_database) as late:
        late.execute("INSERT INTO ev (note) VALUES ('late')")
        run("INSERT INTO ev (note) VALUES ('early')")
        with pytest.raises(AssertionError):
            quick_wait(worker, lambda: len(ids(worker)) > 1)
        late.commit()
    await_ids(worker, [1, 2, 3])


def test_rows_of_one_timestamp_wait_together(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], pg_database: str
) -> None:
    """Where a position cannot stand between them, none is read before all may be."""
    run(TABLE)
    begin(**{**BOTH, "mode": "timestamp"}, **{"tidings.late.commits": "wait"})
    worker.wait_for(lambda: worker.state == "RUNNING", "RUNNING")
    worker.stop()
    run("INSERT INTO ev (updated) VALUES ('2026-01-01Z')")
    with psycopg.connect(pg_database) as late:
        late.execute("INSERT INTO ev (updated) VALUES ('2026-01-01Z')")
        run("INSERT INTO ev (updated) VALUES ('2026-01-01Z')")
        worker.resume()
        with pytest.raises(AssertionError):
            quick_wait(worker, lambda: bool(ids(worker)))
        late.commit()
    worker.wait_for(lambda: len(ids(worker)) >= 3, "three rows")
    worker.stop()
    assert sorted(ids(worker)) == [1, 2, 3]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_crash_between_equal_timestamps_loses_nothing(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], mode: str, seed: int
) -> None:
    """One connector loses the rest of them: its offset is the row's own timestamp. Numbers and crashes are random."""
    chance = random.Random(seed)
    run(TABLE)
    begin(**{**BOTH, "mode": mode}, **{"batch.max.rows": "2"})
    worker.wait_for(lambda: worker.state == "RUNNING", "RUNNING")
    rows = 0
    for second in range(4):
        count = chance.randint(1, 6)
        with worker.crash_at(chance.choice(POINTS), skip=chance.randint(0, 2)) as happened:
            run(
                f"INSERT INTO ev (updated) SELECT timestamptz '2026-01-01Z' + interval '{second} s'"
                f" FROM generate_series(1, {count})"
            )
            rows += count
            worker.wait_for(
                lambda: (happened.is_set() and worker.state == "FAILED") or len(set(ids(worker))) == rows,  # noqa: B023
                "a crash, or all rows",
            )
        if happened.is_set():  # behind the last row, maybe: the task has yet to end by it
            worker.wait_for(lambda: worker.state == "FAILED", "FAILED")
            assert isinstance(worker.error, Crash)
            worker.resume()
    worker.wait_for(lambda: set(ids(worker)) == set(range(1, rows + 1)), "every row")


def test_bulk_reads_everything_each_time(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) VALUES ('a'), ('b')")
    begin(mode="bulk", **{"batch.max.rows": "1"})
    with pytest.raises(AssertionError):
        quick_wait(worker, lambda: worker.state == "FAILED")
    worker.stop()  # sends what has no position, too
    assert ids(worker)[:6] == [1, 2, 1, 2, 1, 2]
    assert worker.offsets() == []


def test_a_result_is_let_go_when_the_server_has_ended_the_session(
    pg_database: str, run: Callable[..., None]
) -> None:
    given = psycopg.conninfo.conninfo_to_dict(pg_database)
    url = f"jdbc:postgresql://{given['host']}:{given['port']}/{given['dbname']}"
    login = {"connection.user": str(given["user"]), "connection.password": str(given.get("password") or "")}
    config = {"connection.url": url, **login}
    database = Postgres(read_address(config), ZoneInfo("UTC"))
    result = database.open("SELECT pg_backend_pid() AS pid", "", [])
    ((pid,),) = result.fetch(1)
    run(f"SELECT pg_terminate_backend({pid})")
    with pytest.raises(QueryError, match="a query cannot be ended"):
        result.close()
    del result
    gc.collect()  # psycopg warns of a cursor that is still open
    database.close()
