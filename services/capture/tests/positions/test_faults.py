"""SIGKILL in the middle of traffic: nothing is lost, the numbering stays, what repeats repeats exactly."""

import os
import signal
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from row_traffic import RowTraffic

from tidings_stack.capture import CaptureWorker as Worker

ROWS = 7
BIG = 60_000
"""Rows of a transaction that takes several times as long to send as it takes to store a position."""
Arm = Callable[..., Callable[[], bool]]


def check_history(records: Any, markers: Any, rows: Any) -> None:
    """Every row once or repeated alike; every transaction numbered without a gap; END counts what there is."""
    places = defaultdict(set)
    orders = defaultdict(set)
    for record in records:
        transaction = record.value["transaction"]
        txid = transaction["id"].partition(":")[0]
        places[record.key["id"]].add((txid, transaction["total_order"], record.value["source"]["lsn"]))
        orders[txid].add(transaction["total_order"])
    assert sorted(places) == list(range(1, rows + 1))
    assert all(len(place) == 1 for place in places.values())
    assert all(sorted(found) == list(range(1, len(found) + 1)) for found in orders.values())
    ends = {
        m.value["id"].partition(":")[0]: m.value["event_count"] for m in markers if m.value["status"] == "END"
    }
    assert {txid: len(found) for txid, found in orders.items()} == {t: ends[t] for t in orders}
    # First appearances are in commit order.
    firsts = list(dict.fromkeys(record.key["id"] for record in records))
    assert firsts == sorted(firsts)


@pytest.fixture
def streaming(
    create: Callable[..., str], connector_config: dict[str, str], sql: Callable[..., list[tuple[Any, ...]]]
) -> str:
    """A connector on the shared worker that streams table a; its name."""
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    return create(connector_config | {"provide.transaction.metadata": "true", "snapshot.mode": "no_data"})


@pytest.fixture
def read_all(
    read_topic: Callable[[str], list[Any]], topic_end: Callable[[str], int], wait_until: Callable[..., Any]
) -> Any:
    """All records and markers of a connector, once every row has arrived."""

    def read(name: str, rows: Any, transactions: Any) -> tuple[Any, ...]:
        topic, markers = f"{name}.public.a", f"{name}.transaction"
        wait_until(
            "enough records", lambda: topic_end(topic) >= rows and topic_end(markers) >= 2 * transactions
        )
        wait_until("all rows", lambda: len({r.key["id"] for r in read_topic(topic)}) == rows)
        wait_until(
            "all markers", lambda: len({m.value["id"] for m in read_topic(markers)}) >= 2 * transactions
        )
        return read_topic(topic), read_topic(markers)

    return read


def test_sigkill_of_the_task(
    worker: Worker,
    streaming: str,
    pg_database: str,
    read_all: Any,
    topic_end: Callable[[str], int],
    wait_until: Callable[..., Any],
) -> None:
    with RowTraffic(pg_database, rows=ROWS, pause_seconds=0.002) as traffic:
        # The task itself, and then the process that it was forked from, with which it ends.
        for victim in (lambda pid: pid, parent):
            pid = wait_until("a task", worker.task_pid)
            before = topic_end(f"{streaming}.public.a")
            wait_until("traffic", lambda before=before: topic_end(f"{streaming}.public.a") > before + 50)
            os.kill(victim(pid), signal.SIGKILL)
            wait_until("another task", lambda pid=pid: worker.task_pid() not in {pid, None})
            worker.wait_task(streaming, "RUNNING")
    rows = traffic.total_rows
    check_history(*read_all(streaming, rows, traffic.transactions), rows)
    metrics = worker.request("GET", "/metrics")[1]
    assert f'tidings_capture_task_restarts_total{{connector="{streaming}"}} 2.0' in metrics
    assert f'tidings_capture_errors_total{{code="task_died",connector="{streaming}"}} 2.0' in metrics


def test_sigkill_of_the_whole_worker(
    worker_properties: Callable[..., Path],
    start_worker: Callable[..., Worker],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    pg_database: str,
    unique_name: str,
    read_all: Any,
    topic_end: Callable[[str], int],
    wait_until: Callable[..., Any],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    # The worker that comes back gets its connector when the session of the killed one has ended.
    properties = worker_properties(
        f"group-{unique_name}", session_timeout_ms="6000", heartbeat_interval_ms="500"
    )
    worker = start_worker(properties)
    config = connector_config | {"provide.transaction.metadata": "true", "snapshot.mode": "no_data"}
    assert worker.request("PUT", f"/connectors/{unique_name}/config", config)[0] == 201
    worker.wait_task(unique_name, "RUNNING")
    with RowTraffic(pg_database, rows=ROWS, pause_seconds=0.002) as traffic:
        wait_until("traffic", lambda: topic_end(f"{unique_name}.public.a") > 50)
        task = worker.task_pid()
        worker.kill()
        wait_until("the task to die with its supervisor", lambda: not alive(task))
        worker = start_worker(properties)
        worker.wait_task(unique_name, "RUNNING")
    rows = traffic.total_rows
    check_history(*read_all(unique_name, rows, traffic.transactions), rows)


@pytest.fixture
def kill_within(
    worker: Worker,
    arm: Arm,
    frozen_task: Callable[[Callable[[], bool]], int],
    topic_end: Callable[[str], int],
    wait_until: Callable[..., Any],
    read_topic: Callable[[str], list[Any]],
) -> Callable[[str, Callable[[], object], int], None]:
    """Kills the task of a connector within one transaction of table `a`, and checks that the next goes on within it.

    Fault points decide where, not the time: it is frozen before the last of the rows, and killed when it has stored a second
    position after that; the first may be one from before the transaction.
    """

    def kill(name: str, write: Callable[[], object], rows: int) -> None:
        topic, markers_topic = f"{name}.public.a", f"{name}.transaction"
        held = arm("batch.sent", 2, action="freeze")
        write()
        pid = frozen_task(held)
        killed = arm("offset.stored", 1)
        os.kill(pid, signal.SIGCONT)
        wait_until("a position to be stored", killed)
        wait_until("its end", lambda: worker.task_pid() != pid)
        sent = topic_end(topic)
        assert 0 < sent < rows
        wait_until("the END", lambda: topic_end(markers_topic) >= 2)
        # Another partition: the END may be there before the last rows are. Consumers count the rows, as this does.
        wait_until("all rows", lambda: len({r.key["id"] for r in read_topic(topic)}) == rows)
        records, markers = read_topic(topic), read_topic(markers_topic)
        check_history(records, markers, rows)
        assert Counter(m.value["status"] for m in markers) == {"BEGIN": 1, "END": 1}
        assert len(records) < rows + sent, "the transaction was repeated as a whole"

    return kill


def test_sigkill_within_one_big_transaction_goes_on_within_it(
    streaming: str,
    sql: Callable[..., list[tuple[Any, ...]]],
    kill_within: Callable[[str, Callable[[], object], int], None],
) -> None:
    kill_within(streaming, lambda: sql(f"INSERT INTO a SELECT generate_series(1, {BIG})"), BIG)


def test_sigkill_within_a_streamed_transaction_goes_on_within_it(
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    pg_database: str,
    kill_within: Callable[[str, Callable[[], object], int], None],
) -> None:
    """The server sends it in blocks before it is committed; a subtransaction of it is rolled back."""
    (database,) = sql("SELECT current_database()")[0]
    sql(
        "CREATE TABLE a (id int PRIMARY KEY)",
        f"ALTER DATABASE {database} SET logical_decoding_work_mem = '64kB'",
    )
    name = create(
        connector_config
        | {
            "provide.transaction.metadata": "true",
            "snapshot.mode": "no_data",
            "tidings.streaming.mode": "on",
            "tidings.streaming.memory.bytes": "100000",
        }
    )

    def write() -> None:
        with psycopg.connect(pg_database) as connection:
            connection.execute(f"INSERT INTO a SELECT generate_series(1, {BIG // 2})")
            connection.execute("SAVEPOINT s")
            connection.execute("INSERT INTO a SELECT generate_series(200000, 220000)")
            connection.execute("ROLLBACK TO s")
            connection.execute(f"INSERT INTO a SELECT generate_series({BIG // 2 + 1}, {BIG})")

    kill_within(name, write, BIG)
    assert sql(f"SELECT stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = '{name}'") == [
        (True,)
    ]


def test_walsender_terminated(
    worker: Worker,
    streaming: str,
    sql: Callable[..., list[tuple[Any, ...]]],
    pg_database: str,
    read_all: Any,
    topic_end: Callable[[str], int],
    wait_until: Callable[..., Any],
) -> None:
    with RowTraffic(pg_database, rows=ROWS, pause_seconds=0.002) as traffic:
        wait_until("traffic", lambda: topic_end(f"{streaming}.public.a") > 50)
        sql(
            f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{streaming}'"
        )
        trace = worker.wait_task(streaming, "FAILED")["trace"]
        assert "57P01" in trace
        assert "next attempt in" in trace
        worker.wait_task(streaming, "RUNNING")
    rows = traffic.total_rows
    check_history(*read_all(streaming, rows, traffic.transactions), rows)


def parent(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
