"""Which of a sink task's partitions rest: all of them while it fails, until it is asked again; else those that it wants paused."""

import time
from collections.abc import Collection

from tidings_connect.config.retries import RetryOptions
from tidings_connect.data.subscription import Subscription, TopicPartition
from tidings_connect.task.sink.task import RetriableError

_MOST_DOUBLED = 20


class Pauses:
    """Of one task.

    Args:
        retry: how long to wait before a task that has failed is asked again.
    """

    def __init__(self, retry: RetryOptions) -> None:
        self._retry = retry
        self._failures = 0
        self._again_at = 0.0
        self._wanted: set[TopicPartition] = set()
        """Those that the task wants paused."""

    @property
    def fails(self) -> bool:
        """Whether the task has failed, or was slow, and has not gone on since."""
        return self._failures > 0

    @property
    def seconds(self) -> float:
        """After how many seconds the task may be asked; 0: now."""
        return max(0.0, self._again_at - time.monotonic())

    def count(self, own: Collection[TopicPartition]) -> int:
        """How many of the task's partitions rest."""
        return len(own if self.fails else self._wanted)

    def failed(
        self, subscription: Subscription, own: Collection[TopicPartition], error: RetriableError
    ) -> float:
        """Have all partitions rest, those too that have come since the last failure; for how many seconds."""
        subscription.pause(own)
        self._failures += 1
        seconds = min(
            self._retry.first_seconds * float(2 ** min(self._failures - 1, _MOST_DOUBLED)),
            self._retry.longest_seconds,
        )
        if error.after_seconds is not None:
            seconds = error.after_seconds
        self._again_at = time.monotonic() + seconds
        return seconds

    def slow(self, subscription: Subscription, own: Collection[TopicPartition]) -> None:
        """Have all partitions rest; the task is asked again at once."""
        subscription.pause(own)
        self._failures, self._again_at = 1, 0.0

    def assigned(self) -> None:
        """Partitions have come: a task that fails is asked again at once, and then all of them go on."""
        if self.fails:
            self._failures, self._again_at = 1, 0.0

    def go_on(self, subscription: Subscription, own: Collection[TopicPartition]) -> None:
        """Read again, after failures, what the task does not want paused."""
        if self.fails:
            self._failures, self._again_at = 0, 0.0
            subscription.resume(set(own) - self._wanted)

    def pause(self, subscription: Subscription, wanted: set[TopicPartition]) -> None:
        """Pause and resume partitions as the task wants it; while it fails all are paused anyway.

        Args:
            wanted: those of its partitions that are to rest.
        """
        before, self._wanted = self._wanted, wanted
        if self.fails:
            return
        if more := wanted - before:
            subscription.pause(more)
        if fewer := before - wanted:
            subscription.resume(fewer)

    def forget(self, gone: Collection[TopicPartition]) -> None:
        """Partitions are somebody else's."""
        self._wanted.difference_update(gone)
