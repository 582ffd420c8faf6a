"""Where the partitions of a task go on, for targets that hold it beside the data, in the data's own transactions.

A partition belongs to the task that claimed it last: every transaction says first where its partitions go on, and only with
the epoch of that claim. So a task that does not know yet that its partitions are another's writes nothing, and a task that
begins reads where its predecessor's last transaction ended.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidings_connect.task.sink import RetriableError, SinkRecord, TopicPartition
from tidings_service import Retry
from tidings_sinks.errors import TargetError


@dataclass(frozen=True, slots=True)
class Claim:
    """Where a partition goes on, as the target holds it."""

    offset: int | None
    """None: it holds none yet."""
    epoch: int
    """How often the partition was taken by a task: only the last one may write."""


class PositionStore(Protocol):
    """A target that holds positions, by consumer group."""

    def claim(self, group: str, at: TopicPartition) -> Claim:
        """Take a partition, in a transaction of its own."""
        ...

    def position(self, group: str, at: TopicPartition) -> Claim | None:
        """The position of a partition; None where there is none."""
        ...

    def move(self, group: str, moves: Sequence[tuple[TopicPartition, int, int]]) -> int:
        """Say where partitions go on, by epoch and offset; gives how many of them have that epoch."""
        ...


class OwnPositions:
    """The positions of one task's partitions.

    Args:
        group: the consumer group, under which positions are kept.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._epochs: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int | None] = {}
        """Where each partition goes on, by the last answer of the target."""
        self._tried: dict[TopicPartition, int] = {}
        """Where the partitions would go on after a COMMIT whose answer has not come."""
        self._done: dict[TopicPartition, int] = {}
        """Up to where the records of a batch that comes again are written already."""

    def claim(
        self, store: PositionStore, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Take partitions; gives where those go on that the target has a position of."""
        found = {}
        for at in sorted(partitions):
            claim = store.claim(self._group, at)
            self._epochs[at], self._next[at] = claim.epoch, claim.offset
            if claim.offset is not None:
                found[at] = claim.offset
        return found

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions are another's."""
        for at in partitions:
            self._epochs.pop(at, None)
            self._next.pop(at, None)
            self._tried.pop(at, None)
            self._done.pop(at, None)

    def look(self, store: PositionStore) -> None:
        """After a connection was lost: whether its last transaction counts, and whether the target is what it was.

        Raises:
            RetriableError: a partition is another task's.
            TargetError: a position is not where this task left it.
        """
        for at, epoch in self._epochs.items():
            found = store.position(self._group, at)
            if found is not None and found.epoch > epoch:
                raise _fenced(at)
            if (
                found is None
                or found.epoch < epoch
                or found.offset not in (self._next[at], self._tried.get(at))
            ):
                raise TargetError(
                    f"the database's position of {at.topic}, partition {at.partition} is not where this task left it",
                    hint="it was altered, or the database was restored or failed over: the task begins where it stands now",
                    retry=Retry.TIMED,
                )
            if found.offset is not None and found.offset != self._next[at]:
                self._done[at] = found.offset
            self._next[at] = found.offset

    def move(self, store: PositionStore, offsets: Mapping[TopicPartition, int]) -> None:
        """Say where partitions go on, within a transaction that is committed next.

        Raises:
            RetriableError: one of them is another task's; the transaction must not be committed.
        """
        moves = [(at, self._epochs[at], offset) for at, offset in sorted(offsets.items())]
        if store.move(self._group, moves) != len(moves):
            raise _fenced(next(iter(offsets)))

    def committing(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A COMMIT is sent next, whose answer may be lost."""
        self._tried.update(offsets)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """It was done; should the batch come again, these records are not written twice."""
        self._next.update(offsets)
        self._done.update(offsets)
        self._tried.clear()

    def finished(self) -> None:
        """The batch was written whole; the next one may begin anywhere, as that of a topic that was made anew does."""
        self._done.clear()

    @property
    def repeats(self) -> bool:
        """Whether records of the batch that comes next may be written already."""
        return bool(self._done)

    def behind(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Those of the offsets to which the target's positions have not come."""
        return {at: offset for at, offset in offsets.items() if offset > (self._next.get(at) or 0)}

    def changed(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Those of the offsets at which the target's positions are not."""
        return {at: offset for at, offset in offsets.items() if offset != self._next.get(at)}

    def unwritten(self, batch: Sequence[SinkRecord]) -> Sequence[SinkRecord]:
        """A batch without those of its records that are written: it comes again whole though a part of it counts."""
        done = self._done
        return (
            [record for record in batch if record.offset >= done.get(record.original, 0)] if done else batch
        )


def _fenced(at: TopicPartition) -> RetriableError:
    return RetriableError(f"another task has taken {at.topic}, partition {at.partition}: nothing was written")
