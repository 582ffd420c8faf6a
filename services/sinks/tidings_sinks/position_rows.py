"""Positions in a table of a SQL database that knows ``INSERT ... ON CONFLICT`` and ``RETURNING``. See `PositionStore`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from tidings_connect.data.subscription import TopicPartition
from tidings_sinks.positions import Claim


class PositionRows(ABC):
    """The part of a database that holds positions: one row for each partition of a consumer group."""

    _placeholder: ClassVar[str] = "?"
    """What stands for a parameter in the driver's statements."""
    _positions: str
    """The table's name, quoted."""

    @abstractmethod
    def _execute(self, statement: str, given: Sequence[object] = ()) -> None: ...

    @abstractmethod
    def _rows(self, statement: str, given: Sequence[object]) -> list[tuple[Any, ...]]: ...

    def claim(self, group: str, at: TopicPartition) -> Claim:
        """See `PositionStore.claim`."""
        ((offset, epoch),) = self._rows(
            self._filled(
                "INSERT INTO {} AS p (consumer_group, topic, partition, epoch) VALUES (?, ?, ?, 1)"
                " ON CONFLICT (consumer_group, topic, partition) DO UPDATE SET epoch = p.epoch + 1"
                " RETURNING next_offset, epoch"
            ),
            (group, at.topic, at.partition),
        )
        return Claim(offset, epoch)

    def position(self, group: str, at: TopicPartition) -> Claim | None:
        """See `PositionStore.position`."""
        found = self._rows(
            self._filled(
                "SELECT next_offset, epoch FROM {} WHERE consumer_group = ? AND topic = ? AND partition = ?"
            ),
            (group, at.topic, at.partition),
        )
        return Claim(*found[0]) if found else None

    def move(self, group: str, moves: Sequence[tuple[TopicPartition, int, int]]) -> int:
        """See `PositionStore.move`."""
        statement = self._filled(
            "UPDATE {} SET next_offset = ?, changed = CURRENT_TIMESTAMP"
            " WHERE consumer_group = ? AND topic = ? AND partition = ? AND epoch = ? RETURNING 1"
        )
        return sum(
            len(self._rows(statement, (offset, group, at.topic, at.partition, epoch)))
            for at, epoch, offset in moves
        )

    def alter(self, group: str, at: TopicPartition, offset: int | None) -> None:
        """Say where a partition goes on, whoever has it; None: where its group does."""
        self._execute(
            self._filled(
                "INSERT INTO {} AS p (consumer_group, topic, partition, next_offset, epoch) VALUES (?, ?, ?, ?, 1)"
                " ON CONFLICT (consumer_group, topic, partition)"
                " DO UPDATE SET next_offset = excluded.next_offset, epoch = p.epoch + 1, changed = excluded.changed"
            ),
            (group, at.topic, at.partition, offset),
        )

    def forget(self, group: str) -> None:
        """Have all partitions of a group go on where the group does."""
        self._execute(
            self._filled(
                "UPDATE {} SET next_offset = NULL, epoch = epoch + 1, changed = CURRENT_TIMESTAMP WHERE consumer_group = ?"
            ),
            (group,),
        )

    def _filled(self, statement: str) -> str:
        return statement.replace("?", self._placeholder).replace("{}", self._positions)
