"""Reads the log from a position on, and writes a record for each change of a captured row."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.events import Event
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.binlog.row_code import read_rows_event
from tidings_capture.mysql.binlog.statements import Kind, kind_of, refuse_rows
from tidings_capture.mysql.binlog.table_map import table_id
from tidings_capture.mysql.encoding.records import Numbers, Place
from tidings_capture.mysql.errors import BinlogError, BinlogLostError, UnsupportedError
from tidings_capture.mysql.history.topic import SchemaHistory
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.schemas.definitions import Definition, DefinitionWriter
from tidings_capture.mysql.schemas.tables import Tables, Version
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_capture.mysql.streaming.arrivals import Arrivals
from tidings_capture.mysql.streaming.commit_numbers import CommitNumbers
from tidings_capture.mysql.streaming.observers import Observers, Streamed
from tidings_capture.mysql.streaming.prepared import Prepared
from tidings_capture.mysql.streaming.progress import Progress
from tidings_capture.mysql.streaming.row_writer import RowWriter
from tidings_capture.mysql.streaming.sequence_order import SequenceOrder
from tidings_capture.mysql.streaming.transactions import TransactionTopic
from tidings_connect.task.output import Output
from tidings_service import get_logger

_log = get_logger(__name__)
_OF_PREPARED: Final = log.ROWS.keys() | {
    log.TABLE_MAP, log.ANNOTATE_ROWS, log.QUERY, log.QUERY_COMPRESSED, log.XA_PREPARE,
}  # fmt: skip
_RECENT_SECONDS: Final = 60.0
_MOST_RECENT: Final = 10_000
"""Distributed transactions whose commits are noted."""


class Stream:
    """The changes behind an offset."""

    def __init__(
        self,
        config: MariaDbConfig,
        output: Output,
        start: Offset,
        history: SchemaHistory | None = None,
        observers: Observers | None = None,
    ) -> None:
        self._config = config
        self._output = output
        self._topic = TransactionTopic(config)
        self._tables = Tables(config, output.direct, history)
        self._definitions = DefinitionWriter(config, output, self._tables, history)
        self._gtids, self._file, self._position = start.gtids, start.file, start.position
        self._seconds, self._server_id = start.seconds, start.server_id
        self._start = start
        self._progress = Progress(start)
        self._place = _first_place(start)
        """Of the last change: an incremental snapshot's rows stand behind it."""
        self._commits = CommitNumbers(config, start, self._place)
        self._order = SequenceOrder(config)
        self._observers = observers or Observers()
        self._rows_writer = RowWriter(output, self._observers, self._progress, self._place)
        self._last_begin: tuple[str, int] | None = None  # of the last transaction
        self._ends_batch = False
        self._until: LogPosition | None = None
        self._current: log.GtidEvent | None = None
        self._is_hidden = False
        """Whether the rows of the present transaction are left out."""
        self._numbers: Numbers | None = None
        self._unsaid: int | None = None
        """When the present transaction began, in milliseconds since the Unix epoch, while its BEGIN is not written."""
        self._prepared = Prepared(config, start.prepared)
        self._committed: Iterator[Event | None] | None = None
        """What is left of a distributed transaction that was prepared before, and is committed now."""
        self._commit: Event | None = None
        """What says so."""
        self._xa_commits: dict[str, float] = {}
        """When the last ones were read, on a clock of this process, by the transactions' ids, the oldest first."""
        self._versions: dict[int, Version | None] = {}
        self.transactions = self.events = 0
        """That were read."""
        self._idle = True
        self._arrivals = Arrivals(config, start.gtids)

    def offset(self) -> Offset:
        """Behind everything that was written. Until what was read before is passed, it is the one that this began at."""
        return self._progress.offset(replace(self._before(), prepared=self._prepared.stored))

    @property
    def context(self) -> Place:
        """See `cdc.database.ChangeStream`."""
        return self._place

    @property
    def recent_transactions(self) -> Streamed:
        """See `cdc.database.ChangeStream`."""
        seen = self._gtids if self._current is None else self._gtids.after(self._current.gtid)
        for part in self._start.parts:
            seen = seen.after(self._config.flavour.gtid(part))
        file, begin = self._last_begin or ("", None)
        after = time.monotonic() - _RECENT_SECONDS
        recent = (xid for xid, when in self._xa_commits.items() if when > after)
        return Streamed(seen, file, begin, frozenset(recent))

    @property
    def between_transactions(self) -> bool:
        """Whether the last one is complete, and nothing is passed."""
        return self._current is None and not self._progress.resumes

    def has_reached(self, mark: LogPosition) -> bool:
        """See `cdc.database.ChangeStream`."""
        return self._gtids.contains(mark)

    def end_batch(self) -> None:
        """`read` is to return behind the event that is being read."""
        self._ends_batch = True

    def stop_at(self, until: LogPosition | None) -> None:
        """`read` is to go no further than to the end of the last of these transactions; None: as far as it can."""
        self._until = until

    def _is_at_end(self) -> bool:
        return self._until is not None and self._current is None and self.has_reached(self._until)

    def read(self) -> bool:
        """Read what has arrived, ``max.batch.size`` rows at most; whether nothing more is there now.

        Raises:
            BinlogError: the log holds what cannot be understood.
            BinlogLostError: the position is gone.
            UnsupportedError: the log holds what is not read.
            MariaDbError: the connection is lost.
        """
        rows = 0
        self._idle = False
        if self._is_at_end():
            return True
        for event in self._arrived():
            if event is None:
                return False
            rows += (count := self._event(event))
            self.events += count
            if rows >= self._config.batch_rows or self._ends_batch:
                self._ends_batch = False
                return False
            if self._is_at_end():
                return True
        self._arrivals.check_silence()
        self._idle = self._current is None
        return True

    def _arrived(self) -> Iterator[Event | None]:
        """The events that are there, up to where the stream is to stop; None: nothing for now, though more will be."""
        yield from self._of_commit()
        if self._is_at_end():
            return
        for event in self._arrivals.events():
            yield event
            if self._committed is not None:
                yield from self._of_commit()
                if self._is_at_end():
                    return

    def _of_commit(self) -> Iterator[Event | None]:
        """Those of a distributed transaction that is being committed."""
        if self._committed is not None:
            for event in self._committed:  # noqa: UP028 - `yield from` would close it when a batch ends within
                yield event
            self._completed()

    @property
    def last_seconds(self) -> int:
        """When the last transaction that was seen was written, in seconds since the Unix epoch; 0 before the first."""
        return self._place.seconds

    @property
    def lag_seconds(self) -> float:
        """The age of the last change; 0 when nothing more is there."""
        return 0.0 if self._idle or not self._place.seconds else max(0.0, time.time() - self._place.seconds)

    def wait(self, seconds: float, descriptor: int) -> None:
        """Wait for more."""
        self._arrivals.wait(seconds, descriptor)

    def close(self) -> None:
        """Close connections."""
        self._arrivals.close()
        self._tables.close()

    def _event(self, event: Event) -> int:
        """Take in an event; how many rows it had."""
        kind, rows = event.type, 0
        if self._current is not None and self._current.prepares and kind in _OF_PREPARED:
            self._prepare(event)
        elif kind in log.ROWS:
            rows = self._rows(event)
        elif kind == log.TABLE_MAP:
            self._versions[table_id(event)] = self._tables.version(event, self._before())
        elif kind == log.GTID:
            self._begin(event)
        elif kind == log.XID:
            self._end(event)
        elif kind in {log.QUERY, log.QUERY_COMPRESSED}:
            self._query(event)
        else:
            self._other(event)
        if self._current is not None:
            self._progress.events += 1
        elif event.end_position and kind in {log.FORMAT_DESCRIPTION, log.PREVIOUS_GTIDS}:
            self._gtids = self._gtids.passed(self._file, event.end_position)
        return rows

    def _other(self, event: Event) -> None:
        """An event that is neither of rows nor of a transaction's bounds."""
        kind = event.type
        if kind == log.ANNOTATE_ROWS:
            self._annotate(event)
        elif kind == log.ROTATE:
            self._rotate(event)
        elif kind == log.INCIDENT:
            raise BinlogLostError(
                f"the server says in {self._where(event)} that changes are missing from its log (INCIDENT)",
                hint="take a new snapshot",
            )
        elif not (
            kind in log.IGNORED | {log.FORMAT_DESCRIPTION, log.GTID_LIST, log.HEARTBEAT, log.HEARTBEAT_V2}
            or event.ignorable
        ):
            raise UnsupportedError(f"{self._where(event)} is an event of type {kind}, which is not read")

    def _annotate(self, event: Event) -> None:
        if self._config.include_query:  # MySQL sends them in any case
            self._place.query = event.reader("ANNOTATE_ROWS").rest().decode("utf-8", "replace")

    def _rotate(self, event: Event) -> None:
        rotate = log.read_rotate(event)
        self._file, self._place.file = rotate.file, rotate.file
        self._versions.clear()
        if self._current is None and event.timestamp:  # the first one of a stream is made up, and has none
            self._position = rotate.position
            self._gtids = self._gtids.passed(rotate.file, rotate.position)

    def _begin(self, event: Event) -> None:
        if self._current is not None:
            raise BinlogError(f"a transaction begins in another, in {self._where(event)}")
        begun = log.read_gtid(event)
        self._order.begin(begun, self._gtids, self._file, event.end_position)
        if begun.prepares:
            self._prepared.begin(begun, self._gtids)
        self._current = begun
        self._is_hidden = self._config.sources.hide(begun.gtid.origin)
        self._progress.begin(str(begun.gtid))
        self._position = event.end_position - event.size if event.end_position else self._position
        self._last_begin = (self._file, self._position) if event.end_position else None
        place = self._place
        place.seconds, place.server_id, place.gtid = event.timestamp, event.server_id, begun.gtid.shown
        place.position, place.row, place.query = self._position, 0, None
        place.thread, place.nanos = begun.thread, begun.nanos
        self._seconds, self._server_id = event.timestamp, event.server_id
        self._commits.begin(begun, event.timestamp)
        self._numbers = self._unsaid = None
        if not (begun.standalone or begun.prepares):
            self._number(begun, event.timestamp)

    def _number(self, begun: log.GtidEvent, seconds: int) -> None:
        """Rows follow, which are numbered where that is asked for."""
        if self._config.transactions:
            self._numbers = Numbers(begun.gtid.name, 0, {}, self._place.commit)
            if not self._progress.began_before:
                self._unsaid = self._milliseconds(seconds)

    def _milliseconds(self, seconds: int) -> int:
        """When the present transaction was committed, where its beginning says so, else when an event was written."""
        return self._place.nanos // 1_000_000 or seconds * 1000

    def _say_begin(self) -> None:
        """With its first row: the offset before that does not know whether it was said."""
        if self._unsaid is not None and self._numbers is not None:
            self._output.write(self._topic.begin(self._numbers, self._unsaid))
        self._unsaid = None

    def _end(self, event: Event) -> None:
        if self._current is None:
            raise BinlogError(f"a transaction ends that has not begun, in {self._where(event)}")
        self._say_begin()
        if self._numbers is not None:
            self._output.write(self._topic.end(self._numbers, self._milliseconds(event.timestamp)))
        self.transactions += not self._current.prepares
        self._gtids = self._gtids.ended(self._current.gtid, self._file, event.end_position)
        self._progress.end()
        self._commits.end(self._numbers)
        self._current = self._numbers = None
        self._position = event.end_position or self._position

    def _query(self, event: Event) -> None:
        query = log.read_query(event)
        kind = kind_of(query.statement)
        refuse_rows(kind, self._where(event))
        if kind in {Kind.XA, Kind.XA_COMMIT, Kind.XA_ROLLBACK}:
            self._complete(event, kind)
            return
        if kind is Kind.ROLLBACK and self._progress.rows > self._progress.defined:
            raise UnsupportedError(
                f"{self._where(event)} takes back rows that were read: a transaction over tables without transactions",
                hint="leave tables of engines without transactions out of such, and take a new snapshot",
            )
        if kind is Kind.OTHER:
            self._define(event, query)
        if self._current is not None and (kind in {Kind.COMMIT, Kind.ROLLBACK} or self._current.standalone):
            self._end(event)

    def _prepare(self, event: Event) -> None:
        """An event of a distributed transaction (XA) that is prepared, and may still be rolled back."""
        assert self._current is not None
        assert self._current.xid is not None
        if event.type in {log.QUERY, log.QUERY_COMPRESSED}:
            refuse_rows(kind_of(log.read_query(event).statement), self._where(event))
        elif event.type == log.XA_PREPARE:
            self._prepared.end(self._current.xid)
            if log.is_one_phase(event):
                self._current = replace(self._current, flags=log.COMPLETES)
                self._complete(event, Kind.XA_COMMIT)
            else:
                self._end(event)
        else:
            self._prepared.take(event)

    def _complete(self, event: Event, kind: Kind) -> None:
        """A distributed transaction is committed, so that its rows follow from where they were prepared; or is rolled back."""
        current = self._current
        if current is None or current.xid is None or kind is Kind.XA:
            raise BinlogError(f"{self._where(event)} is of a distributed transaction (XA) that has not begun")
        self._commit = event
        if kind is Kind.XA_ROLLBACK:
            self._completed()
            return
        self._note_commit(current.xid)
        self._number(current, event.timestamp)
        self._committed = self._prepared.events(current.xid, event, current.gtid, self._gtids)

    def _note_commit(self, xid: str) -> None:
        commits, now = self._xa_commits, time.monotonic()
        commits.pop(xid, None)
        commits[xid] = now
        while commits[oldest := next(iter(commits))] < now - _RECENT_SECONDS or len(commits) > _MOST_RECENT:
            del commits[oldest]

    def _completed(self) -> None:
        """All of it is written; nothing, where it is rolled back."""
        assert self._current is not None
        assert self._current.xid is not None
        assert self._commit is not None
        self._prepared.forget(self._current.xid)
        self._end(self._commit)
        self._committed = self._commit = None

    def _define(self, event: Event, query: log.Query) -> None:
        """A definition (DDL), or what is none and changes no row. It counts as a row: a transaction may have rows behind it."""
        self._tables.altered()
        self._observers.altered()
        self._say_begin()
        self._progress.rows += 1
        self._progress.defined += 1
        passed = self._progress.is_passed()
        if self._current is None:
            return
        place = replace(self._place, row=0, query=None)
        if event.end_position:
            place.position = event.end_position - event.size  # behind the GTID, as Debezium has it
        gtid = self._current.gtid
        behind = self._gtids.ended(gtid, self._file, event.end_position)
        definition = Definition(
            query, place, self._before(), gtid, behind, self._progress.events, event.timestamp
        )
        self._numbers = self._definitions.write(definition, self._numbers, passed=passed)

    def _before(self) -> Offset:
        """Before the present transaction."""
        commit = self._commits.stored
        place = self._file, self._position, self._seconds, self._server_id
        return Offset(self._gtids, *place, commit=commit)

    def _rows(self, event: Event) -> int:
        if self._current is None:
            raise UnsupportedError(
                f"{self._where(event)} are rows outside of a transaction with a GTID",
                hint="is the server a replica of one without GTIDs?",
            )
        number = table_id(event)
        if number not in self._versions:
            raise BinlogError(f"{self._where(event)} are rows of a table that the log has not named")
        version = self._versions[number]
        if version is None:
            return 0
        signals = self._observers.is_signals(version.plan.id)
        if self._is_hidden and not signals:
            return 0
        self._say_begin()
        rows = read_rows_event(event)
        self._place.seconds = event.timestamp
        # None within a transaction of MariaDB's, from 11.4 on; of a distributed one that where it was prepared, in another file perhaps.
        if event.end_position and self._committed is None:
            self._place.position = event.end_position - event.size
        if version.encoder is not None and not self._progress.resumes and not signals:
            written = version.encoder.records(rows, self._place, self._numbers)
            if written is not None:
                return self._rows_writer.encoded(version.plan, *written)
        cells = version.rows.read(rows, self._where(event))
        changes = len(cells) // 2 if rows.op == "u" else len(cells)
        for row in range(changes):
            self._place.row = row
            self._rows_writer.change(rows, row, cells, version, self._numbers)
        return changes

    def _where(self, event: Event) -> str:
        gtid = self._current.gtid if self._current is not None else "no transaction"
        return f"{self._file}, {gtid}, event {self._progress.events}" + (
            f", before byte {event.end_position}" if event.end_position else ""
        )


def _first_place(start: Offset) -> Place:
    gtid = (str(start.gtids) or None) if start.gtids.has_ids else None
    return Place(server_id=start.server_id, gtid=gtid, file=start.file, position=start.position)
