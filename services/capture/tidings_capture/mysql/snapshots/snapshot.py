"""Reads the captured tables as they are at one moment: the log goes on behind it. Locks are in `locks`."""

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.encoding.records import Place
from tidings_capture.mysql.encoding.selected import expression, quoted
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.history.kept import NOTHING_ALTERED
from tidings_capture.mysql.history.structures import Structures
from tidings_capture.mysql.history.topic import SchemaHistory
from tidings_capture.mysql.result_rows import MOST_BYTES
from tidings_capture.mysql.schemas.catalog import Found, Table, table
from tidings_capture.mysql.schemas.schema_topic import SchemaTopic
from tidings_capture.mysql.server import names_columns
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_capture.mysql.snapshots.locks import Locks, captured_tables, check_engines, has_transactions
from tidings_capture.mysql.snapshots.readers import read_all
from tidings_capture.mysql.snapshots.rows import TableWriter, Written, count_of
from tidings_connect.converters.encoding import Converter
from tidings_connect.transforms.record import SourceRecord
from tidings_envelope.java.hash_order import java_hash_order
from tidings_service import get_logger

_log = get_logger(__name__)


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
        self._open: dict[str, _Open] = {}
        """Tables whose rows are being read."""
        self._needs_lock: set[tuple[str, str]] = set()
        """Tables whose rows are still to be read under a lock."""
        self._records: Generator[list[Written]] | None = None
        self._room = 0
        """How many records `read` has still to take."""
        self._wide_bytes = 0
        """Of the rows that `read` has taken, where they were fewer at a time than ``snapshot.fetch.size``."""
        self.done: tuple[str, ...] = self._work.done
        """Tables whose rows have been given as a whole."""
        self.context = Place()
        """What rows say of the log beside their position: in the midst of the log, what the last change said."""
        self._locks: Locks | None = None
        self._session = Session(config.endpoint)
        self._kept: Mapping[str, Any] = {}
        """What marks records of the history that say nothing new of tables."""
        self._others: list[Session] = []
        """Connections at the same moment, which read tables beside it."""
        try:
            if rows:
                self._open_others()
                self._begin()
            else:
                self._session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                self.offset = config.flavour.now(self._session)
            self._keep_structures()
            self._records = self._all(self._captured() if rows else [])
        except BaseException:
            self.close()
            raise

    def _open_others(self) -> None:
        """Before anything is locked: ``database.initial.statements`` may write, and would wait for the locks of this very snapshot."""
        for _ in range(self._connections() - 1):
            self._others.append(Session(self._config.endpoint))

    def _begin(self) -> None:
        """Lock what has to be, begin the transactions that read, and know where the log goes on."""
        config = self._config
        if config.locking != "none":
            self._locks = Locks(config, self._work.tables)
        moment = config.flavour.begin(
            self._session,
            self._others,
            config.endpoint,
            may_lock=config.locking != "none",
            locked=self._locks is not None and self._locks.holds_all,
        )
        self.offset = moment.offset
        if not moment.is_common:
            for session in self._others:
                session.close()
            self._others = []
        if self._locks is not None:
            self._locks.begun()

    def _keep_structures(self) -> None:
        """Where the log does not name columns, the history knows them at this very place."""
        if self._history is None or names_columns(self._session):
            return
        if self._work.tables is not None:
            self._kept = NOTHING_ALTERED
        else:
            self._history.begin()
            structures = Structures(self._config, self._history, lambda: self._session)
            self._kept = structures.begin_anew(self.offset)

    def _connections(self) -> int:
        """How many are of use."""
        if self._config.snapshot.threads == 1:
            return 1
        return max(1, min(self._config.snapshot.threads, len(self._chosen())))

    def read(self) -> list[Written]:
        """The next records, ``snapshot.fetch.size`` at most, or fewer that are wide; none: that was all."""
        found: list[Written] = []
        self._room, self._wide_bytes = self._config.fetch_rows, 0
        for open_ in self._open.values():
            open_.writer.tick()
        assert self._records is not None
        for some in self._records:
            found += some
            self._room -= count_of(some)
            if self._room <= 0 or self._wide_bytes >= MOST_BYTES:
                break
        return found

    def close(self) -> None:
        """End the transaction, and the locks."""
        if self._records is not None:
            self._records.close()
        for session in (self._session, *self._others):
            session.close()
        self._unlock(lost=True)

    @property
    def has_locks(self) -> bool:
        """Whether tables cannot be written until it has read them."""
        return self._locks is not None

    def _unlock(self, *, lost: bool = False) -> None:
        """Give locks back; those of a snapshot that is `lost` end with their connection."""
        if self._locks is not None:
            (self._locks.close if lost else self._locks.release)()
            self._locks = None

    def _chosen(self) -> list[Found]:
        chosen = captured_tables(self._session, self._config, self._work.tables)
        return [one for one in chosen if f"{one.database}.{one.name}" not in self.done]

    def _captured(self) -> list[Table]:
        chosen = self._chosen()
        check_engines(chosen, self._config)
        locks = self._locks
        self._needs_lock = {
            (one.database, one.name)
            for one in chosen
            if self._config.locking == "extended" or not has_transactions(one)
        }
        if locks is not None and not locks.whole and self._needs_lock - locks.locked:
            raise MariaDbError("a table was made while locks were taken: the snapshot begins anew")
        found = [table(self._session, one.database, one.name) for one in chosen]
        if not self._needs_lock:
            self._unlock()
        return [one for one in found if one is not None]

    def _all(self, captured: list[Table]) -> Generator[list[Written]]:
        """The structure of all tables where it is told, and the captured tables' rows."""
        held = None
        for record in self._structure():
            if held is not None:
                yield [held]
            held = record
        rows = self._read(captured)
        first = next(rows, None)
        if held is not None:
            if first is None:  # nothing follows
                held.value["source"]["snapshot"] = "last"
            yield [held]
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
                history.structure(told, self.offset, self._kept)
            if tells:
                yield topic.snapshot(told, self.offset)

    def _read(self, captured: list[Table]) -> Iterator[list[Written]]:
        """All records; of each table one is held back until it is known whether another follows."""
        first, behind = True, None
        hashed = ",".join(java_hash_order(sorted(one.qualified for one in captured)))
        statements = [self._statement(one) for one in captured]
        sessions = [self._session, *self._others]
        with closing(read_all(sessions, statements, self._config.fetch_rows)) as batches:
            for number, rows in batches:
                one = captured[number]
                open_ = self._open.get(one.qualified) or self._begin_table(one, hashed)
                if behind is not None and (rows or open_.held is not None):
                    yield self._last(behind)
                    behind = None
                if rows is not None:
                    if len(rows) < self._config.fetch_rows:
                        self._wide_bytes += sum(map(len, rows))
                    taken = 0
                    while taken < len(rows):
                        some = rows[taken : taken + self._room]
                        yield open_.take(some, is_first=first)
                        taken, first = taken + len(some), False
                    continue
                self._end(open_, captured)
                behind = behind if open_.held is None else open_
        if behind is not None:
            yield self._last(behind, "last")

    def _begin_table(self, one: Table, hashed: str) -> "_Open":
        """The first rows of a table have come."""
        self._tell(
            "IN_PROGRESS", {"current_collection_in_progress": one.qualified, "data_collections": hashed}
        )
        writer = TableWriter(one, self._config, self._place(), self._direct, self.offset.commit_position)
        made = self._open[one.qualified] = _Open(one, writer)
        return made

    def _end(self, open_: "_Open", captured: list[Table]) -> None:
        """A table has no more rows than that which is held back."""
        one = open_.table
        _log.info("a table was read", table=one.qualified, rows=open_.count)
        self._tell(
            "TABLE_SCAN_COMPLETED",
            {
                "scanned_collection": one.qualified,
                "total_rows_scanned": str(open_.count),
                "status": "SUCCEEDED",
                "data_collections": ",".join(self._names(captured)),
            },
        )
        if open_.held is None:
            self._finished(open_)
        self._needs_lock.discard((one.database, one.name))
        if not self._needs_lock:
            self._unlock()

    def _last(self, open_: "_Open", mark: str | None = None) -> list[Written]:
        """The last row of a table."""
        assert open_.held is not None
        row, its_mark = open_.held
        if mark is None:
            mark = its_mark if its_mark == "first" else "last_in_data_collection"
        self._finished(open_)
        return open_.writer.write_rows([row], mark)

    def _finished(self, open_: "_Open") -> None:
        """The last row of a table is the next that is given."""
        self._open.pop(open_.table.qualified)
        self.done = (*self.done, open_.table.qualified)

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

    def _statement(self, one: Table) -> str:
        """What reads a table."""
        select = self._work.selects.get(one.qualified)
        if select is None:
            columns = ", ".join(expression(column) for column in one.columns)
            source = f"{quoted(one.database)}.{quoted(one.name)}"
        else:
            source = f"({self._config.signals.enclose(select)}) AS chosen"
            there = self._session.columns(f"SELECT * FROM {source} LIMIT 0")  # noqa: S608 - it stands between parentheses
            columns = ", ".join(expression(c) if c.name in there else "NULL" for c in one.columns)
        return f"SELECT {columns} FROM {source}"  # noqa: S608 - names that are quoted


@dataclass(slots=True)
class _Open:
    """A table whose rows are being read."""

    table: Table
    writer: TableWriter
    held: tuple[bytes, str] | None = None
    """The last row so far, and what ``source.snapshot`` says of it."""
    count: int = 0

    def take(self, rows: Sequence[bytes], *, is_first: bool) -> list[Written]:
        """The records of the row that was held back and of these, one at the least, but for the last.

        Args:
            is_first: whether no row of any table was read before.
        """
        write = self.writer.write_rows
        self.count += len(rows)
        if self.held is not None:
            written = write([self.held[0]], self.held[1])
        else:
            mark = "first" if is_first else "first_in_data_collection"
            if len(rows) == 1:
                self.held = rows[0], mark
                return []
            written, rows = write(rows[:1], mark), rows[1:]
        self.held = rows[-1], "true"
        return written + write(rows[:-1], "true")
