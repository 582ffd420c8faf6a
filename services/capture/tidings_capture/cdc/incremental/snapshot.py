"""Incremental snapshots: tables are read in chunks while the stream goes on, and merged with it by watermarks.

The method is DBLog's (Netflix, "DBLog: A Watermark Based Change-Data-Capture Framework"), as Debezium does it. A chunk is
the next rows by key. Its rows are as of the moment they were read, and go to the topic at a point of the stream that is
surely later than that moment; a row whose key the stream has changed between a surely earlier point and that one is
left out, because the stream's row is newer. The two points are the low and the high watermark:

* With a signal table, a row is written to it after the chunk was read (or the one before is deleted,
  ``insert_delete``); the stream shows where it stands among the changes: behind every commit that the chunk can show.
* ``read.only`` writes nothing. The high watermark is the end of the log after the chunk was read.

The low watermark is where the stream stands when the chunk is read, either way: whatever the stream tells between the
two, its last word on a key is as new as the chunk's row, or newer. The row that is written to a signal table before the
chunk is read is there for who reads the topic, as Debezium's; it would be too late a mark. A transaction's commit is in
the WAL, and so in the stream, before others see it: a commit that stands before that row may not be in the chunk. For
the same reason the chunk is read only when readers see every transaction that was just streamed.

The state is stored with the stream's position, and holds the key of the last row *sent*: a restart reads the chunk
whose rows were still waiting for their high watermark again. Watermarks of a former run are ignored by their id.
"""

import uuid
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic

from tidings_capture.cdc.database import ChangeStream, ChunkSource, GoneRows, R, TableId, Watch, Watermarks
from tidings_capture.cdc.errors import DatabaseError
from tidings_capture.cdc.fault_points import reached
from tidings_capture.cdc.incremental.notices import IncrementalNotices
from tidings_capture.cdc.incremental.requests import wanted_keys, wanted_tables
from tidings_capture.cdc.incremental.state import Collection, IncrementalState, expanded, restored_state
from tidings_capture.cdc.signals.channels import Signal, table_pattern
from tidings_capture.cdc.signals.notifications import Notifier
from tidings_capture.cdc.signals.options import SignalOptions
from tidings_service import Retry, get_logger

_log = get_logger(__name__)


class IncrementalSnapshots(Generic[R]):
    """A task's incremental snapshots.

    Args:
        name: the connector's, for the log.
        captured: the tables that the filters choose now.
        rows: reads the rows that are there.
        deleted: finds the rows that are gone; None: nobody does.
        given: looks up the keys that signals name; None: nobody does.
    """

    def __init__(
        self,
        options: SignalOptions,
        name: str,
        captured: Callable[[], list[TableId]],
        watermarks: Watermarks,
        rows: ChunkSource[R],
        deleted: GoneRows[R] | None,
        notifier: Notifier,
        given: ChunkSource[R] | None = None,
    ) -> None:
        self._options = options
        self._name = name
        self._captured = captured
        self._watermarks = watermarks
        self._table: ChunkSource[R] = rows
        self._rows = rows
        self._deleted = deleted
        self._given = given
        self._state = IncrementalState()
        self._notices = IncrementalNotices(notifier, brief=options.brief)
        self._stream: ChangeStream | None = None
        self._window: dict[Hashable, R] = {}
        self._watched: Watch | None = None
        self._chunk_id: str | None = None
        self._close_mark: Any = None
        self._held = False
        self._gathering = False
        self._reads_again = False

    @property
    def waiting(self) -> bool:
        """Whether the next chunk waits for the stream to reach a mark."""
        return self._close_mark is not None

    @property
    def reads_soon(self) -> bool:
        """Whether the next chunk waits for nothing of the stream."""
        return self._reads_again

    def asked_by(self, correlation_id: str) -> bool:
        """Whether a table is left to be read that was asked for under this id."""
        return any(collection.correlation_id == correlation_id for collection in self._state.collections)

    def attach(self, stream: ChangeStream, stored: Mapping[str, Any] | None) -> None:
        """A stream begins; an incremental snapshot that was under way goes on.

        Args:
            stored: what the position has of it (see `state`).
        """
        self._stream = stream
        if not self._state.running:
            self._state = restored_state(stored)
        self._forget_chunk()
        if self._state.running:
            _log.info("incremental snapshot goes on", connector=self._name, tables=self._state.names())
            self._state.chunk_end = self._state.last_sent
            self._read_chunk()

    def state(self) -> dict[str, object] | None:
        """What is stored with the stream's position."""
        return self._state.stored()

    def on_table(self, table: TableId) -> None:
        """A table was announced in a new version: what the chunk holds has another form than what follows."""
        if table != self._table.table_id:
            return
        if self._watched is None and self._chunk_id is not None:
            self._watch()  # announced for the first time
        else:
            self.read_again()

    def read_again(self) -> None:
        """A table was altered, perhaps the one that is being read: see `on_table`."""
        if self._chunk_id is None or not self._state.running:
            return
        _log.info("the table changed: the chunk is read again", connector=self._name)
        self._forget_chunk()
        self._state.chunk_end = self._state.last_sent
        self._reads_again = True  # by `poll`: a row is being converted

    # Signals

    def execute(self, signal: Signal, *, deleted: bool = False) -> None:
        """Read tables: they are put behind those that are being read.

        Args:
            deleted: the rows that are gone are wanted, not those that are there.
        """
        names = signal.names()
        if names is None:
            _log.warning("data-collections is missing or is not a list of strings", signal=signal.id)
            return
        if deleted and self._deleted is None:
            _log.warning("this connector does not look for deleted rows", signal=signal.id)
            return
        self._ask(
            signal,
            wanted_tables(signal, names, self._captured(), self._options.enclose, deleted=deleted),
        )

    def repair(self, signal: Signal) -> None:
        """Tell the topic what the database has for the keys of a signal.

        Raises:
            ConnectError: the signal is not of its form.
        """
        if self._given is None:
            _log.warning("this connector does not take the signal repair-rows", signal=signal.id)
        else:
            self._ask(signal, [wanted_keys(signal)])

    def _ask(self, signal: Signal, new: list[Collection]) -> None:
        if self._options.table is None and not self._options.read_only:
            _log.warning(
                "an incremental snapshot needs signal.data.collection, or read.only=true", signal=signal.id
            )
            return
        idle, names = not self._state.running, [one.name for one in new]
        self._state.collections = [*self._state.collections, *new]
        self._state.correlation_id = signal.id
        _log.info("incremental snapshot asked for", connector=self._name, signal=signal.id, tables=names)
        if idle:
            self._notices.started(self._state)
            self._read_chunk()

    def stop(self, signal: Signal) -> None:
        """Leave tables out from the next chunk on; all, when none is named."""
        if not self._state.running:
            return
        if signal.data.get("data-collections") and signal.names() is None:
            _log.warning("data-collections is not a list of strings", signal=signal.id)
            return
        for name in signal.names() or ():
            table_pattern(name)  # to be refused now, not between two chunks
        self._state.stopping += signal.names() or [".*"]

    def pause(self) -> None:
        """Read no further chunk."""
        if self._state.running and not self._state.paused:
            self._state.paused = True
            self._notices.paused(self._state)

    def resume(self) -> None:
        """Go on."""
        if self._state.running and self._state.paused:
            self._state.paused = False
            self._notices.resumed(self._state)
            self._go_on()

    def hold(self, held: bool) -> None:
        """Read no further chunk while the slot retains too much WAL; an operator's pause is another matter."""
        if held == self._held:
            return
        self._held = held
        if self._state.running:
            _log.warning(
                "incremental snapshot rests for the slot" if held else "incremental snapshot goes on",
                connector=self._name,
            )
            if not held:
                self._go_on()

    def close_window(self, id_: str) -> None:
        """A high watermark of the signal table was streamed."""
        if self._chunk_id is None or not id_.startswith(self._chunk_id):
            return  # of another run, or of a connector that shares the table
        self._send_window()
        self._read_chunk()

    def poll(self) -> bool:
        """Called between batches of the stream: closes a window that has no row to close it; whether it did something."""
        stream = self._stream
        if self._close_mark is not None and stream is not None and stream.has_reached(self._close_mark):
            self._send_window()
            self._read_chunk()
            return True
        if self._reads_again or (self._gathering and not self._gathers_keys()):
            self._read_chunk()
            return True
        return False

    def close(self) -> None:
        """Let go of what is being read."""
        if self._deleted is not None:
            self._deleted.leave()

    # Chunks

    def _go_on(self) -> None:
        # A chunk whose rows wait for their high watermark is not forgotten: the next one is read after it was sent.
        if self._chunk_id is None:
            self._read_chunk()

    def _read_chunk(self) -> None:
        self._reads_again = False
        self._forget_chunk()
        self._apply_stops()
        state = self._state
        if not state.running or state.paused or self._held or self._gathers_keys():
            return
        assert self._stream is not None
        try:
            if not self._watermarks.wait_for_visibility(self._stream.recent_transactions):
                self._reads_again = True
                return
            self._chunk_id = str(uuid.uuid4())
            self._open_window()
            while state.collections and not self._gathers_keys():
                status = self._next_rows()
                if status is None:
                    break
                self._table_done(status)
            self._close_window()
        except DatabaseError as error:
            if error.retry is Retry.TIMED:
                raise
            self._give_up(error)

    def _gathers_keys(self) -> bool:
        """Whether the next rows are those that are gone, and the topic's keys are still being read for it."""
        collection = self._state.collections[0] if self._state.running else None
        self._gathering = (
            collection is not None
            and collection.deleted
            and self._deleted is not None
            and not self._deleted.gathered(collection)
        )
        return self._gathering

    def _give_up(self, error: DatabaseError) -> None:
        # A signal table that is not there or must not be written to, as a rule. Nothing would ever read the next chunk,
        # and whoever asks again, when it has been put right, would wait behind this for ever.
        _log.error("incremental snapshot given up", connector=self._name, reason=str(error))
        while self._state.running:
            self._table_done("SQL_EXCEPTION")
        self._forget_chunk()

    def _next_rows(self) -> str | None:
        """Fill the window from the current table; else why the table is done."""
        collection, state = self._state.collections[0], self._state
        self._table = self._source_of(collection)
        try:
            status = self._table.find(collection)
            if status is None and state.maximum is None:
                state.maximum = self._table.largest_key()
                status = "EMPTY" if state.maximum is None else None
            if status is None and not self._fill_window():
                status = "SUCCEEDED"
        except (DatabaseError, LookupError) as error:
            if isinstance(error, DatabaseError) and error.retry is Retry.TIMED:
                raise  # the connection: a restart goes on from here
            _log.warning(
                "incremental snapshot leaves a table out",
                connector=self._name,
                table=collection.name,
                reason=str(error),
            )
            return "SQL_EXCEPTION"
        return status

    def _source_of(self, collection: Collection) -> ChunkSource[R]:
        if collection.keys and self._given is not None:
            return self._given
        return self._deleted if collection.deleted and self._deleted is not None else self._rows

    def _fill_window(self) -> bool:
        state = self._state
        rows = self._table.keyed_rows(state.chunk_end, state.maximum, self._options.chunk_rows)
        for number, (key, row) in enumerate(rows):
            self._window[number if key is None else key] = row
        if self._table.end is None:
            return False
        state.chunk_end = self._table.end
        self._notices.chunk_read(state, len(rows), self._table.total, self._options.chunk_rows)
        reached("window.read")
        return True

    def _send_window(self) -> None:
        stream = self._stream
        if self._window:
            assert stream is not None
            self._table.send(self._window.values(), stream.context)
            reached("window.sent")
        if self._chunk_id is not None and self._state.running and self._state.chunk_end is not None:
            self._state.last_sent = self._state.chunk_end
        self._forget_chunk()

    def _forget_chunk(self) -> None:
        if self._watched is not None:
            self._watched.stop()
        self._watched = self._chunk_id = self._close_mark = None
        self._window = {}

    def _table_done(self, status: str) -> None:
        self._notices.table_read(self._state, status, self._table.total)
        _log.info(
            "table read",
            connector=self._name,
            table=self._state.collections[0].name,
            rows=self._notices.rows_scanned,
            status=status,
        )
        self._next_table()
        if not self._state.running:
            self._completed()
            _log.info("incremental snapshot finished", connector=self._name)

    def _completed(self) -> None:
        self._notices.completed(self._state)
        self._state.correlation_id = None

    def _next_table(self) -> None:
        self._state.next_table()
        self._table.leave()
        self._notices.next_table()

    def _apply_stops(self) -> None:
        state = self._state
        if not state.stopping:
            return
        names, state.stopping = expanded(state.stopping, self._captured()), []
        if not state.running:
            return
        current, *others = state.collections
        stopped = [c.name for c in others if c.name in names]
        state.collections = [current, *(c for c in others if c.name not in names)]
        if current.name in names:
            stopped.append(current.name)
            self._next_table()
            if not state.collections:
                self._completed()  # is told before, as in Debezium
        self._notices.aborted(state, stopped)
        _log.info("incremental snapshot stopped", connector=self._name, tables=stopped)

    # Watermarks

    def _open_window(self) -> None:
        assert self._chunk_id is not None
        self._watermarks.open(self._chunk_id, self._state.collections[0])

    def _close_window(self) -> None:
        self._close_mark = self._watermarks.close()
        self._watch()

    def _watch(self) -> None:
        """From here on a change takes its key out of the window."""
        if self._table.table_id is not None and self._watched is None:
            self._watched = self._table.watch(self._window)
