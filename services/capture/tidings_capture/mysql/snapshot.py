"""Reads the captured tables as they are at one moment, without a lock: the log goes on behind it."""

import time
from collections.abc import Iterator
from typing import Final

from tidings_capture.mysql.catalog import Table, table, tables
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.config import MariaDbConfig
from tidings_capture.mysql.errors import MariaDbError, UnsupportedError
from tidings_capture.mysql.gtid import GtidPosition
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.records import Place, TablePlan
from tidings_capture.mysql.row_code import Cells
from tidings_capture.mysql.selected import expression, quoted, reader
from tidings_connect.transforms.record import SourceRecord
from tidings_service import get_logger

_log = get_logger(__name__)
_TRANSACTIONAL: Final = frozenset({"INNODB", "ROCKSDB"})


def position_of(session: Session) -> Offset:
    """Where the log is at the session's snapshot.

    Raises:
        MariaDbError: the server does not say.
    """
    status = dict(session.rows("SHOW STATUS LIKE 'binlog_snapshot_%'"))
    values = {name.lower(): value for name, value in status.items()}
    file, position = values.get("binlog_snapshot_file"), values.get("binlog_snapshot_position")
    if not file or not position:
        raise MariaDbError("the server does not say where its log is at the snapshot (binlog_snapshot_file)")
    ((gtids,),) = session.rows("SELECT BINLOG_GTID_POS(%s, %s)", (file, int(position)))
    if gtids is None:
        raise MariaDbError(f"the server knows no GTID of {file} at {position}")
    return Offset(GtidPosition.read(gtids), file, int(position), int(time.time()), in_snapshot=True)


class Snapshot:
    """A snapshot under way.

    Raises:
        UnsupportedError: a table cannot be read at one moment with the others.
        MariaDbError: the server cannot be asked.
    """

    def __init__(self, config: MariaDbConfig) -> None:
        self._config = config
        self._session = Session(config.endpoint)
        try:
            self._session.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            self.offset = position_of(self._session)
            self._records = self._read(self._captured())
        except BaseException:
            self._session.close()
            raise

    def read(self) -> list[SourceRecord]:
        """The next records, ``snapshot.fetch.size`` at most; none: that was all."""
        found = []
        for record in self._records:
            found.append(record)
            if len(found) >= self._config.fetch_rows:
                break
        return found

    def close(self) -> None:
        """End the transaction."""
        self._session.close()

    def _captured(self) -> list[Table]:
        there = {(t.database, t.name): t for t in tables(self._session)}
        captured = [name for name in there if self._config.captures(*name)]
        chosen = [there[name] for name in self._config.tables.order(captured)]
        for one in chosen:
            if (one.engine or "").upper() not in _TRANSACTIONAL:
                raise UnsupportedError(
                    f"{one.database}.{one.name} is of the engine {one.engine}, of which no snapshot can be read without a lock",
                    hint="leave it out with table.exclude.list, or ALTER TABLE ... ENGINE=InnoDB",
                )
        found = (table(self._session, one.database, one.name) for one in chosen)
        return [one for one in found if one is not None]

    def _read(self, captured: list[Table]) -> Iterator[SourceRecord]:
        """All records; each is held back until it is known whether another follows."""
        first, held = True, None
        for one in captured:
            plan, place = (
                TablePlan(one, self._config),
                Place(file=self.offset.file, position=self.offset.position),
            )
            place.seconds = int(time.time())
            first_of_table, count = True, 0
            for cells in self._rows(one):
                if held is not None:
                    its_plan, its_cells, its_place, its_name = held
                    if its_plan is not plan and its_name in {"true", "first_in_data_collection"}:
                        its_name = "last_in_data_collection"
                    its_place.snapshot = its_name
                    yield from its_plan.read(its_cells, its_place)
                name = "first" if first else "first_in_data_collection" if first_of_table else "true"
                held = (plan, cells, place, name)
                first = first_of_table = False
                count += 1
            _log.info("a table was read", table=one.qualified, rows=count)
        if held is not None:
            plan, cells, place, _name = held
            place.snapshot = "last"
            yield from plan.read(cells, place)

    def _rows(self, one: Table) -> Iterator[Cells]:
        reads = [reader(column) for column in one.columns]
        columns = ", ".join(expression(column) for column in one.columns)
        source = f"{quoted(one.database)}.{quoted(one.name)}"
        result = self._session.open(f"SELECT {columns} FROM {source}")  # noqa: S608 - names that are quoted
        while rows := result.fetch(self._config.fetch_rows):
            for row in rows:
                yield tuple(None if v is None else r(v) for v, r in zip(row, reads, strict=True))
        result.close()
