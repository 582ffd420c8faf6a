"""One run of a connector task: prepare, snapshot when asked for, then stream until told to stop.

A plain synchronous loop: read what has arrived, convert it, queue it for Kafka, and a few times a second look at the
clock. `Supervision` is what connects it with the process around it. Every error leaves `TaskRun.run`; whoever runs it
decides whether to try again.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from tidings_capture.cdc.chunks import ChunkTable
from tidings_capture.cdc.deleted_rows import DeletedRows
from tidings_capture.cdc.fault_points import reached
from tidings_capture.cdc.heartbeat_lag import HeartbeatLag
from tidings_capture.cdc.incremental import IncrementalSnapshots
from tidings_capture.cdc.notifications import INITIAL
from tidings_capture.cdc.signal_dispatch import SignalDispatch
from tidings_capture.cdc.signals import Signal, SignalChannels, signal_of_json
from tidings_capture.cdc.spool import Spool
from tidings_capture.postgres.assembler import Assembler
from tidings_capture.postgres.client import Replication
from tidings_capture.postgres.config import ConnectorConfig
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.idle_timeout import IdleTimeout
from tidings_capture.postgres.loss_recovery import CORRELATION
from tidings_capture.postgres.offset import SourceOffset
from tidings_capture.postgres.parts import TaskParts
from tidings_capture.postgres.publication_watch import PublicationWatch
from tidings_capture.postgres.rows import ROWS
from tidings_capture.postgres.server import start_streaming
from tidings_capture.postgres.snapshot import SnapshotRun
from tidings_capture.postgres.start import blocking_patterns, blocking_work, decide
from tidings_capture.postgres.stream import Stream
from tidings_capture.postgres.wal.options import GUARD_LEVEL
from tidings_capture.postgres.wal.task_guard import TaskGuard
from tidings_capture.postgres.watermarks import PostgresWatermarks
from tidings_capture.postgres.worker_options import spool_bounds
from tidings_connect.errors import BrokerError
from tidings_connect.kafka.topic_keys import TopicKeys
from tidings_connect.task.channel import SIGNAL, Report
from tidings_connect.task.transport import TaskContext
from tidings_envelope.position import lsn_to_text
from tidings_service import get_logger

_BATCH: Final = 2000
_FEW: Final = 200
"""Messages that are less than a millisecond's or two's work: a stream that brings no more at a time is not catching up."""
_HURRIED_WAITS: Final = 4
_IDLE_ADVANCE_SECONDS: Final = 5.0
"""How often an idle slot moves on; each time costs one record in the offsets topic."""
_QUESTION_SECONDS: Final = 0.1
_STOP_FLUSH_SECONDS: Final = 8.0
_REPORT_SECONDS: Final = 0.5

_log = get_logger(__name__)


class StopRequested(Exception):  # noqa: N818 - not an error
    """The supervisor asked the task to stop."""


class TaskRun:
    """One task's work, from its configuration."""

    def __init__(self, context: TaskContext, config: ConnectorConfig) -> None:
        self._job = context.job
        self._config = config
        self._supervision = context.supervision
        self._replication: Replication | None = None
        self._stream: Stream | None = None
        self._deadline: float | None = None
        self._next_report = 0.0
        self._next_status = 0.0
        self._told_lsn = 0
        self._assembler: Assembler | None = None
        self._former_transactions = self._former_events = 0
        self._parts = parts = TaskParts(context, config, self._breathe)
        self._progress = parts.progress
        self._producer, self._checkpoints = parts.producer, parts.checkpoints
        self._markers, self._routes = parts.markers, parts.routes
        self._blocking: deque[Signal] = deque()
        self._asked: list[Signal] = []
        self._pulse = HeartbeatLag()
        self._publication = PublicationWatch(parts)
        self._guard = TaskGuard(parts.progress)
        self._incremental = incremental_snapshots(parts, self._breathe)
        parts.positions.incremental = self._incremental.state
        self._desk = SignalDispatch(
            config.signals,
            config.name,
            SignalChannels(config.signals, parts.consumer_settings, config.topic_prefix),
            ROWS,
            self._incremental,
            self._block,
            self._settle,
        )
        parts.routes.on_route = self._desk.on_route

    def run(self) -> None:
        """Work until stopped.

        Raises:
            ConnectError: and its like, with `retry` and `hint`.
        """
        self._hear()
        self._report()
        try:
            self._work()
        except StopRequested:
            _log.info("stopped", connector=self._job.connector)
        finally:
            self._close()

    def _work(self) -> None:
        self._checkpoints.open()
        self._parts.topics.find()
        start = decide(self._parts)
        resume, work = start.resume, start.snapshot
        options = self._config.snapshot
        if work is None:
            self._parts.notifier.tell(INITIAL, "SKIPPED")
        else:
            self._pause(options.delay_seconds)
            resume = SnapshotRun(self._parts, self._catch_up).take(work)
            if not options.streams:
                resume = None
            else:
                self._pause(options.streaming_delay_seconds)
        if resume is None:
            self._progress.state = "idle"
            self._idle()
        while resume is not None:
            resume = self._run_stream(resume)
            while self._blocking and resume is not None:
                work = blocking_work(self._parts, self._blocking.popleft(), resume)
                resume = SnapshotRun(self._parts, self._catch_up).take(work)

    def _catch_up(self, resume: SourceOffset, lsn: int) -> SourceOffset:
        """Stream what was committed before `lsn`; everything else stays on the server."""
        return self._run_stream(resume, lsn)

    # Streaming

    def _run_stream(self, resume: SourceOffset, until: int | None = None) -> SourceOffset:
        """Stream; ends with where it stands, only when everything before `until` has been sent."""
        config = self._config
        if config.conversion.provide_transaction_metadata:
            self._parts.prepare_topic(self._markers.transaction_topic)
        if config.heartbeat_seconds:
            self._parts.prepare_topic(self._markers.heartbeat_topic)
        replication = Replication(config.endpoint)
        self._replication = None
        try:
            start_streaming(replication, config, resume.done_lsn, self._pause)
        except BaseException:
            replication.close()
            raise
        self._replication = replication
        protocol = config.protocol
        reader: Replication | Assembler = replication
        if self._assembler is not None:
            self._assembler.close()
            self._assembler = None
        if protocol.assembles:
            reader = self._assembler = Assembler(
                replication,
                Spool(protocol.memory_bytes, *spool_bounds(self._job.worker_properties)),
            )
        self._parts.positions.follow(resume)
        self._stream = stream = Stream(
            config,
            self._routes,
            self._markers,
            self._parts.messages,
            resume,
            self._parts.send,
            self._parts.schema_changes,
            self._parts.tolerance,
            self._parts.left_out,
        )
        if until is None:
            self._progress.state = "streaming"
        else:
            stream.stop_before(until)
        self._progress.connected = True
        _log.info("streaming", connector=config.name, slot=config.slot, lsn=lsn_to_text(resume.done_lsn))
        self._tell_server()
        self._report()
        self._desk.attach(stream.end_batch)
        self._incremental.attach(stream, resume.incremental)
        try:
            self._loop(reader, replication, stream)
        except StopRequested:
            self._finish(replication, stream)
            raise
        position = self._parts.positions.of_stream(stream.position())
        self._checkpoints.take(position)
        self._replication = self._stream = None
        self._pulse.forget()
        replication.close()
        self._progress.connected = False
        self._former_transactions += stream.transactions
        self._former_events += stream.events
        return position

    def _loop(self, reader: "Replication | Assembler", replication: Replication, stream: Stream) -> None:
        silence = IdleTimeout(self._config.receive_timeout_seconds)
        next_heartbeat = time.monotonic() + self._config.heartbeat_seconds
        next_idle = time.monotonic() + _IDLE_ADVANCE_SECONDS
        next_question = 0.0
        waits = 0
        while not self._is_over(stream):
            messages = reader.read(_BATCH)
            rest = messages
            while rest:
                rest = stream.process(rest)
                reached("batch.sent")
                self._desk.handle_streamed()
            self._checkpoints.poll()
            now = time.monotonic()
            self._incremental.hold(self._guard.no_snapshots)
            self._incremental.poll()
            self._publication.poll(now)
            asked, self._asked = self._asked, []
            self._desk.poll(now, asked)
            if stream.caught_up and (now >= next_idle or stream.reply_requested):
                next_idle = now + _IDLE_ADVANCE_SECONDS
                stream.advance()
                self._checkpoints.take(self._parts.positions.of_stream(stream.position()))
            elif self._checkpoints.due(now, drained=len(messages) < _BATCH, exact=stream.exact):
                self._checkpoints.take(self._parts.positions.of_stream(stream.position()))
            if self._config.heartbeat_seconds and now >= next_heartbeat:
                next_heartbeat = now + self._config.heartbeat_seconds
                self._heartbeat()
            self._pulse.reached(stream.received_lsn)
            if stream.reply_requested or self._parts.positions.confirmed_lsn > self._told_lsn:
                stream.reply_requested = False
                self._tell_server()
            self._breathe()
            if (stream.stops or self._incremental.waiting or self._pulse.waiting) and now >= next_question:
                next_question = now + _QUESTION_SECONDS
                self._tell_server(reply=True)  # an idle server says how far it is only when it is asked
            waiting = len(messages) < _FEW and self._producer.hurry(now)
            waits = 0 if messages else waits + 1
            if not messages:
                if silence.question_due(now, replication.last_heard):
                    self._tell_server(reply=True)
                pending = self._producer.outstanding() or self._checkpoints.pending
                # The last records may have been queued while others were under way, or were hurried too late to be seen.
                soon = 0.001 if waiting else 0.005 if waits <= _HURRIED_WAITS else 0.02
                reader.wait(soon if pending else 0.25, self._supervision.descriptor)

    def _heartbeat(self) -> None:
        if self._config.heartbeat_action and not self._guard.stream_only:
            self._parts.database.run_heartbeat_action()
        if not self._pulse.waiting and (end := self._parts.database.wal_end()) is not None:
            self._pulse.begin(end)
        self._parts.send(self._markers.heartbeat_topic, [self._markers.heartbeat(time.time_ns())])

    def _is_over(self, stream: Stream) -> bool:
        if stream.stops:
            return stream.reached_stop
        return bool(self._blocking) and stream.between_transactions

    def _block(self, signal: Signal) -> None:
        """A blocking snapshot was asked for: the stream ends after this transaction."""
        blocking_patterns(signal)  # what cannot be done is refused before the stream ends for it
        if self._guard.no_snapshots:
            _log.warning("no snapshot now: the slot retains too much WAL", signal=signal.id)
            return
        self._blocking.append(signal)

    def _settle(self) -> None:
        if self._stream is not None:
            self._checkpoints.take_and_wait(self._parts.positions.of_stream(self._stream.position()))

    def _finish(self, replication: Replication, stream: Stream) -> None:
        self._deadline = time.monotonic() + _STOP_FLUSH_SECONDS
        try:
            if stream.exact or not self._job.exactly_once:  # else what is sent is aborted, and sent again
                self._checkpoints.take_and_wait(self._parts.positions.of_stream(stream.position()))
            self._told_lsn = 0
            self._tell_server()
        except (BrokerError, PostgresError, StopRequested) as error:
            # The stored offset stays behind: the next start repeats what was not acknowledged.
            _log.warning("stopped without a last offset", connector=self._job.connector, reason=str(error))
        replication.close()
        self._replication = None
        if self._config.slot_drop_on_stop:
            with contextlib.closing(Replication(self._config.endpoint)) as other:
                other.drop_slot(self._config.slot)

    def _tell_server(self, *, reply: bool = False) -> None:
        if self._replication is None or self._stream is None:
            return
        confirmed = self._parts.positions.confirmed_lsn
        told = confirmed if self._assembler is None else self._assembler.confirmable(confirmed)
        self._replication.send_status(max(self._stream.received_lsn, told), told, reply=reply)
        if confirmed > self._told_lsn:
            reached("slot.confirmed")
        self._told_lsn = confirmed
        self._next_status = time.monotonic() + max(self._config.status_update_seconds, 0.1)

    # What happens beside the work

    def _hear(self) -> None:
        """Take what came through the worker: the guard's level, and signals; what is not one is left out."""
        for command in self._supervision.commands():
            if command.kind == GUARD_LEVEL:
                self._guard.level = int(command.body)
            elif command.kind == SIGNAL and (signal := signal_of_json(command.body)) is not None:
                self._asked.append(signal)

    def _breathe(self) -> None:
        """Called between batches and in every wait: keeps the server's connection and the supervisor content."""
        now = time.monotonic()
        if self._deadline is not None:
            if now > self._deadline:
                raise StopRequested("Kafka did not acknowledge everything in time")
        elif self._supervision.stop_requested():
            raise StopRequested
        self._hear()
        if self._stream is None:  # while it streams up to a snapshot, the slot moves on
            self._guard.check()
        if now >= self._next_status:
            self._tell_server()
        if now >= self._next_report:
            self._report()

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._breathe()
            time.sleep(min(left, 0.1))

    def _idle(self) -> None:
        self._report()
        while True:
            self._pause(1.0)

    def _report(self) -> None:
        self._next_report = time.monotonic() + _REPORT_SECONDS
        stream, progress = self._stream, self._progress
        lag = 0.0
        if stream is not None and stream.busy:
            lag = max(0.0, time.time() - stream.last_commit_ts_us / 1e6)
        self._supervision.report(
            Report(
                state=progress.state,
                records=self._routes.records(),
                transactions=self._former_transactions + (stream.transactions if stream is not None else 0),
                events=self._former_events
                + (stream.events if stream is not None else progress.snapshot_rows),
                lag_seconds=lag,
                connected=progress.connected,
                walsender_pid=None if self._replication is None else self._replication.pid,
                last_commit_us=stream.last_commit_ts_us if stream is not None else 0,
                heartbeat_seconds=self._pulse.seconds,
                heartbeat_pending_seconds=self._pulse.pending_seconds,
                disk_bytes=0 if self._assembler is None else self._assembler.disk_bytes,
                spilled_bytes=0 if self._assembler is None else self._assembler.spilled_bytes,
                received_lsn=stream.received_lsn if stream is not None else 0,
                confirmed_lsn=self._parts.positions.confirmed_lsn,
                outstanding=self._producer.outstanding(),
                record_errors=self._parts.tolerance.errors,
                records_skipped=self._parts.tolerance.skipped,
                dead_letters=self._parts.tolerance.dead_letters,
                kafka_transactions=self._checkpoints.transactions,
                snapshot_rows=progress.snapshot_rows,
                snapshot_tables=progress.tables,
                losses=progress.losses,
                recovering=self._incremental.asked_by(CORRELATION),
            )
        )

    def _close(self) -> None:
        if self._replication is not None:
            self._replication.close()
        self._desk.close()
        self._incremental.close()
        if self._assembler is not None:
            self._assembler.close()
        self._parts.close()


def incremental_snapshots(parts: TaskParts, breathe: Callable[[], None]) -> IncrementalSnapshots:
    """A task's incremental snapshots, with PostgreSQL's side of them."""
    config, database, routes, notifier = parts.config, parts.database, parts.routes, parts.notifier
    return IncrementalSnapshots(
        config.signals,
        config.name,
        database.captured,
        PostgresWatermarks(config.signals, database, breathe),
        ChunkTable(database, routes, config.name, counts=notifier.enabled),
        DeletedRows(
            database,
            routes,
            config.name,
            parts.converters,
            lambda topic: TopicKeys(parts.consumer_settings, topic),
            tombstones=config.conversion.tombstones_on_delete,
        ),
        routes,
        notifier,
        parts.send,
    )
