"""How far a connector is from a purged binary log: what is computed, and what ``/metrics`` shows of a real server."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from mariadb_parts import Database
from prometheus_client import CollectorRegistry, generate_latest

from tidings_capture.mysql.binlog_distance import NEVER, BinaryLogs, Distance, distance
from tidings_capture.mysql.companion import BinlogCompanion
from tidings_capture.mysql.connector import MariaDbConnector, flavour_of
from tidings_connect.task.channel import Report
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.mariadb import MariaDbServer

LOGS = {"b.01": 100, "b.02": 200, "b.03": 50}


@pytest.mark.parametrize(
    ("logs", "position", "found"),
    [
        (BinaryLogs(LOGS), {"file": "b.03", "pos": 50}, Distance(0, 0, 2, False, NEVER, None)),
        (
            BinaryLogs(LOGS, 600.0),
            {"file": "b.03", "pos": 4, "ts_sec": 1},
            Distance(46, 0, 2, False, NEVER, None),
        ),
        (
            BinaryLogs(LOGS, 600.0),
            {"file": "b.02", "pos": 150, "ts_sec": 900},
            Distance(100, 1, 1, False, 500, None),
        ),
        (
            BinaryLogs(LOGS, 600.0),
            {"file": "b.01", "pos": 4, "ts_sec": 1},
            Distance(346, 2, 0, False, 0, None),
        ),
        (BinaryLogs(LOGS, None, 400), {"file": "b.02", "pos": 4}, Distance(246, 1, 1, False, NEVER, 150)),
        (BinaryLogs(LOGS, 600.0), {"file": "b.00", "pos": 4}, Distance(350, 3, 0, True, 0, None)),
        (BinaryLogs(LOGS), {"file": ""}, None),
        (BinaryLogs(LOGS), {}, None),
    ],
)
def test_distance(logs: BinaryLogs, position: Mapping[str, Any], found: Distance | None) -> None:
    assert distance(logs, position, 1000.0) == found


@dataclass
class Run:
    """A task, as a companion sees it."""

    config: Mapping[str, str]
    report: Report
    name: str = "shop"


@dataclass
class Host:
    """The worker, as a companion sees it."""

    local_runs: dict[str, Any] = field(default_factory=dict)

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        return dict(config)


@pytest.fixture
def database(database: Database) -> Iterator[Database]:
    yield database
    database.run("SET GLOBAL binlog_expire_logs_seconds = 0")


def test_a_connector_that_stands_still_is_seen_until_its_log_is_gone(
    database: Database, mariadb: MariaDbServer, unique_name: str
) -> None:
    config = {
        "connector.class": MariaDbConnector.class_name,
        "database.hostname": "127.0.0.1",
        "database.port": str(mariadb.port),
        "database.user": "admin",
        "database.password": mariadb.password,
        "database.include.list": unique_name,
        "topic.prefix": "p",
        "include.schema.changes": "false",
    }
    database.run("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)", "INSERT INTO t VALUES (NULL)")
    with MemoryWorker(MariaDbConnector(), "shop") as worker:
        worker.put(config)
        worker.wait_for(lambda: any("snapshot" not in p["offset"] for p in worker.offsets()), "the snapshot")
        worker.stop()
        position = worker.offsets()[0]["offset"]
    run = Run(config, Report(state="streaming", position=position))
    host = Host({"shop": run})
    companion = BinlogCompanion(host, flavour_of)  # type: ignore[arg-type] - what it uses of it
    registry = CollectorRegistry()
    registry.register(companion)

    def look() -> dict[str, float]:
        asyncio.run(companion.look())
        lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
        assert all(f'{{connector="shop",server="127.0.0.1:{mariadb.port}"}}' in line for line in lines)
        return {line.split("{")[0].removeprefix("tidings_binlog_"): float(line.split()[1]) for line in lines}

    before = look()
    assert (before["behind_files"], before["missing"], before["seconds_to_purge"]) == (0, 0, NEVER)
    assert "expire_seconds" not in before
    database.run("INSERT INTO t VALUES (NULL)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    database.run("SET GLOBAL binlog_expire_logs_seconds = 7200")
    run.report = Report(state="failed")  # the process has ended: where it was is known
    behind = look()
    assert (behind["behind_files"], behind["missing"], behind["expire_seconds"]) == (2, 0, 7200)
    assert behind["behind_bytes"] > before["behind_bytes"]
    assert 0 < behind["seconds_to_purge"] <= 7200
    database.purge()
    gone = look()
    assert (gone["missing"], gone["older_files"], gone["seconds_to_purge"]) == (1, 0, 0)
    host.local_runs.clear()
    assert look() == {}
