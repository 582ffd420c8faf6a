"""Where partitions go on, as nodes of the graph; and what a person alters or resets while no task runs.

A node has the offset of the last record that is written (-1: none), and the epoch of the task that may write. With
``neo4j.eos-offset-label`` it is the node that Neo4j's own connector keeps, by strategy, topic and partition; otherwise one of our
own, by consumer group.
"""

from collections.abc import Mapping, Sequence

from tidings_connect.task.sink import TopicPartition
from tidings_service import Retry
from tidings_sinks.errors import BusyError, TargetError
from tidings_sinks.graph.client import Client
from tidings_sinks.graph.patterns import quoted
from tidings_sinks.graph.settings import Settings
from tidings_sinks.positions import Claim


class GraphPositions:
    """A `PositionStore`."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client, self._settings = client, settings
        self._label = quoted(settings.offsets_label or settings.positions_label)
        self._of = "strategy" if settings.offsets_label else "consumerGroup"

    def make(self) -> None:
        """Make the constraint by which there is one node of each partition."""
        self._client.alone(
            f"CREATE CONSTRAINT IF NOT EXISTS FOR (p:{self._label})"
            f" REQUIRE (p.{self._of}, p.topic, p.partition) IS UNIQUE"
        )

    def claim(self, group: str, at: TopicPartition) -> Claim:
        """See `PositionStore.claim`. The node is locked before its epoch is read."""
        ((offset, epoch),) = self._client.alone(
            f"{self._merged} SET p.changed = datetime()"
            " WITH p SET p.epoch = coalesce(p.epoch, 0) + 1 RETURN p.offset, p.epoch",
            self._place(group, at),
        )
        return Claim(_next(offset), epoch)

    def position(self, group: str, at: TopicPartition) -> Claim | None:
        """See `PositionStore.position`."""
        found = self._client.alone(f"MATCH {self._node} RETURN p.offset, p.epoch", self._place(group, at))
        return Claim(_next(found[0][0]), found[0][1] or 0) if found else None

    def move(self, group: str, moves: Sequence[tuple[TopicPartition, int, int]]) -> int:
        """See `PositionStore.move`. Each node is locked before its epoch is read: whoever claims it waits for the commit."""
        rows = [
            {**self._place(group, at), "epoch": epoch, "offset": offset - 1} for at, epoch, offset in moves
        ]
        node = f"(p:{self._label} {{{self._of}: m.of, topic: m.topic, partition: m.partition}})"
        ((count,),) = self._client.run(
            f"UNWIND $moves AS m MATCH {node} SET p.changed = datetime()"
            " WITH p, m WHERE p.epoch = m.epoch SET p.offset = m.offset RETURN count(p)",
            {"moves": rows},
        )
        return int(count)

    def alter(self, group: str, at: TopicPartition, offset: int | None) -> None:
        """Say within a transaction where a partition goes on, whoever has it; None: where its group does."""
        self._client.run(
            f"{self._merged} SET p.changed = datetime()"
            " WITH p SET p.offset = $offset, p.epoch = coalesce(p.epoch, 0) + 1",
            {**self._place(group, at), "offset": -1 if offset is None else offset - 1},
        )

    def forget(self, group: str) -> None:
        """Within a transaction: all partitions go on where the group does."""
        known = [{"of": group}]
        same = "k.of = p.consumerGroup"
        if self._settings.offsets_label:
            known = [
                {"of": strategy.word, "topic": topic} for topic, strategy in self._settings.strategies.items()
            ]
            same = "k.of = p.strategy AND k.topic = p.topic"
        self._client.run(
            f"MATCH (p:{self._label}) WHERE any(k IN $known WHERE {same})"
            " SET p.changed = datetime() WITH p SET p.offset = -1, p.epoch = coalesce(p.epoch, 0) + 1",
            {"known": known},
        )

    @property
    def _node(self) -> str:
        return f"(p:{self._label} {{{self._of}: $of, topic: $topic, partition: $partition}})"

    @property
    def _merged(self) -> str:
        return f"MERGE {self._node} ON CREATE SET p.offset = -1"

    def _place(self, group: str, at: TopicPartition) -> dict[str, object]:
        of = group
        if self._settings.offsets_label:
            strategy = self._settings.strategies.get(at.topic)
            of = "NONE" if strategy is None else strategy.word
        return {"of": of, "topic": at.topic, "partition": at.partition}


def _next(offset: int | None) -> int | None:
    return None if offset is None or offset < 0 else offset + 1


def change_positions(settings: Settings, offsets: Mapping[TopicPartition, int | None] | None) -> None:
    """Say where partitions go on; all of them where their group does for None.

    Raises:
        TargetError: the server cannot be asked, or refuses; nothing is changed.
    """
    client = Client(settings)
    try:
        client.check()
        positions = GraphPositions(client, settings)
        positions.make()
        client.begin()
        try:
            if offsets is None:
                positions.forget(settings.group)
            for at, offset in (offsets or {}).items():
                positions.alter(settings.group, at, offset)
            client.commit()
        finally:
            client.rollback()
    except BusyError as error:
        raise TargetError(f"the positions in Neo4j stay as they are: {error}", retry=Retry.TIMED) from None
    finally:
        client.close()
