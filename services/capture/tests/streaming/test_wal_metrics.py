"""WAL metrics: the forecasts, what a scrape and the table show, and a connector's own slot, on a real server."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tidings_capture.postgres.client import Endpoint, read_url
from tidings_capture.postgres.wal.command import endangered, main, table
from tidings_capture.postgres.wal.forecast import (
    ServerWal,
    SlotWal,
    rate_of,
    safe_ratio,
    seconds_to_full_disk,
    seconds_to_limit,
)
from tidings_capture.postgres.wal.monitor import WalMonitor
from tidings_capture.postgres.wal.options import WalOptions
from tidings_capture.postgres.wal.server import ServerWatch
from tidings_capture.postgres.wal.slots import OwnSlot, slot_state
from tidings_connect.data.sizes import format_seconds, format_size, parse_size
from tidings_stack.capture import CaptureWorker as Worker

NEVER = float("inf")


def slot(**changes: Any) -> SlotWal:
    values = {"name": "s", "kind": "logical", "database": "d", "plugin": "pgoutput", "active": True,
              "retained_bytes": 5.0, "unacknowledged_bytes": 3.0, "safe_bytes": 1000.0, "wal_status": "reserved",
              "growth": 10.0}  # fmt: skip
    return SlotWal(**{**values, **changes})


@pytest.mark.parametrize(
    ("samples", "rate"),
    [
        ([], 0.0),
        ([(0, 5)], 0.0),
        ([(0, 0), (10, 100), (20, 400)], 20.0),
        ([(5, 7), (5, 9)], 0.0),
        ([(0, 9), (1, 3)], 0.0),
    ],
)
def test_rate(samples: list[Any], rate: float) -> None:
    assert rate_of(samples) == rate


@pytest.mark.parametrize(
    ("slot_changes", "server_changes", "seconds"),
    [
        ({}, {"keep_limit_bytes": 5000.0}, 100.0),
        # A consumer that keeps up is in no danger, however much is written; one that is away falls behind by all of it.
        ({"growth": 0.0}, {"rate": 50.0, "keep_limit_bytes": 5000.0}, NEVER),
        ({"growth": 0.0, "active": False}, {"rate": 50.0, "keep_limit_bytes": 5000.0}, 20.0),
        ({}, {"rate": 10.0, "keep_limit_bytes": -1.0}, NEVER),
        ({"safe_bytes": -7.0}, {"keep_limit_bytes": 5000.0}, 0.0),
        ({"wal_status": "lost", "safe_bytes": None}, {"keep_limit_bytes": 5000.0}, 0.0),
    ],
)
def test_seconds_to_limit(slot_changes: Any, server_changes: dict[str, Any], seconds: Any) -> None:
    assert seconds_to_limit(slot(**slot_changes), ServerWal("h:1", **server_changes)) == seconds


@pytest.mark.parametrize(
    ("slot_changes", "server_changes", "seconds"),
    [
        ({}, {}, None),
        ({}, {"volume_bytes": 1005.0}, 100.0),
        ({}, {"volume_bytes": 1005.0, "size_bytes": 505.0}, 50.0),
        ({}, {"volume_bytes": 1005.0, "size_bytes": 2000.0}, 0.0),
        ({"growth": 0.0}, {"volume_bytes": 1005.0}, NEVER),
        # The server gives the slot up before the disk is full.
        ({}, {"volume_bytes": 9000.0, "keep_limit_bytes": 5000.0}, NEVER),
        ({"wal_status": "lost"}, {"volume_bytes": 1005.0}, NEVER),
    ],
)
def test_seconds_to_a_full_disk(slot_changes: Any, server_changes: Any, seconds: Any) -> None:
    assert seconds_to_full_disk(slot(**slot_changes), ServerWal("h:1", **server_changes)) == seconds


def test_safe_ratio_and_what_is_endangered() -> None:
    server = ServerWal("h:1", keep_limit_bytes=4000.0)
    assert safe_ratio(slot(), server) == 0.25
    assert safe_ratio(slot(), ServerWal("h:1")) is None
    assert safe_ratio(slot(wal_status="lost", safe_bytes=None), server) == 0.0
    assert endangered(slot(), server)  # 100 seconds
    assert not endangered(slot(growth=0.0), server)
    assert endangered(slot(growth=0.0, wal_status="unreserved"), server)
    assert endangered(slot(growth=0.0), ServerWal("h:1", volume_bytes=100.0, size_bytes=100.0))


def test_sizes_and_times() -> None:
    assert [parse_size(text) for text in ("7", "2kB", "1.5 MB", "20GB", "1TB")] == [
        7, 2048, 3 << 19, 20 << 30, 1 << 40,
    ]  # fmt: skip
    for text in ("", "0", "-1GB", "12 parsecs", "5%"):
        with pytest.raises(ValueError, match="size above zero"):
            parse_size(text)
    assert [format_size(size) for size in (None, 0, 1023, 1536, 150 << 30)] == [
        "-", "0 B", "1023 B", "1.5 KB", "150 GB",
    ]  # fmt: skip
    assert [format_seconds(s) for s in (None, NEVER, 3, 61, 3700, 90_000 * 3)] == [
        "-", "-", "3 s", "1 min", "1 h 01 min", "3 d 3 h",
    ]  # fmt: skip


def test_the_table_says_who_holds_what_and_for_how_long() -> None:
    server = ServerWal(
        "db:5432",
        (
            slot(name="gone", active=False, inactive_seconds=7200.0, retained_bytes=3.0 * (1 << 30)),
            slot(name="ours", active_pid=77, catalog_xmin_age=12.0),
            slot(name="dead", active=False, inactive_seconds=1.0, wal_status="lost", safe_bytes=None,
                 invalidation="wal_removed"),
        ),
        rate=1e6,
        size_bytes=5e9,
        keep_limit_bytes=1e10,
        version=170005,
    )  # fmt: skip
    first, header, *rows = table(server)
    assert "PostgreSQL 17.5" in first
    assert "WAL 977 KB/s" in first
    assert "disk full in" not in header  # nobody said how big it is
    assert re.search(r"^gone .*none for 2 h 00 min.* 3\.0 GB .*reserved", rows[0])
    assert re.search(r"^ours .*pid 77 .* 100 s|1 min", rows[1])
    assert re.search(r"lost \(wal_removed\).*now", rows[2])
    assert "unlimited" in "\n".join(table(ServerWal("db:5432", (slot(),))))


async def test_every_slot_of_the_server_is_shown(
    pg_url: str,
    pg_database: str,
    unique_name: str,
    sql: Callable[..., list[tuple[Any, ...]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    sql(f"SELECT pg_create_logical_replication_slot('{unique_name}', 'test_decoding')")
    endpoint = read_url(pg_url)
    monitor = WalMonitor(
        lambda: {
            "one": OwnSlot(endpoint, "a", WalOptions()),
            "other": OwnSlot(endpoint, "b", WalOptions(volume_bytes=10**12)),
        }
    )
    await monitor.look()
    sql("CREATE TABLE filler AS SELECT generate_series(1, 20000) AS n")
    await monitor.look()
    registry = CollectorRegistry()
    registry.register(monitor)
    text = generate_latest(registry).decode()
    values = {
        line.partition("{")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if f'slot_name="{unique_name}"' in line
    }
    assert values.keys() >= {
        "pg_replication_slots_pg_wal_lsn_diff",
        "pg_replication_slots_wal_status",
        "pg_replication_slots_slot_is_active",
        "pg_replication_slots_slot_current_wal_lsn",
        "tidings_wal_slot_unacknowledged_bytes",
        "tidings_wal_slot_seconds_to_limit",
        "tidings_wal_slot_catalog_xmin_age",
        "tidings_wal_slot_spilled_bytes_total",
    }
    assert values["pg_replication_slots_slot_confirmed_flush_lsn"] > 0
    assert values["tidings_wal_slot_growth_bytes_per_second"] > 100_000
    assert values["tidings_wal_slot_inactive_seconds"] > 0
    assert 0 < values["tidings_wal_slot_seconds_to_full_disk"] < NEVER
    server = f'server="{endpoint.host}:{endpoint.port}"'
    assert f"\npg_wal_size_bytes{{{server}}}" in text
    assert f"\ntidings_wal_keep_limit_bytes{{{server}}} -1.0" in text
    assert f"\ntidings_wal_volume_bytes{{{server}}} 1e+12" in text
    assert monitor.server(endpoint).slot(unique_name).plugin == "test_decoding"
    monitor.close()

    assert main([pg_url, "--sample", "0.01"]) == 0
    assert re.search(rf"^{unique_name} .*test_decoding .*none for \d", capsys.readouterr().out, re.MULTILINE)
    assert main([pg_url, "--sample", "0.01", "--json", "--check", "--disk", "1kB"]) == 3  # "full" already
    shown = json.loads(capsys.readouterr().out)
    assert next(s for s in shown["slots"] if s["slot_name"] == unique_name)["seconds_to_full_disk"] == 0
    assert main(["postgresql://u:secret@127.0.0.1:1/d"]) == 1
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize("version", ["14", "18"])
def test_a_slot_on_its_way_to_being_lost(
    pg_server: Callable[..., Any], version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The oldest server and the newest, which knows more columns."""
    server = pg_server(version, max_slot_wal_keep_size="32MB", max_wal_size="1GB")
    watch = ServerWatch(read_url(server.url))
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        before = watch.read()
        assert before.keep_limit_bytes == 32 << 20
        assert before.slot("s").wal_status == "reserved"
        assert 0.5 < safe_ratio(before.slot("s"), before) <= 1
        for number in range(6):
            connection.execute(f"CREATE TABLE t{number} ()")
            connection.execute("SELECT pg_switch_wal()")
        after = watch.read()
        assert after.slot("s").wal_status == "unreserved"
        assert seconds_to_limit(after.slot("s"), after) == 0
        assert after.slot("s").growth > 0
        connection.execute("CHECKPOINT")
    lost = watch.read().slot("s")
    assert lost.wal_status == "lost"
    assert lost.invalidation == ("wal_removed" if version == "18" else None)
    assert lost.inactive_seconds > 0
    watch.close()
    assert main([server.url, "--sample", "0.01", "--check"]) == 3
    assert re.search(r"^s .*lost.* now", capsys.readouterr().out, re.MULTILINE)
    server.close()


async def test_a_server_that_is_away_has_no_metrics_and_no_exception() -> None:
    away = Endpoint("127.0.0.1", 1, "u", "d")
    monitor = WalMonitor(lambda: {"c": OwnSlot(away, "a", WalOptions())})
    await monitor.look()
    registry = CollectorRegistry()
    registry.register(monitor)
    assert b"127.0.0.1:1" not in generate_latest(registry)
    assert monitor.server(away) is None


def test_a_connectors_own_metrics(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
) -> None:
    """Its slot is ours; the names that exporters of Kafka Connect and Debezium have are there; idle means no lag."""
    sql("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    name = create(connector_config | {"heartbeat.interval.ms": "200", "tidings.wal.volume.size": "1TB"})
    wait_until("streaming", lambda: worker.request("GET", f"/connectors/{name}/snapshot")[0] == 200)
    sql("INSERT INTO a VALUES (2)")

    def metrics() -> dict[Any, Any]:
        found = {}
        for line in worker.request("GET", "/metrics")[1].splitlines():
            if f'="{name}"' in line:
                labels, _, value = line.rpartition(" ")
                found[labels] = float(value)
        return found

    def settled() -> Any:
        found = metrics()
        ours = [
            v for n, v in found.items() if n.startswith("tidings_capture_slot_state") and 'state="ours"' in n
        ]
        trip = found.get(f'tidings_capture_heartbeat_round_trip_seconds{{connector="{name}"}}')
        return ours == [1.0] and trip is not None and found

    wait_until("the slot to be seen, and a heartbeat to come round", settled)
    streaming = f'{{context="streaming",name="{name}",plugin="postgres",task="0"}}'
    wait_until("no lag", lambda: metrics()[f"debezium_metrics_MilliSecondsBehindSource{streaming}"] == 0)
    found = metrics()
    assert found[f"debezium_metrics_Connected{streaming}"] == 1
    assert found[f"debezium_metrics_MilliSecondsSinceLastEvent{streaming}"] >= 0
    assert found[f"debezium_metrics_QueueRemainingCapacity{streaming}"] > 0
    snapshot = streaming.replace("streaming", "snapshot")
    assert found[f"debezium_metrics_SnapshotCompleted{snapshot}"] == 1
    assert found[f"debezium_metrics_RemainingTableCount{snapshot}"] == 0
    assert (
        found[
            f'debezium_metrics_RowsScanned{{context="snapshot",name="{name}",plugin="postgres",table="public.a"}}'
        ]
        == 1
    )
    assert found[f'kafka_connect_worker_connector_running_task_count{{connector="{name}"}}'] == 1
    assert found[f'kafka_connect_connector_task_status{{connector="{name}",status="running",task="0"}}'] == 1
    assert found[f'kafka_connect_source_task_source_record_write_total{{connector="{name}",task="0"}}'] >= 2


async def test_the_watch_outlives_a_look_that_fails() -> None:
    """Whatever goes wrong in one look, the next one follows."""
    looks = []

    async def act(_place: Any) -> None:
        looks.append(1)
        if len(looks) == 1:
            raise ZeroDivisionError
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await WalMonitor(dict, 0.01).run(act)
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("seen", "own_pid", "state"),
    [
        (slot(name="s", active_pid=7), 7, "ours"),
        (slot(name="s", active_pid=7), 8, "held"),
        (slot(name="s", active_pid=7), None, "held"),
        (slot(name="s", active=False), None, "inactive"),
        (slot(name="s", wal_status="lost"), 7, "lost"),
        (slot(name="another"), 7, "missing"),
    ],
)
def test_whose_a_connectors_slot_is(seen: Any, own_pid: int | None, state: str) -> None:
    assert slot_state("s", own_pid, ServerWal("h:1", (seen,))) == state


@pytest.mark.parametrize("turns", range(6))
async def test_a_watch_that_is_cancelled_ends(turns: int) -> None:
    """Whenever that is: also in the turn of the event loop in which it learns which slots there are."""
    read = threading.Event()

    def slots() -> dict[str, OwnSlot]:
        read.set()
        return {}

    watch = asyncio.create_task(WalMonitor(slots, 60).run())
    await asyncio.sleep(0)
    assert read.wait(5)
    time.sleep(0.05)  # noqa: ASYNC251 - the answer must be there before the event loop goes on
    for _ in range(turns):
        await asyncio.sleep(0)
    watch.cancel()
    done, _ = await asyncio.wait([watch], timeout=1)
    assert done, "it goes on"
