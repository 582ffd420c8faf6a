"""One run of a connector task: decide how to start, take a snapshot when asked for, then stream until told to stop.

Its parts are made in `build`. Every error leaves `TaskRun.run`; whoever runs it decides whether to try again.
"""

from collections.abc import Callable
from contextlib import ExitStack

from tidings_capture.cdc.signals.notifications import INITIAL, Notifier
from tidings_capture.cdc.snapshots.blocking import BlockingSnapshots
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_capture.postgres.offsets.progress import TaskProgress
from tidings_capture.postgres.offsets.start import TaskStart
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.snapshots.snapshot import SnapshotRun
from tidings_capture.postgres.streaming.run import StreamRun
from tidings_capture.postgres.upkeep import Upkeep
from tidings_connect.task.worker_link import StopRequested
from tidings_service import get_logger

_log = get_logger(__name__)


class TaskRun:
    """What a task does, in order.

    Args:
        begin_delivery: opens the way to Kafka.
        opened: closes the task's parts.
    """

    def __init__(
        self,
        config: ConnectorConfig,
        begin_delivery: Callable[[], None],
        start: TaskStart,
        snapshots: SnapshotRun,
        streaming: StreamRun,
        blocking: BlockingSnapshots,
        notifier: Notifier,
        progress: TaskProgress,
        upkeep: Upkeep,
        opened: ExitStack,
    ) -> None:
        self._config = config
        self._begin_delivery = begin_delivery
        self._start = start
        self._snapshots = snapshots
        self._streaming = streaming
        self._blocking = blocking
        self._notifier = notifier
        self._progress = progress
        self._upkeep = upkeep
        self._opened = opened

    def run(self) -> None:
        """Work until stopped.

        Raises:
            ConnectError: and its like, with `retry` and `hint`.
        """
        with self._opened:
            self._upkeep.begin()
            try:
                self._work()
            except StopRequested:
                _log.info("stopped", connector=self._config.name)

    def _work(self) -> None:
        resume = self._begin()
        if resume is None:
            self._progress.state = "idle"
            self._upkeep.idle()
        while True:
            resume = self._streaming.follow(resume)
            while self._blocking.waiting:
                resume = self._snapshots.take(self._blocking.take(resume))

    def _begin(self) -> SourceOffset | None:
        """Where to stream from; None: nothing is to be streamed."""
        self._begin_delivery()
        start = self._start.decide()
        options = self._config.snapshot
        if start.snapshot is None:
            self._notifier.tell(INITIAL, "SKIPPED")
            return start.resume
        self._upkeep.pause(options.delay_seconds)
        resume = self._snapshots.take(start.snapshot)
        if not options.streams:
            return None
        self._upkeep.pause(options.streaming_delay_seconds)
        return resume
