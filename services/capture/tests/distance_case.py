"""How far a connector of MariaDB or MySQL is from a purged binary log: what `/metrics` shows of a real server."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mariadb_parts import Database
from mariadb_worker import CONNECTORS
from prometheus_client import CollectorRegistry, generate_latest

from tidings_capture.mysql.binlog_distance import NEVER
from tidings_capture.mysql.companion import BinlogCompanion
from tidings_capture.mysql.connector import flavour_of
from tidings_connect.task.channel import Report
from tidings_connect.testing.memory_worker import MemoryWorker


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


class Watched:
    """A connector that has taken its snapshot and stands still, and the companion that watches its log."""

    def __init__(self, database: Database, config: dict[str, str]) -> None:
        self._port = config["database.port"]
        with MemoryWorker(CONNECTORS[config["connector.class"]](), "shop") as worker:
            worker.put(config)
            worker.wait_for(
                lambda: any("snapshot" not in p["offset"] for p in worker.offsets()), "the snapshot"
            )
            worker.stop()
            position = worker.offsets()[0]["offset"]
        self.run = Run(config, Report(state="streaming", position=position))
        self.host = Host({"shop": self.run})
        self._companion = BinlogCompanion(self.host, flavour_of)  # type: ignore[arg-type] - what it uses of it
        self._registry = CollectorRegistry()
        self._registry.register(self._companion)

    def look(self) -> dict[str, float]:
        """What `/metrics` shows then, without the beginning of its names."""
        asyncio.run(self._companion.look())
        text = generate_latest(self._registry).decode()
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        assert all(f'{{connector="shop",server="127.0.0.1:{self._port}"}}' in line for line in lines)
        return {line.split("{")[0].removeprefix("tidings_binlog_"): float(line.split()[1]) for line in lines}


def is_seen_until_its_log_is_gone(database: Database, config: dict[str, str]) -> None:
    """A connector stands still, and its log is purged."""
    database.run("SET GLOBAL binlog_expire_logs_seconds = 0")
    database.run("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)", "INSERT INTO t VALUES (NULL)")
    watched = Watched(database, config)
    before = watched.look()
    assert (before["behind_files"], before["missing"], before["seconds_to_purge"]) == (0, 0, NEVER)
    assert "expire_seconds" not in before
    database.run("INSERT INTO t VALUES (NULL)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    database.run("SET GLOBAL binlog_expire_logs_seconds = 7200")
    watched.run.report = Report(state="failed")  # the process has ended: where it was is known
    behind = watched.look()
    assert (behind["behind_files"], behind["missing"], behind["expire_seconds"]) == (2, 0, 7200)
    assert behind["behind_bytes"] > before["behind_bytes"]
    assert 0 < behind["seconds_to_purge"] <= 7200
    database.purge()
    gone = watched.look()
    assert (gone["missing"], gone["older_files"], gone["seconds_to_purge"]) == (1, 0, 0)
    watched.host.local_runs.clear()
    assert watched.look() == {}
