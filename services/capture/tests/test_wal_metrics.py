"""WAL metrics: the forecasts, and what a scrape shows."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tidings_capture.wal import ServerWal, SlotWal, WalMonitor, seconds_to_limit, wal_rate


def slot(**changes):
    values = {"name": "s", "kind": "logical", "database": "d", "plugin": "pgoutput", "active": True,
              "retained_bytes": 5.0, "unacknowledged_bytes": 3.0, "safe_bytes": 1000.0, "wal_status": "reserved"}  # fmt: skip
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
def test_rate(samples, rate):
    assert wal_rate(samples) == rate


@pytest.mark.parametrize(
    ("slot_changes", "server_changes", "seconds"),
    [
        ({}, {"rate": 10.0, "keep_limit_bytes": 5000.0}, 100.0),
        ({}, {"rate": 0.0, "keep_limit_bytes": 5000.0}, float("inf")),
        ({}, {"rate": 10.0, "keep_limit_bytes": -1.0}, float("inf")),
        ({"safe_bytes": -7.0}, {"rate": 10.0, "keep_limit_bytes": 5000.0}, 0.0),
        ({"wal_status": "lost", "safe_bytes": None}, {"rate": 10.0, "keep_limit_bytes": 5000.0}, 0.0),
    ],
)
def test_seconds_to_limit(slot_changes, server_changes, seconds):
    assert seconds_to_limit(slot(**slot_changes), ServerWal("h:1", **server_changes)) == seconds


async def test_every_slot_of_the_server_is_shown(pg_url, pg_database, unique_name, sql):
    from psycopg.conninfo import conninfo_to_dict

    from tidings_capture.postgres import Endpoint

    parts = conninfo_to_dict(pg_url)
    sql(f"SELECT pg_create_logical_replication_slot('{unique_name}', 'test_decoding')")
    endpoint = Endpoint(
        str(parts["host"]),
        int(parts["port"]),
        str(parts["user"]),
        "postgres",
        str(parts.get("password") or ""),
    )
    monitor = WalMonitor(lambda: [endpoint, endpoint])
    await monitor.look()
    registry = CollectorRegistry()
    registry.register(monitor)
    lines = [
        line
        for line in generate_latest(registry).decode().splitlines()
        if f'slot_name="{unique_name}"' in line
    ]
    names = {line.partition("{")[0] for line in lines}
    assert names >= {
        "pg_replication_slots_pg_wal_lsn_diff",
        "pg_replication_slots_wal_status",
        "pg_replication_slots_slot_is_active",
        "tidings_wal_slot_unacknowledged_bytes",
        "tidings_wal_slot_seconds_to_limit",
    }
    monitor.close()
    text = generate_latest(registry).decode()
    assert "\npg_wal_size_bytes{" in text
    assert "\ntidings_wal_keep_limit_bytes{" in text


async def test_a_server_that_is_away_has_no_metrics_and_no_exception():
    from tidings_capture.postgres import Endpoint

    monitor = WalMonitor(lambda: [Endpoint("127.0.0.1", 1, "u", "d")])
    await monitor.look()
    registry = CollectorRegistry()
    registry.register(monitor)
    assert b"127.0.0.1:1" not in generate_latest(registry)
