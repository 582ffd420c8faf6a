"""Reads the captured tables as they are at one moment: the log goes on behind it. Locks are in `locks`."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from tidings_capture.mysql.catalog import Table, table
from tidings_capture.mysql.cells import Cells
from tidings_capture.mysql.change_encoder import SnapshotEncoder
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.config import MariaDbConfig
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.gtid import GtidPosition
from tidings_capture.mysql.history.topic import SchemaHistory
from tidings_capture.mysql.locks import Locks, captured_tables, check_engines, has_transactions
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.records import Place, TablePlan
from tidings_capture.mysql.schema_topic import SchemaTopic
from tidings_capture.mysql.selected import expression, quoted, reader
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Record
from tidings_connect.transforms.record import Header, SourceRecord
from tidings_envelope import semantic
from tidings_envelope.as_of import HEADER as AS_OF
from tidings_envelope.gtid import ROWS
from tidings_service import get_logger

_log = get_logger(__name__)


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


class EncodedRecord(NamedTuple):
    """A row's record that needs no converter any more."""

    topic: str
    record: Record


Written = SourceRecord | EncodedRecord


class _TableRows:
    """Writes the rows of one table.

    With transaction metadata they say as of which commit they are, since ``source`` has no GTID in a snapshot.
    """

    def __init__(
        self,
        table: Table,
        config: MariaDbConfig,
        place: Place,
        direct: tuple[Converter, Converter] | None,
        sequence: int | None,
    ) -> None:
        self._plan = TablePlan(table, config)
        if config.transactions and sequence is not None:
            self._plan.headers += (Header(AS_OF, semantic.STRING, str(sequence * ROWS)),)
        self._place = place
        self._encoder = None if direct is None else SnapshotEncoder(self._plan, direct)

    def tick(self) -> None:
        """The connector's own time is read anew for the next row."""
        if self._encoder is not None:
            self._encoder.tick()

    def write(self, cells: Cells, mark: str) -> list[Written]:
        """A row's records; `mark` is what ``source.snapshot`` says of it."""
        self._place.snapshot = mark
        if self._encoder is not None and (record := self._encoder.record(cells, self._place)) is not None:
            return [EncodedRecord(self._encoder.topic, record)]
        return [*self._plan.read(cells, self._place)]


class Snapshot:
    """A snapshot under way.

    Args:
        direct: the converters for keys and values, where rows may be encoded without records between.
        rows: whether rows are read; else the structure of tables only, where it is told.
        history: Debezium's, which is told the structure of tables.

    Raises:
        UnsupportedError: a table cannot be read at one moment with the others.
        MariaDbError: the server cannot be asked.
    """

    def __init__(
        self,
        config: MariaDbConfig,
        *,
        rows: bool = True,
        direct: tuple[Converter, Converter] | None = None,
        history: SchemaHistory | None = None,
    ) -> None:
        self._config = config
        self._history = history
        self._direct = direct
        self._table: _TableRows | None = None
        """The one whose rows are read."""
        self._needs_lock: set[tuple[str, str]] = set()
        """Tables whose rows are still to be read under a lock."""
        self._locks = Locks(config) if rows and config.locking != "none" else None
        try:
            self._session = Session(config.endpoint)
        except BaseException:
            self._unlock(lost=True)
            raise
        try:
            self._session.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            self.offset = position_of(self._session)
            self._records = self._all(self._captured() if rows else [])
        except BaseException:
            self.close()
            raise

    def read(self) -> list[Written]:
        """The next records, ``snapshot.fetch.size`` at most; none: that was all."""
        found: list[Written] = []
        if self._table is not None:
            self._table.tick()
        for record in self._records:
            found.append(record)
            if len(found) >= self._config.fetch_rows:
                break
        return found

    def close(self) -> None:
        """End the transaction, and the locks."""
        self._session.close()
        self._unlock(lost=True)

    def _unlock(self, *, lost: bool = False) -> None:
        """Give locks back; those of a snapshot that is `lost` end with their connection."""
        if self._locks is not None:
            (self._locks.close if lost else self._locks.release)()
            self._locks = None

    def _captured(self) -> list[Table]:
        chosen = captured_tables(self._session, self._config)
        check_engines(chosen, self._config)
        locks = self._locks
        self._needs_lock = {
            (one.database, one.name)
            for one in chosen
            if self._config.locking == "extended" or not has_transactions(one)
        }
        if locks is not None and not locks.whole and self._needs_lock - locks.locked:
            raise MariaDbError("a table was made while locks were taken: the snapshot begins anew")
        found = (table(self._session, one.database, one.name) for one in chosen)
        return [one for one in found if one is not None]

    def _all(self, captured: list[Table]) -> Iterator[Written]:
        """The structure of all tables where it is told, and the captured tables' rows."""
        held = None
        for record in self._structure():
            if held is not None:
                yield held
            held = record
        rows = self._read(captured)
        first = next(rows, None)
        if held is not None:
            if first is None:  # nothing follows
                held.value["source"]["snapshot"] = "last"
            yield held
        if first is not None:
            yield first
            yield from rows

    def _structure(self) -> Iterator[SourceRecord]:
        """Records of the tables' structure; the history is written beside."""
        history, tells = self._history, self._config.schema_changes
        if history is not None:
            history.begin()
        topic = SchemaTopic(self._config)
        for told in topic.structures(self._session) if tells or history is not None else ():
            if history is not None:
                history.structure(told, self.offset)
            if tells:
                yield topic.snapshot(told, self.offset)

    def _read(self, captured: list[Table]) -> Iterator[Written]:
        """All records; each is held back until it is known whether another follows."""
        first, held = True, None
        for one in captured:
            place = Place(file=self.offset.file, position=self.offset.position)
            place.seconds = int(time.time())
            rows = self._table = _TableRows(
                one, self._config, place, self._direct, self.offset.gtids.sequence
            )
            first_of_table, count = True, 0
            for cells in self._rows(one):
                if held is not None:
                    its_rows, its_cells, its_mark = held
                    if its_rows is not rows and its_mark in {"true", "first_in_data_collection"}:
                        its_mark = "last_in_data_collection"
                    yield from its_rows.write(its_cells, its_mark)
                mark = "first" if first else "first_in_data_collection" if first_of_table else "true"
                held = (rows, cells, mark)
                first = first_of_table = False
                count += 1
            _log.info("a table was read", table=one.qualified, rows=count)
            self._needs_lock.discard((one.database, one.name))
            if not self._needs_lock:
                self._unlock()
        if held is not None:
            its_rows, its_cells, _mark = held
            yield from its_rows.write(its_cells, "last")

    def _rows(self, one: Table) -> Iterator[Cells]:
        reads = [reader(column) for column in one.columns]
        columns = ", ".join(expression(column) for column in one.columns)
        source = f"{quoted(one.database)}.{quoted(one.name)}"
        result = self._session.open(f"SELECT {columns} FROM {source}")  # noqa: S608 - names that are quoted
        while rows := result.fetch(self._config.fetch_rows):
            for row in rows:
                yield tuple(None if v is None else r(v) for v, r in zip(row, reads, strict=True))
        result.close()
