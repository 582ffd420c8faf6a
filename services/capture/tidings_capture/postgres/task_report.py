"""What a task says of itself: the counters of its parts, put together."""

import time

import msgspec

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.incremental.snapshot import IncrementalSnapshots
from tidings_capture.postgres.encoding.routes import Routes
from tidings_capture.postgres.encoding.tolerance import Tolerance
from tidings_capture.postgres.offsets.loss_recovery import CORRELATION
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_capture.postgres.offsets.progress import TaskProgress
from tidings_capture.postgres.streaming.heartbeats import Heartbeats
from tidings_capture.postgres.streaming.report import StreamReport
from tidings_capture.postgres.streaming.run import StreamRun
from tidings_connect.data.records import Producer
from tidings_connect.task.channel import Report
from tidings_connect.task.checkpoints import Checkpoints


class TaskReport:
    """Makes the reports of one task."""

    def __init__(
        self,
        progress: TaskProgress,
        streaming: StreamRun,
        routes: Routes,
        producer: Producer,
        checkpoints: Checkpoints[SourceOffset],
        tolerance: Tolerance,
        heartbeats: Heartbeats,
        incremental: IncrementalSnapshots[Cells],
    ) -> None:
        self._progress = progress
        self._streaming = streaming
        self._routes = routes
        self._producer = producer
        self._checkpoints = checkpoints
        self._tolerance = tolerance
        self._lag = heartbeats.lag
        self._incremental = incremental

    def make(self) -> Report:
        """How it is now."""
        progress, streaming, tolerance = self._progress, self._streaming, self._tolerance
        stream = streaming.stream
        behind = 0.0
        if stream is not None and stream.busy:
            behind = max(0.0, time.time() - stream.last_commit_ts_us / 1e6)
        return Report(
            state=progress.state,
            records=self._routes.records(),
            transactions=streaming.transactions,
            events=streaming.events + (progress.snapshot_rows if stream is None else 0),
            lag_seconds=behind,
            connected=progress.connected,
            last_commit_us=stream.last_commit_ts_us if stream is not None else 0,
            outstanding=self._producer.outstanding(),
            record_errors=tolerance.errors,
            records_skipped=tolerance.skipped,
            dead_letters=tolerance.dead_letters,
            kafka_transactions=self._checkpoints.transactions,
            snapshot_rows=progress.snapshot_rows,
            snapshot_tables=progress.tables,
            losses=progress.losses,
            own=msgspec.to_builtins(self._own()),
        )

    def _own(self) -> StreamReport:
        streaming, assembler = self._streaming, self._streaming.assembler
        return StreamReport(
            walsender_pid=streaming.walsender_pid,
            heartbeat_seconds=self._lag.seconds,
            heartbeat_pending_seconds=self._lag.pending_seconds,
            spilled_bytes=0 if assembler is None else assembler.spilled_bytes,
            disk_bytes=0 if assembler is None else assembler.disk_bytes,
            recovering=self._incremental.asked_by(CORRELATION),
        )
