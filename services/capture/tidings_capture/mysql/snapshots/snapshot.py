"""Reads the captured tables as they are at one moment: the log goes on behind it. Locks are in `locks`."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from tidings_capture.mysql.catalog import Table, table
from tidings_capture.mysql.cells import Cells
from tidings_capture.mysql.client import Result, Session
from tidings_capture.mysql.config import MariaDbConfig
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.gtid import GtidPosition
from tidings_capture.mysql.history.topic import SchemaHistory
from tidings_capture.mysql.locks import Locks, captured_tables, check_engines, has_transactions
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.records import Place
from tidings_capture.mysql.schema_topic import SchemaTopic
from tidings_capture.mysql.selected import expression, quoted, reader
from tidings_capture.mysql.snapshot_rows import TableWriter, Written
from tidings_connect.converters.encoding import Converter
from tidings_connect.transforms.record import SourceRecord
from tidings_envelope.java_hash_order import java_hash_order
from tidings_service import get_logger

_log = get_logger(__name__)


def position_of(session: Session) -> Offset:
    """Where the log is at the session's snapshot.

    Raises:
        MariaDbError: the server does not say.
    """
    file, position = log_file_of(session)
    ((gtids,),) = session.rows("SELECT BINLOG_GTID_POS(%s, %s)", (file, position))
    if gtids is None:
        raise MariaDbError(f"the server knows no GTID of {file} at {position}")
    return Offset(GtidPosition.read(gtids), file, position, int(time.time()), in_snapshot=True)


def log_file_of(session: Session) -> tuple[str, int]:
    """The file of the log at the session's snapshot, and the position in it; errors as of `position_of`."""
    status = dict(session.rows("SHOW STATUS LIKE 'binlog_snapshot_%'"))
    values = {name.lower(): value for name, value in status.items()}
    file, position = values.get("binlog_snapshot_file"), values.get("binlog_snapshot_position")
    if not file or not position:
        raise MariaDbError("the server does not say where its log is at the snapshot (binlog_snapshot_file)")
    return file, int(position)


@dataclass(frozen=True, slots=True)
class Work:
    """What a snapshot reads."""

    tables: Collection[tuple[str, str]] | None = None
    """These, asked for by a signal; None: all that the options choose."""
    selects: Mapping[str, str] = field(default_factory=dict)
    """Statements that are read in place of tables, by ``database.table``."""
    done: tuple[str, ...] = ()
    """Tables that need not be read, as ``database.table``: an interrupted snapshot has sent them."""


class Snapshot:
    """A snapshot under way.

    Args:
        direct: the converters for keys and values, where rows may be encoded without records between.
        rows: whether rows are read; else the structure of tables only, where it is told.
        history: Debezium's, which is told the structure of tables.
        work: which tables are read, and how; None: all that the options choose.
        tell: tells how far it is, by Debezium's types of notifications.

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
        work: Work | None = None,
        tell: Callable[[str, Mapping[str, str]], None] = lambda _type, _data: None,
    ) -> None:
        self._config = config
        self._history = history
        self._direct = direct
        self._work = work or Work()
        self._tell = tell
        self._table: TableWriter | None = None
        """The one whose rows are read."""
        self._result: Result | None = None
        self._needs_lock: set[tuple[str, str]] = set()
        """Tables whose rows are still to be read under a lock."""
        self.done: tuple[str, ...] = self._work.done
        """Tables whose rows have been given as a whole."""
        self.context = Place()
        """What rows say of the log beside their position: in the midst of the log, what the last change said."""
        self._locks = Locks(config, self._work.tables) if rows and config.locking != "none" else None
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
        if self._result is not None:
            self._result.abandon()
        self._session.close()
        self._unlock(lost=True)

    def _unlock(self, *, lost: bool = False) -> None:
        """Give locks back; those of a snapshot that is `lost` end with their connection."""
        if self._locks is not None:
            (self._locks.close if lost else self._locks.release)()
            self._locks = None

    def _captured(self) -> list[Table]:
        chosen = captured_tables(self._session, self._config, self._work.tables)
        chosen = [one for one in chosen if f"{one.database}.{one.name}" not in self.done]
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
        history, tells, only = self._history, self._config.schema_changes, self._work.tables
        if history is not None and only is None:
            history.begin()
        topic = SchemaTopic(self._config)
        for told in topic.structures(self._session, only) if tells or history is not None else ():
            if history is not None:
                history.structure(told, self.offset)
            if tells:
                yield topic.snapshot(told, self.offset)

    def _read(self, captured: list[Table]) -> Iterator[Written]:
        """All records; each is held back until it is known whether another follows."""
        first, held = True, None
        hashed = ",".join(java_hash_order(sorted(one.qualified for one in captured)))
        names = ",".join(self._names(captured))
        for one in captured:
            self._tell(
                "IN_PROGRESS", {"current_collection_in_progress": one.qualified, "data_collections": hashed}
            )
            rows = self._table = TableWriter(
                one, self._config, self._place(), self._direct, self.offset.gtids.sequence
            )
            first_of_table, count = True, 0
            for cells in self._rows(one):
                if held is not None:
                    its_rows, its_cells, its_mark = held
                    if its_rows is not rows:
                        if its_mark in {"true", "first_in_data_collection"}:
                            its_mark = "last_in_data_collection"
                        self._finished(its_rows)
                    yield from its_rows.write(its_cells, its_mark)
                mark = "first" if first else "first_in_data_collection" if first_of_table else "true"
                held = (rows, cells, mark)
                first = first_of_table = False
                count += 1
            _log.info("a table was read", table=one.qualified, rows=count)
            self._tell(
                "TABLE_SCAN_COMPLETED",
                {
                    "scanned_collection": one.qualified,
                    "total_rows_scanned": str(count),
                    "status": "SUCCEEDED",
                    "data_collections": names,
                },
            )
            if first_of_table:
                self._finished(rows)
            self._needs_lock.discard((one.database, one.name))
            if not self._needs_lock:
                self._unlock()
        if held is not None:
            its_rows, its_cells, _mark = held
            self._finished(its_rows)
            yield from its_rows.write(its_cells, "last")

    def _finished(self, rows: TableWriter) -> None:
        """The last row of a table is the next that is given."""
        self.done = (*self.done, rows.plan.table.qualified)

    def _names(self, captured: list[Table]) -> list[str]:
        """As notifications list them: the table of signals among those of a snapshot of all."""
        signals = self._config.signals.table
        names = [one.qualified for one in captured]
        return names if signals is None or self._work.tables is not None else [*names, ".".join(signals)]

    def _place(self) -> Place:
        context = self.context
        return Place(
            file=self.offset.file,
            position=self.offset.position,
            seconds=int(time.time()),
            server_id=context.server_id,
            gtid=context.gtid,
        )

    def _rows(self, one: Table) -> Iterator[Cells]:
        reads = [reader(column) for column in one.columns]
        select = self._work.selects.get(one.qualified)
        if select is None:
            columns = ", ".join(expression(column) for column in one.columns)
            source = f"{quoted(one.database)}.{quoted(one.name)}"
        else:
            source = f"({self._config.signals.enclose(select)}) AS chosen"
            there = self._session.columns(f"SELECT * FROM {source} LIMIT 0")  # noqa: S608 - it stands between parentheses
            columns = ", ".join(expression(c) if c.name in there else "NULL" for c in one.columns)
        result = self._result = self._session.open(
            f"SELECT {columns} FROM {source}"  # noqa: S608 - names that are quoted
        )
        while rows := result.fetch(self._config.fetch_rows):
            for row in rows:
                yield tuple(None if v is None else r(v) for v, r in zip(row, reads, strict=True))
        result.close()
        self._result = None
