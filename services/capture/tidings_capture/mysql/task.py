"""The task of MariaDB's connector: a snapshot where one is due, then the log."""

import time
from dataclasses import replace
from typing import Final

from tidings_capture.cdc.signals.channels import signal_of_json
from tidings_capture.cdc.signals.notifications import INITIAL
from tidings_capture.cdc.start import Begin, Stored, begin
from tidings_capture.mysql.beside import Beside
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import BinlogLostError, MariaDbError, UnsupportedError
from tidings_capture.mysql.history.topic import SchemaHistory, open_history
from tidings_capture.mysql.incremental.errors import is_passing
from tidings_capture.mysql.incremental.session import ChunkSession, KeptSession
from tidings_capture.mysql.offset import Offset, read_offset
from tidings_capture.mysql.schemas.schema_topic import SchemaTopic
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_capture.mysql.snapshots.rows import write_records
from tidings_capture.mysql.snapshots.snapshot import Snapshot, Work
from tidings_capture.mysql.streaming.observers import Streamed
from tidings_capture.mysql.streaming.sequence_order import check_goes_on
from tidings_capture.mysql.streaming.stream import Stream
from tidings_capture.mysql.streaming.transactions import TransactionTopic
from tidings_capture.mysql.streaming.visibility import wait_until_seen
from tidings_connect.errors import RecordError
from tidings_connect.task.channel import SIGNAL
from tidings_connect.task.output import Output
from tidings_connect.task.source_loop import SourceTask, StreamFigures
from tidings_connect.task.stored_positions import Position
from tidings_service import get_logger

_log = get_logger(__name__)
_VISIBLE_SECONDS: Final = 15.0
"""So long a task that begins waits for readers to see what it has told: a semi-synchronous replica has ten seconds by default."""


class MariaDbTask(SourceTask):
    """Reads one server.

    A snapshot behind what was sent before (of an interrupted one, of a former run with ``snapshot.mode=always``, or asked for by a
    signal) is opened first; then the log is read up to its position, and then its rows: so none is older than a change before it.
    """

    def __init__(self, config: MariaDbConfig, output: Output) -> None:
        self._config = config
        self._output = output
        self._topic = TransactionTopic(config)
        self._history = open_history(config)
        self._beside = Beside(config, output)
        self._due: Work | None = None
        """A snapshot that is to be opened when its time has come."""
        self._is_unsettled = False
        """Whether a snapshot's position has still to be stored, so that an interruption is known as one."""
        self._not_before = 0.0
        self._snapshot: Snapshot | None = None
        self._blocks = False
        """Whether the snapshot was asked for by a signal."""
        self._catches_up = False
        """Whether the log has to be read up to the snapshot first."""
        self._stream: Stream | None = None
        self._offset: Offset | None = None
        self._last_commit = 0
        """The number that was given last, where the log is not read on from there."""
        self._lost: LogPosition | None = None
        """What was read before, where the log does not go on from there and a new snapshot follows."""
        self._beat_at = 0.0
        self._acting = KeptSession(config.endpoint)
        """Of ``heartbeat.action.query``."""
        self._former = StreamFigures()
        """Of streams that have ended."""

    def start(self, stored: Position | None) -> None:
        offset = None if stored is None else read_offset(stored, self._config.flavour)
        self._last_commit = 0 if offset is None else offset.commit
        session = Session(self._config.endpoint)
        try:
            self._config.flavour.check_server(session, has_history=self._history is not None)
            offset = None if offset is None else self._adopted(session, offset)
            lost = offset is not None and self._is_lost(session, offset)
            kind = (
                Stored.NOTHING if offset is None else Stored.PART if offset.in_snapshot else Stored.POSITION
            )
            decision = begin(self._config.snapshot, kind, log_kept=True, lost=lost, loss_choice="fail")
            _log.info("starting", connector=self._config.prefix, begin=decision.name.lower())
            self._begin(decision, session, offset)
        finally:
            session.close()
        if self._due is None and self._snapshot is None:
            self._beside.notifier.tell(INITIAL, "SKIPPED")

    def _is_lost(self, session: Session, offset: Offset) -> bool:
        """Whether the log does not hold what follows a position, where a new snapshot is the answer; else it is an error when the
        log is opened."""
        if not self._config.snapshot.when_lost:
            return False
        try:
            self._config.flavour.check_position(session, offset.gtids, str(self._config.endpoint))
        except BinlogLostError as error:
            self._warn_of_loss(error)
            self._lost = offset.gtids
            return True
        return False

    def _begin(self, decision: Begin, session: Session, offset: Offset | None) -> None:
        match decision:
            case Begin.SNAPSHOT | Begin.SNAPSHOT_BEHIND_LOG | Begin.RECOVER:
                self._offset = None
                self._take(Work(selects=self._config.snapshot.selects))
            case Begin.SNAPSHOT_ALONE | Begin.SNAPSHOT_BEHIND_STREAM:
                assert offset is not None
                self._offset = offset
                self._catches_up = decision is Begin.SNAPSHOT_BEHIND_STREAM
                if self._catches_up:
                    self._await_visibility(session, offset)
                self._take(Work(selects=self._config.snapshot.selects, done=offset.done))
            case Begin.STREAM_FROM_NOW:
                self._begin_without_rows(session)
            case _:
                self._offset = None if offset is None else replace(offset, in_snapshot=False, done=())
        history = self._history
        if history is None or offset is None or self._due is not None or self._snapshot is not None:
            return
        if history.is_missing or self._config.recovers or offset.in_snapshot:
            self._begin_history(session, history, offset)

    def _begin_history(self, session: Session, history: SchemaHistory, offset: Offset) -> None:
        """The tables as they are now, at a stored position, as Debezium's ``snapshot.mode=recovery`` has them."""
        _log.info("the schema history begins with the tables as they are now")
        history.begin()
        for told in SchemaTopic(self._config).structures(session):
            history.structure(told, offset)

    def _begin_without_rows(self, session: Session) -> None:
        """Where the log is now, or, with ``snapshot.mode=never``, where it begins."""
        config = self._config
        if config.reads_all:
            self._offset = config.flavour.oldest(session)
        elif config.schema_changes or self._history is not None:
            self._open(Work(), rows=False)
        else:
            session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            self._offset = self._numbered(replace(config.flavour.now(session), in_snapshot=False))

    def _take(self, work: Work) -> None:
        """A snapshot is to be read, when its time has come."""
        delay = self._config.snapshot.delay_seconds
        self._not_before = time.monotonic() + delay
        if delay:
            self._due = work
        else:
            self._open(work)

    def _open(self, work: Work, *, rows: bool = True) -> None:
        self._due = None
        self._beside.tell("STARTED", {})
        self._snapshot = snapshot = Snapshot(
            self._config,
            rows=rows,
            direct=self._output.direct,
            history=self._history,
            work=work,
            tell=self._beside.tell,
        )
        if self._catches_up:
            assert self._offset is not None
            snapshot.offset = replace(snapshot.offset, gtids=snapshot.offset.place_like(self._offset.gtids))
        else:
            if self._lost is not None:
                check_goes_on(self._config, self._lost, snapshot.offset.gtids)
            snapshot.offset = self._numbered(snapshot.offset)
            self._offset = replace(snapshot.offset, done=snapshot.done)
            self._is_unsettled = True

    def _numbered(self, offset: Offset) -> Offset:
        """A place of the log that is not read up to: its commits' numbers go on behind those that were given before."""
        return replace(offset, commit=max(offset.commit, self._last_commit))

    def poll(self) -> bool:
        self._beat()
        now = time.monotonic()
        if now < self._not_before:
            return True
        if self._due is not None:
            self._open(self._due)
        if self._is_unsettled:
            self._is_unsettled = False
            self._output.settle()
        if self._snapshot is not None and not self._catches_up:
            self._read_snapshot(self._snapshot)
            return False
        if not self._config.snapshot.streams and not self._catches_up:
            return True
        try:
            return self._read_log(now)
        except BinlogLostError as error:
            interrupted = self._offset is not None and self._offset.in_snapshot
            if not self._config.snapshot.when_lost and not interrupted:
                raise
            self._warn_of_loss(error)
            if self._offset is not None:
                self._last_commit, self._lost = self._offset.commit, self._offset.gtids
            self._close_stream()
            self._drop_snapshot()
            self._blocks = self._catches_up = False
            self._take(Work(selects=self._config.snapshot.selects))
            return False

    def _warn_of_loss(self, error: BinlogLostError) -> None:
        _log.warning("the log does not hold the stored position: a new snapshot is taken", reason=str(error))

    def _read_log(self, now: float) -> bool:
        if self._stream is None:
            assert self._offset is not None
            self._stream = self._open_stream(self._offset)
            self._beside.attach(self._stream, self._offset)
        stream, beside = self._stream, self._beside
        if self._snapshot is not None:
            stream.stop_at(self._snapshot.offset.gtids)
        drained = stream.read()
        self._offset = self._streamed(stream)
        busy = beside.poll(now)
        if self._snapshot is not None:
            if stream.between_transactions and stream.has_reached(self._snapshot.offset.gtids):
                self._reached(self._snapshot, stream)
                return False
        elif (
            beside.blocking.waiting
            and stream.between_transactions
            and self._can_be_seen(stream.recent_transactions)
        ):
            self._begin_blocking()
            return False
        return drained and not busy

    def _can_be_seen(self, streamed: Streamed) -> bool:
        """Whether a snapshot that begins now sees all that was told: else its rows would be older than changes before them."""
        config = self._config
        waits_for_commits = config.flavour.moment_needs_lock and config.locking != "none"
        if waits_for_commits or not streamed.gtids.has_ids or streamed.gtids.is_start:
            return True
        session = ChunkSession(config.endpoint)
        try:
            return wait_until_seen(session.get(), config.flavour, streamed)
        finally:
            session.close()

    def _await_visibility(self, session: Session, offset: Offset) -> None:
        """As `_can_be_seen`, of a stored position that the server has.

        Raises:
            MariaDbError: it takes longer than some seconds.
        """
        where = str(self._config.endpoint)
        try:
            self._config.flavour.check_position(session, offset.gtids, where)
        except (MariaDbError, BinlogLostError, UnsupportedError):
            return  # told when the log is read
        deadline = time.monotonic() + _VISIBLE_SECONDS
        while not self._can_be_seen(Streamed(offset.gtids)):
            if time.monotonic() > deadline:
                raise MariaDbError(
                    f"{where} has {offset.gtids} in its log, and does not show what it did",
                    hint="a commit waits there, such as for a semi-synchronous replica: see SHOW PROCESSLIST; it is asked again",
                )

    def _streamed(self, stream: Stream) -> Offset:
        """Where the log is read; with what is left of an interrupted snapshot, which is read behind it."""
        offset = stream.offset()
        if self._snapshot is None or self._blocks:
            return offset
        return replace(offset, in_snapshot=True, done=self._snapshot.done)

    def _reached(self, snapshot: Snapshot, stream: Stream) -> None:
        """The log was read up to a snapshot: its rows are next."""
        self._catches_up = False
        assert self._offset is not None
        if self._offset.commit:  # else the log that was read has no numbers
            snapshot.offset = replace(snapshot.offset, commit=self._offset.commit)
        else:
            self._offset = replace(self._offset, commit=snapshot.offset.commit)
        if self._blocks:
            snapshot.context = replace(stream.context)
        else:
            self._is_unsettled = True
        self._close_stream()

    def _begin_blocking(self) -> None:
        """The oldest snapshot that a signal has asked for."""
        assert self._offset is not None
        asked = self._beside.blocking.take(self._offset)
        self._blocks = self._catches_up = True
        try:
            self._open(Work(tables=asked.tables, selects=asked.selects))
        except (MariaDbError, UnsupportedError) as error:
            self._give_up(error)

    def _adopted(self, session: Session, offset: Offset) -> Offset:
        """An offset as the server can have it, of whose transactions some need not count (`GtidSources`)."""
        sources = self._config.sources
        gtids = self._config.flavour.adopted(session, offset.gtids, sources)
        if gtids == offset.gtids:
            return offset
        _log.info(
            "the server has other transactions of sources that do not count",
            connector=self._config.prefix,
            read=str(offset.gtids),
            goes_on_at=str(gtids),
        )
        # One that was read in part, and may never come.
        parts = {name: count for name, count in offset.parts.items() if self._counts(name)}
        return replace(offset, gtids=gtids, parts=parts)

    def _counts(self, gtid: str) -> bool:
        origin = self._config.flavour.gtid(gtid).origin
        return origin is None or self._config.sources.have(origin)

    def _open_stream(self, offset: Offset) -> Stream:
        session = Session(self._config.endpoint)
        try:
            offset = self._adopted(session, offset)
            self._config.flavour.check_position(session, offset.gtids, str(self._config.endpoint))
        finally:
            session.close()
        return Stream(self._config, self._output, offset, self._history, self._beside.observers)

    def _read_snapshot(self, snapshot: Snapshot) -> None:
        try:
            records = snapshot.read()
        except (MariaDbError, UnsupportedError, RecordError) as error:
            if not self._blocks:
                self._beside.tell("ABORTED", {})
                raise
            self._give_up(error)
            return
        write_records(self._output, records)
        if not records:
            self._end_snapshot()
        elif not self._blocks:
            assert self._offset is not None
            self._offset = replace(self._offset, done=snapshot.done)

    def _end_snapshot(self) -> None:
        if not self._blocks:
            assert self._offset is not None
            self._offset = replace(self._offset, in_snapshot=False, done=())
            self._not_before = time.monotonic() + self._config.snapshot.streaming_delay_seconds
        self._beside.tell("COMPLETED", {})
        self._drop_snapshot()
        self._blocks = False

    def _give_up(self, error: MariaDbError | UnsupportedError | RecordError) -> None:
        """A snapshot that a signal has asked for failed: by a mistake in the signal's own SQL, as a rule, and no reason for the
        stream to end."""
        if isinstance(error, MariaDbError) and is_passing(error):
            raise error
        _log.error("blocking snapshot given up", connector=self._config.prefix, reason=str(error))
        self._beside.tell("ABORTED", {})
        self._drop_snapshot()
        self._blocks = self._catches_up = False

    def _drop_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def _beat(self) -> None:
        now = time.monotonic()
        if self._config.heartbeat_seconds and now >= self._beat_at:
            self._beat_at = now + self._config.heartbeat_seconds
            self._output.write(self._topic.heartbeat(time.time_ns()))
            # It would wait without end for what this task itself has locked; the first beat behind the locks does it.
            is_locked = self._snapshot is not None and self._snapshot.has_locks
            if self._config.heartbeat_action and not is_locked:
                self._act(self._config.heartbeat_action)

    def _act(self, statement: str) -> None:
        """``heartbeat.action.query``."""
        try:
            self._acting.get().rows(statement)
        except MariaDbError as error:
            self._acting.close()
            _log.warning("heartbeat.action.query failed", connector=self._config.prefix, reason=str(error))

    def command(self, kind: str, body: str) -> None:
        """Take a signal that came over REST; what is not one is left out."""
        if kind == SIGNAL and (signal := signal_of_json(body)) is not None:
            self._beside.give(signal)

    def position(self) -> Position | None:
        """See `SourceTask`; None before a snapshot that waits for its time."""
        if self._offset is None:
            return None
        return replace(self._offset, incremental=self._beside.incremental.state()).stored()

    def wait(self, seconds: float, descriptor: int) -> None:
        seconds = min(seconds, self._beside.patience)
        if self._stream is None:
            super().wait(seconds, descriptor)
        else:
            self._stream.wait(seconds, descriptor)

    def stop(self) -> None:
        self._acting.close()
        self._drop_snapshot()
        self._close_stream()
        self._beside.close()

    def figures(self) -> StreamFigures:
        """See `SourceTask`."""
        stream, former = self._stream, self._former
        if stream is None:
            return replace(former, lag_seconds=0.0)
        return StreamFigures(
            former.transactions + stream.transactions,
            former.events + stream.events,
            stream.last_seconds * 1_000_000,
            stream.lag_seconds,
        )

    def _close_stream(self) -> None:
        self._former = self.figures()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
