"""How a sink task is getting on, for metrics: how far it is behind its topics, how long its system takes, what it repeats."""

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from tidings_connect.data.subscription import Consumed, Reach, TopicPartition
from tidings_connect.task.channel import SinkCounts, SinkReport

_WINDOW_SECONDS: Final = 30.0
"""What averages and maxima are of, as in Kafka Connect: this window and the one before."""
_NOTHING: Final[Mapping[TopicPartition, int]] = {}


class SinkProgress:
    """What is measured of one run of a sink task. One thread uses it."""

    def __init__(self) -> None:
        self._counts = SinkCounts()
        self._puts = _Window()
        self._failing_since: dict[str, float] = {}
        """Of ``put``, ``flush`` and a ``step`` before the put, when the first of the failures in a row was; `time.monotonic`."""
        self._put_at: dict[TopicPartition, int] = {}
        """Of each partition, the timestamp of the last record that was put; milliseconds since the Unix epoch."""
        self._abreast_at: dict[TopicPartition, float] = {}
        """Of each partition, when its end was last reached, or when the task was given it; milliseconds likewise."""
        self._held: dict[TopicPartition, deque[tuple[int, int]]] = {}
        """Of each partition, the puts that are not durable yet: the offset after each, and when its first change was committed;
        milliseconds likewise."""

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These are the task's from now on."""
        now = time.time() * 1000
        self._abreast_at |= dict.fromkeys(partitions, now)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These are the task's no more."""
        for at in partitions:
            self._put_at.pop(at, None)
            self._abreast_at.pop(at, None)
            self._held.pop(at, None)

    @contextmanager
    def putting(self) -> Iterator[None]:
        """Measure a put; one that raises is not counted."""
        began = time.monotonic()
        yield
        self.put_took(time.monotonic() - began)

    def put_took(self, seconds: float) -> None:
        """A put has returned."""
        self._puts.add(seconds)
        self._count(puts=1, put_seconds=seconds)

    def put(self, last: Mapping[TopicPartition, int]) -> None:
        """Records are the task's, or were left out: of each partition the timestamp of the last one that has one."""
        self._put_at |= last
        self._failing_since.pop("put", None)
        self._failing_since.pop("step", None)

    def held(self, at: TopicPartition, end: int, committed_ms: int) -> None:
        """What was put of a partition is not durable yet.

        Args:
            end: the offset after it.
            committed_ms: when its first change was committed at the source.
        """
        self._held.setdefault(at, deque()).append((end, committed_ms))

    def durable(self, at: TopicPartition, offset: int) -> None:
        """What stands before an offset of a partition is."""
        held = self._held.get(at)
        while held and held[0][0] <= offset:
            held.popleft()

    def put_failed(self) -> None:
        """The system is busy: the batch comes again."""
        self._failing_since.setdefault("put", time.monotonic())
        self._count(retries=1)

    def repeated(self) -> None:
        """A step before the put, such as a converter's, is tried again."""
        self._failing_since.setdefault("step", time.monotonic())
        self._count(retries=1)

    def flushed(self, *, committed: bool) -> None:
        """What was put is durable; whether offsets were committed with it."""
        self._failing_since.pop("flush", None)
        self._count(commits=int(committed))

    def flush_failed(self) -> None:
        """Nothing could be committed."""
        self._failing_since.setdefault("flush", time.monotonic())
        self._count(commit_failures=1)

    def report(
        self,
        reaches: Mapping[TopicPartition, Reach],
        waiting: Sequence[Consumed],
        put_to: Mapping[TopicPartition, int],
        paused: int,
        committed_ms: Mapping[TopicPartition, int] = _NOTHING,
    ) -> SinkReport:
        """What the task's report says.

        Args:
            reaches: of the task's partitions.
            waiting: records that were read and not put.
            put_to: of each partition, the offset after the last record that was put.
            paused: how many partitions rest.
            committed_ms: of the first of the waiting records of each partition, when its change was committed at the source.
        """
        first: dict[TopicPartition, Consumed] = {}
        for record in waiting:
            first.setdefault(TopicPartition(record.topic, record.partition), record)
        now = time.time() * 1000
        lags: dict[str, int] = {}
        oldest = oldest_commit = now
        for at, reach in reaches.items():
            begun = first[at].offset if at in first else max(put_to.get(at, -1), reach.passed)
            if begun < 0:
                continue
            lag = lags[f"{at.topic}:{at.partition}"] = max(0, reach.end - begun)
            if not lag:
                self._abreast_at[at] = now
                continue
            since = self._since(at, first.get(at))
            oldest = min(oldest, since)
            oldest_commit = min(oldest_commit, committed_ms.get(at, since))
        oldest_commit = min([oldest_commit, *(held[0][1] for held in self._held.values() if held)])
        longest = max((time.monotonic() - since for since in self._failing_since.values()), default=0.0)
        return SinkReport(
            self._counts,
            *self._puts.average_and_longest(),
            lags=lags,
            lag_seconds=(now - oldest) / 1000,
            paused=paused,
            retrying_seconds=longest,
            commit_lag_seconds=(now - oldest_commit) / 1000,
        )

    def _since(self, at: TopicPartition, first: Consumed | None) -> float:
        """Since when there is something of a partition to be put."""
        if first is not None and first.timestamp is not None:
            return first.timestamp
        # The next record has not been read: it is not older than the last one, and was not there when the end was reached.
        return max(self._put_at.get(at, 0), self._abreast_at.get(at, 0))

    def _count(self, **more: float) -> None:
        self._counts = self._counts.plus(SinkCounts(**more))  # type: ignore[arg-type]  # whole numbers, but for seconds


class _Window:
    """Durations of the last half minute to minute."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._current: tuple[int, float, float] = (0, 0.0, 0.0)
        self._former = self._current

    def add(self, seconds: float) -> None:
        self._turn()
        count, total, longest = self._current
        self._current = count + 1, total + seconds, max(longest, seconds)

    def average_and_longest(self) -> tuple[float, float]:
        """In seconds; 0 where there were none."""
        self._turn()
        count, total = (self._current[part] + self._former[part] for part in (0, 1))
        return total / count if count else 0.0, max(self._current[2], self._former[2])

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._began < _WINDOW_SECONDS:
            return
        stale = now - self._began >= 2 * _WINDOW_SECONDS
        self._former, self._current = ((0, 0.0, 0.0) if stale else self._current), (0, 0.0, 0.0)
        self._began = now
