"""A database whose binary log a real capture reads into topics, which a lake takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakelab.capturing import capturing, records_on
from tidings_lakehouse.history.history_sql import DUCKDB
from tidings_lakehouse.reading.duck import duck_lake
from tidings_lakehouse.reading.moments import SourceTables
from tidings_lakehouse.settings import HistorySettings, WarehouseSettings
from tidings_stack.capture import CaptureWorker
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.mysql import MySqlServer
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from lakelab.lake import Lake

_FOR_EVER = 2**63 - 1


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


class Past:
    """What a table of a source held behind each transaction.

    Args:
        columns: that are compared, in SQL of the database and of DuckDB.
    """

    def __init__(self, columns: str) -> None:
        self.columns = columns
        self._rows: dict[int, set[tuple[Any, ...]]] = {}

    def note(self, position: int, rows: list[tuple[Any, ...]]) -> None:
        """These are the rows from the commit at this position to the next that is noted."""
        self._rows[position] = set(rows)

    def forget(self) -> None:
        """What was before the snapshot no lake knows."""
        self._rows.clear()

    def check(self, reader: WarehouseSettings, source: str, table: str) -> int:
        """See that the lake has the same as of each position: by the history, and by a moment as it is asked for.

        Returns:
            How many there were.
        """
        settings = HistorySettings(lakehouse_warehouse=reader.lakehouse_warehouse, source=source)
        with duck_lake(settings) as lake:
            tables = SourceTables(lake, source)
            (history,) = tables.histories([f"{table}_history"]).values()
            versions = lake.execute(
                f"SELECT __valid_from_lsn, coalesce(__valid_to_lsn, {_FOR_EVER}), {self.columns} FROM ({history})"
            )
            for position, rows in self._rows.items():
                found = [tuple(row) for since, until, *row in versions if since <= position < until]
                assert sorted(found, key=repr) == sorted(rows, key=repr), position
            for position in sorted(self._rows)[:: max(len(self._rows) // 3, 1)]:
                moment = tables.statement(table, tables.moment(str(position)), DUCKDB)
                assert set(lake.execute(f"SELECT {self.columns} FROM ({moment})")) == self._rows[position], (
                    position
                )
        return len(self._rows)


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
