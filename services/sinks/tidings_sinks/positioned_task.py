"""The task of sinks whose system holds where partitions go on, in the data's own transactions. See `tidings_sinks.positions`."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence

from tidings_connect.task.sink import SinkContext, SinkRecord, SinkTask, TopicPartition
from tidings_sinks.deprecations import Deprecations
from tidings_sinks.positions import OwnPositions, PositionStore

Offsets = Mapping[TopicPartition, int]


class PositionedSinkTask(SinkTask):
    """One task.

    Args:
        group: the consumer group, under which positions are kept.
    """

    durable_at_put = True

    def __init__(self, context: SinkContext, group: str) -> None:
        self._context = context
        self._positions = OwnPositions(group)
        self._deprecations = Deprecations()

    # What a sink does

    @property
    @abstractmethod
    def _store(self) -> PositionStore:
        """The system; connected to where it was not."""

    @abstractmethod
    def _later(self, act: Callable[[], Offsets]) -> Offsets:
        """Do something; again, as the options say, while the system is busy.

        Raises:
            RetriableError: it is away, or busy for longer.
        """

    @abstractmethod
    def _put(self, batch: Sequence[SinkRecord]) -> Offsets:
        """Write a batch and where its partitions go on; what it gives is not looked at."""

    @abstractmethod
    def _moved_only(self, offsets: Offsets) -> Offsets:
        """Write where partitions go on, and nothing else."""

    @abstractmethod
    def _forget(self) -> None:
        """Close the connection, where there is one."""

    # What the loop asks for

    def open(self, partitions: Collection[TopicPartition]) -> Offsets:
        """See `SinkTask.open`."""
        return self._later(lambda: self._positions.claim(self._store, partitions))

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """See `SinkTask.put`."""
        self._later(lambda: self._put(batch))

    def flush(self, offsets: Offsets) -> Offsets:
        """See `SinkTask.flush`. What was put is durable; what was left out since is not yet behind the positions."""
        behind = self._positions.behind(offsets)
        if behind:
            self._later(lambda: self._moved_only(behind))
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """See `SinkTask.close`."""
        self._positions.forget(partitions)

    def stop(self) -> None:
        """See `SinkTask.stop`."""
        self._forget()
