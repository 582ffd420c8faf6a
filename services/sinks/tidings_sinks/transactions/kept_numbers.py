"""The last number of each of MariaDB's servers, among the positions that a target keeps. Pure.

A target keeps whole numbers by topic and partition, and the transaction topic has one partition; so those below zero are ours:
-1 the position of the last transaction (`options.POSITION`), -2 the number from which on servers are known, and for the n-th
server, from 0, -3 - 2n its id and -4 - 2n its last number, or -1 where nothing is known of it any more.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from tidings_connect.data.subscription import TopicPartition
from tidings_envelope.server_numbers import ServerNumbers
from tidings_sinks.transactions.options import POSITION

SINCE: Final = POSITION - 1
_FORGOTTEN: Final = -1

Claim = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""Takes partitions, and gives what the target has of them."""


class KeptNumbers:
    """Those of one task.

    Args:
        topic: the transaction topic.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._since = TopicPartition(topic, SINCE)
        self._servers: dict[int, int] = {}
        """Server to its place, from 0."""
        self._taken = 0
        """Places that are claimed."""

    def read(self, claim: Claim) -> ServerNumbers:
        """What the target has."""
        self._servers, self._taken = {}, 0
        numbers = ServerNumbers(since=claim([self._since]).get(self._since))
        while True:
            server_at, last_at = self._place(self._taken)
            found = claim([server_at, last_at])
            server, last = found.get(server_at), found.get(last_at)
            self._taken += 1
            if server is None:
                return numbers
            if numbers.since is not None and last is not None and last != _FORGOTTEN:
                self._servers[server] = self._taken - 1
                numbers.last[server] = last

    def kept(self, numbers: ServerNumbers, claim: Claim) -> dict[TopicPartition, int]:
        """What the target is to keep."""
        if numbers.since is None:
            return {}
        free = [place for place in range(self._taken) if place not in self._servers.values()]
        found = {self._since: numbers.since}
        for server, last in numbers.last.items():
            place = self._servers.get(server)
            if place is None:
                if not free:
                    claim(self._place(self._taken))
                    free.append(self._taken)
                    self._taken += 1
                place = self._servers[server] = free.pop(0)
            server_at, last_at = self._place(place)
            found |= {server_at: server, last_at: last}
        # Of a history that is read again from an earlier record: what was known of it is not known any more.
        return found | {self._place(place)[1]: _FORGOTTEN for place in free}

    def partitions(self) -> set[TopicPartition]:
        """All that are claimed."""
        return {self._since}.union(*map(self._place, range(self._taken)))

    def _place(self, number: int) -> tuple[TopicPartition, TopicPartition]:
        first = SINCE - 1 - 2 * number
        return TopicPartition(self._topic, first), TopicPartition(self._topic, first - 1)
