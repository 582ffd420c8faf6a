"""Streams from a position: opens the stream, and between batches sees to everything that goes on beside it.

A plain synchronous loop: read what has arrived, convert it, queue it for Kafka, and a few times a second look at the clock.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.fault_points import reached
from tidings_capture.cdc.incremental.snapshot import IncrementalSnapshots
from tidings_capture.cdc.signals.dispatch import SignalDispatch
from tidings_capture.cdc.snapshots.blocking import BlockingSnapshots
from tidings_capture.cdc.spool import Spool
from tidings_capture.postgres.client import Replication
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_capture.postgres.offsets.positions import Positions
from tidings_capture.postgres.offsets.progress import TaskProgress
from tidings_capture.postgres.server.setup import start_streaming
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.streaming.heartbeats import Heartbeats
from tidings_capture.postgres.streaming.idle_timeout import IdleTimeout
from tidings_capture.postgres.streaming.publication_watch import PublicationWatch
from tidings_capture.postgres.streaming.slot_feedback import SlotFeedback
from tidings_capture.postgres.streaming.stream import Stream
from tidings_capture.postgres.upkeep import Upkeep
from tidings_capture.postgres.wal.task_guard import TaskGuard
from tidings_capture.postgres.wire.assembler import Assembler
from tidings_connect.data.records import Producer
from tidings_connect.errors import BrokerError
from tidings_connect.task.checkpoints import Checkpoints
from tidings_connect.task.worker_link import StopRequested
from tidings_envelope.position import lsn_to_text
from tidings_service import get_logger

_BATCH: Final = 2000
_FEW: Final = 200
"""Messages that are less than a millisecond's or two's work: a stream that brings no more at a time is not catching up."""
_HURRIED_WAITS: Final = 4
_IDLE_ADVANCE_SECONDS: Final = 5.0
"""How often an idle slot moves on; each time costs one record in the offsets topic."""
_QUESTION_SECONDS: Final = 0.1

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Beside:
    """What is polled between the batches of a stream."""

    upkeep: Upkeep
    heartbeats: Heartbeats
    publication: PublicationWatch
    guard: TaskGuard
    incremental: IncrementalSnapshots[Cells]
    signals: SignalDispatch
    blocking: BlockingSnapshots


class StreamRun:
    """A task's streams, one after another.

    Args:
        open_stream: what converts, from a position.
        open_spool: keeps transactions that come in parts.
        prepare_topics: creates the topics that streams write to beside the tables'.
        exactly_once: what is sent counts only with its position.
    """

    def __init__(
        self,
        config: ConnectorConfig,
        open_stream: Callable[[SourceOffset], Stream],
        open_spool: Callable[[], Spool],
        prepare_topics: Callable[[], None],
        producer: Producer,
        checkpoints: Checkpoints[SourceOffset],
        positions: Positions,
        feedback: SlotFeedback,
        progress: TaskProgress,
        beside: Beside,
        *,
        exactly_once: bool,
    ) -> None:
        self._config = config
        self._open_stream = open_stream
        self._open_spool = open_spool
        self._prepare_topics = prepare_topics
        self._producer = producer
        self._checkpoints = checkpoints
        self._positions = positions
        self._feedback = feedback
        self._progress = progress
        self._beside = beside
        self._upkeep = beside.upkeep
        self._exactly_once = exactly_once
        self._replication: Replication | None = None
        self.stream: Stream | None = None
        """The one that is open, or that a stop has ended."""
        self.assembler: Assembler | None = None
        """Of the stream that is open, or of the last one."""
        self._former_transactions = self._former_events = 0

    @property
    def transactions(self) -> int:
        """Of all streams."""
        return self._former_transactions + (0 if self.stream is None else self.stream.transactions)

    @property
    def events(self) -> int:
        """Of all streams."""
        return self._former_events + (0 if self.stream is None else self.stream.events)

    @property
    def walsender_pid(self) -> int | None:
        """The server's process of the stream that is open."""
        return None if self._replication is None else self._replication.pid

    def follow(self, resume: SourceOffset, until: int | None = None) -> SourceOffset:
        """Stream; where it stands when a blocking snapshot is asked for.

        Args:
            until: end there instead, when everything that was committed before this LSN has been sent; everything else
                stays on the server.

        Raises:
            StopRequested: the task is to stop; what was sent has been stored.
        """
        config, beside = self._config, self._beside
        self._prepare_topics()
        replication = Replication(config.endpoint)
        try:
            start_streaming(replication, config, resume.done_lsn, self._upkeep.pause)
        except BaseException:
            replication.close()
            raise
        self._replication = replication
        reader: Replication | Assembler = replication
        self._close_assembler()
        if config.protocol.assembles:
            reader = self.assembler = Assembler(replication, self._open_spool())
        self._positions.follow(resume)
        self.stream = stream = self._open_stream(resume)
        if until is None:
            self._progress.state = "streaming"
        else:
            stream.stop_before(until)
        self._progress.connected = True
        _log.info("streaming", connector=config.name, slot=config.slot, lsn=lsn_to_text(resume.done_lsn))
        self._feedback.attach(replication, stream, self.assembler)
        self._feedback.tell()
        self._upkeep.report()
        beside.signals.attach(stream.end_batch)
        beside.incremental.attach(stream, resume.incremental)
        try:
            self._loop(reader, replication, stream)
        except StopRequested:
            self._finish(stream)
            raise
        position = self._positions.of_stream(stream.position())
        self._checkpoints.take(position)
        self._former_transactions += stream.transactions
        self._former_events += stream.events
        self.stream = None
        beside.heartbeats.lag.forget()
        self._close_replication()
        self._progress.connected = False
        return position

    def settle(self) -> None:
        """Store where the stream stands, and wait until it is stored."""
        if self.stream is not None:
            self._checkpoints.take_and_wait(self._positions.of_stream(self.stream.position()))

    def confirm(self) -> None:
        """Store where the stream stands, and tell the server, if it may be stored now."""
        if self.stream is not None and self._may_be_stored(self.stream):
            self.settle()
            self._feedback.tell()

    def close(self) -> None:
        """Let go of the server, and of what is on disk."""
        self._close_replication()
        self._close_assembler()

    def _loop(self, reader: Replication | Assembler, replication: Replication, stream: Stream) -> None:
        beside, feedback = self._beside, self._feedback
        silence = IdleTimeout(self._config.receive_timeout_seconds)
        beside.heartbeats.begin()
        next_idle = time.monotonic() + _IDLE_ADVANCE_SECONDS
        next_question = 0.0
        waits = 0
        while not self._is_over(stream):
            messages = reader.read(_BATCH)
            self._send(stream, messages)
            self._checkpoints.poll()
            now = time.monotonic()
            beside.incremental.hold(beside.guard.no_snapshots)
            beside.incremental.poll()
            beside.publication.poll(now)
            beside.signals.poll(now, self._upkeep.signals())
            if stream.caught_up and (now >= next_idle or stream.reply_requested):
                next_idle = now + _IDLE_ADVANCE_SECONDS
                stream.advance()
                self._checkpoints.take(self._positions.of_stream(stream.position()))
            elif self._checkpoints.due(now, drained=len(messages) < _BATCH, exact=stream.exact):
                self._checkpoints.take(self._positions.of_stream(stream.position()))
            beside.heartbeats.poll(now, stream.received_lsn)
            if stream.reply_requested or feedback.due:
                stream.reply_requested = False
                feedback.tell()
            self._upkeep.breathe()
            awaited = stream.stops or beside.incremental.waiting or beside.heartbeats.lag.waiting
            if awaited and now >= next_question:
                next_question = now + _QUESTION_SECONDS
                feedback.tell(reply=True)  # an idle server says how far it is only when it is asked
            waiting = len(messages) < _FEW and self._producer.hurry(now)
            waits = 0 if messages else waits + 1
            if not messages:
                if silence.question_due(now, replication.last_heard):
                    feedback.tell(reply=True)
                pending = self._producer.outstanding() or self._checkpoints.pending
                # The last records may have been queued while others were under way, or were hurried too late to be seen.
                soon = 0.001 if waiting else 0.005 if waits <= _HURRIED_WAITS else 0.02
                reader.wait(soon if pending else 0.25, self._upkeep.descriptor)

    def _send(self, stream: Stream, messages: Sequence[bytes]) -> None:
        rest = list(messages)
        while rest:
            rest = stream.process(rest)
            reached("batch.sent")
            self._beside.signals.handle_streamed()

    def _is_over(self, stream: Stream) -> bool:
        if stream.stops:
            return stream.reached_stop
        return self._beside.blocking.waiting and stream.between_transactions

    def _finish(self, stream: Stream) -> None:
        self._upkeep.ending()
        try:
            if self._may_be_stored(stream):  # else what is sent is aborted, and sent again
                self._checkpoints.take_and_wait(self._positions.of_stream(stream.position()))
            self._feedback.tell_last()
        except (BrokerError, PostgresError, StopRequested) as error:
            # The stored offset stays behind: the next start repeats what was not acknowledged.
            _log.warning("stopped without a last offset", connector=self._config.name, reason=str(error))
        self._close_replication()
        if self._config.slot_drop_on_stop:
            with contextlib.closing(Replication(self._config.endpoint)) as other:
                other.drop_slot(self._config.slot)

    def _may_be_stored(self, stream: Stream) -> bool:
        """Whether a restart from where the stream stands would repeat nothing that must not come twice."""
        return stream.exact or not self._exactly_once

    def _close_replication(self) -> None:
        self._feedback.detach()
        if self._replication is not None:
            self._replication.close()
            self._replication = None

    def _close_assembler(self) -> None:
        if self.assembler is not None:
            self.assembler.close()
            self.assembler = None
