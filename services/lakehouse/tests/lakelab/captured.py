"""A database whose binary log a real capture reads into topics, which a lake takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lakelab.capturing import capturing, records_on
from tidings_stack.capture import CaptureWorker
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.mysql import MySqlServer
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from lakelab.lake import Lake


class Captured:
    """A database of this name, its connector, and the lake."""

    def __init__(self, name: str, lake: Lake, worker: CaptureWorker) -> None:
        self.name, self.lake, self.worker = name, lake, worker

    def records(self, topic: str) -> int:
        """Written to a topic so far."""
        return records_on(self.lake, f"{self.name}.{topic}")

    def read_again(self, table: str) -> None:
        """Every row of a table, by an incremental snapshot."""
        read = self.records(f"{self.name}.{table}")
        data = {"data-collections": [f"{self.name}.{table}"], "type": "INCREMENTAL"}
        path = f"/connectors/{self.name}/signals"
        status, body = self.worker.request("POST", path, {"type": "execute-snapshot", "data": data})
        assert status in (200, 202, 204), body
        wait_for("rows that are read", lambda: self.records(f"{self.name}.{table}") > read)

    def watermark(self) -> int | None:
        found = self.lake.rows(
            f"SELECT DISTINCT commit_lsn FROM tidings.watermark WHERE topic LIKE '{self.name}.%'"
        )
        assert len(found) <= 1
        return found[0][0] if found else None


@contextmanager
def captured(
    server: MariaDbServer | MySqlServer, name: str, lake: Lake, directory: Path, own: Mapping[str, str]
) -> Iterator[CaptureWorker]:
    """A worker whose connector reads one database; few records a batch, so that transactions are cut.

    Args:
        own: options of the connector's.
    """
    config = {
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.password": server.password,
        "database.include.list": name,
        "include.schema.changes": "false",
        "skipped.operations": "none",
        "read.only": "true",
        **own,
    }
    lake.settings = lake.settings.model_copy(update={"lakehouse_max_records": 250})
    with capturing(lake, directory, name, config) as worker:
        yield worker
