"""What a sink task reads from: a member of the connector's consumer group, as the loop sees it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from tidings_connect.data.records import Producer


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Consumed(NamedTuple):
    """A record as it stands in its topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int | None
    """Milliseconds since the Unix epoch."""
    is_append_time: bool = False
    """Whether `timestamp` is the broker's rather than the producer's."""


_PLACE: Final = itemgetter(0, 1)


def last_of_partitions(records: Sequence[Consumed]) -> dict[TopicPartition, Consumed]:
    """The last record of each partition."""
    last = dict(zip(map(_PLACE, records), records, strict=True))
    return {TopicPartition(*at): record for at, record in last.items()}


class Reach(NamedTuple):
    """How far a partition goes, and how far it was read."""

    end: int
    """The offset after its last record."""
    passed: int
    """`Subscription.poll` has returned all below this offset that it will ever return; -1: not known."""


class Assignments(Protocol):
    """Hears which partitions are this member's; called within `Subscription.poll` and `Subscription.close`."""

    def assigned(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """These are its own from now on; where to begin, of those that need not begin where the group has come to."""
        ...

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """These are about to become another's: the last moment to commit."""
        ...

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """These are another's already."""
        ...


@dataclass(frozen=True, slots=True)
class Subscribe:
    """What a sink task wants to read."""

    group: str
    client_id: str
    topics: Sequence[str]
    """Names; empty where `matches` says which."""
    matches: Callable[[str], bool] | None = None
    """Whether a topic is to be read, where `topics` does not say."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """librdkafka's, that the connector overrides."""
    most_records: int = 500
    """In one batch."""


class Subscription(Protocol):
    """A membership in a consumer group."""

    def poll(self, seconds: float) -> list[Consumed]:
        """What has arrived, a batch of it at most; waits for the first. May call `Assignments`.

        Raises:
            BrokerError: the group cannot go on.
        """
        ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Collection[TopicPartition]:
        """Store where the group goes on: the offset after the last record that is done.

        Returns:
            The partitions of which it counts. Amid a rebalance it may be none: those that stay this member's have to be
            committed again.

        Raises:
            BrokerError: the group's coordinator refused or did not answer.
        """
        ...

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Let `poll` return nothing of these; the membership goes on."""
        ...

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Let `poll` return records of these again."""
        ...

    def reaches(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Reach]:
        """How far partitions of this member go, of those where that is known. Cheap, but for partitions that rest: of these
        Kafka is asked now and then."""
        ...

    def close(self) -> None:
        """Leave the group; `Assignments.revoked` is called before."""
        ...


class SinkTransport(Protocol):
    """What stands between a sink task and Kafka."""

    def subscribe(self, wanted: Subscribe, assignments: Assignments) -> Subscription:
        """Join a consumer group.

        Raises:
            BrokerError: the settings cannot be used.
        """
        ...

    def letters(self, topic: str, replication_factor: int, settings: Mapping[str, str]) -> Producer:
        """A producer for dead letters, with librdkafka's settings that the connector overrides; creates their topic, with one
        partition, unless it exists.

        Raises:
            BrokerError: Kafka refused.
        """
        ...
