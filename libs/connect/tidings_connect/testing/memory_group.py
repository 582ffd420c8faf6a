"""Consumer groups in memory: topics with partitions, and members among which they are shared, cooperatively.

A member gives up what is to be another's at its next poll, and whoever gets it waits for that; one that crashed gives up
nothing, and is taken out of its group.
"""

import threading
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from tidings_connect.data.subscription import Assignments, Consumed, Reach, Subscribe, TopicPartition

_SLICE_SECONDS: Final = 0.01


class MemoryTopics:
    """Topics that sinks read, and how far each group has come."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.records: dict[TopicPartition, list[Consumed]] = {}
        self.offsets: dict[str, dict[TopicPartition, int]] = {}
        self.members: dict[str, list[Any]] = {}

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic."""
        with self.lock:
            for number in range(partitions):
                self.records.setdefault(TopicPartition(topic, number), [])

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        headers: Collection[tuple[str, bytes | None]] = (),
        timestamp: int = 1_700_000_000_000,
    ) -> None:
        """Append a record; its timestamp is in milliseconds since the epoch."""
        with self.lock:
            place = TopicPartition(topic, partition)
            log = self.records.setdefault(place, [])
            log.append(Consumed(topic, partition, len(log), key, value, list(headers), timestamp))

    def partitions(self, wanted: Subscribe) -> list[TopicPartition]:
        """What a group reads."""
        matches = wanted.matches or (lambda topic: topic in wanted.topics)
        return sorted(place for place in self.records if matches(place.topic))


class MemorySubscription:
    """One member."""

    def __init__(self, topics: MemoryTopics, wanted: Subscribe, assignments: Assignments) -> None:
        self._topics, self._wanted, self._assignments = topics, wanted, assignments
        self._group = wanted.settings.get("group.id", wanted.group)
        self.own: dict[TopicPartition, int] = {}
        """Where each partition goes on."""
        self._paused: set[TopicPartition] = set()
        with topics.lock:
            topics.members.setdefault(self._group, []).append(self)

    def poll(self, seconds: float) -> list[Consumed]:
        """See `Subscription.poll`."""
        deadline = time.monotonic() + seconds
        while True:
            self._rebalance()
            found = self._arrived()
            if found or time.monotonic() >= deadline:
                return found
            time.sleep(_SLICE_SECONDS)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Collection[TopicPartition]:
        """See `Subscription.commit`."""
        with self._topics.lock:
            assert offsets.keys() <= self.own.keys(), "committed for a partition of another member"
            self._topics.offsets.setdefault(self._group, {}).update(offsets)
        return offsets.keys()

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """See `Subscription.pause`."""
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """See `Subscription.resume`."""
        self._paused -= set(partitions)

    def reaches(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Reach]:
        """See `Subscription.reaches`."""
        with self._topics.lock:
            return {
                at: Reach(len(self._topics.records[at]), self.own[at]) for at in partitions if at in self.own
            }

    def close(self) -> None:
        """See `Subscription.close`."""
        if self.own:
            self._assignments.revoked(list(self.own))
        self.leave()

    def leave(self) -> None:
        """Be gone, as after a crash."""
        with self._topics.lock:
            self.own.clear()
            members = self._topics.members[self._group]
            if self in members:
                members.remove(self)

    def _rebalance(self) -> None:
        with self._topics.lock:
            members = self._topics.members[self._group]
            mine = set(self._topics.partitions(self._wanted)[members.index(self) :: len(members)])
            surplus = self.own.keys() - mine
        if surplus:
            self._assignments.revoked(sorted(surplus))
        with self._topics.lock:
            for place in surplus:
                del self.own[place]
            taken = {place for member in members for place in member.own}
            fresh = sorted(mine - taken)
            committed = self._topics.offsets.get(self._group, {})
            for place in fresh:
                self.own[place] = committed.get(place, 0)
        if fresh:
            self.own.update(self._assignments.assigned(fresh))

    def _arrived(self) -> list[Consumed]:
        found: list[Consumed] = []
        with self._topics.lock:
            for place in sorted(self.own.keys() - self._paused):
                log = self._topics.records[place][self.own[place] :][: self._wanted.most_records - len(found)]
                self.own[place] += len(log)
                found += log
        return found
