"""Whether a member of a group and the group's coordinator still agree, or the member has to join anew. Pure.

librdkafka keeps what it knows of brokers, leaders and coordinators, and after some faults (a broker that was started again, a
network that forgets connections) a client goes on for ever with what is no longer so, without an error. What the
coordinator says through another client is the measure.
"""

from dataclasses import dataclass
from typing import Final

_LONGEST_SECONDS: Final = 120.0


class Patience:
    """How long a trouble has lasted.

    Args:
        seconds: how long it may last; doubled with each attempt to end it, until it has ended.
    """

    def __init__(self, seconds: float) -> None:
        self._first = self._limit = seconds
        self._since: float | None = None

    def is_over(self, now: float) -> bool:
        """The trouble is there; whether it is time to do something, which is told once and then after twice the time."""
        if self._since is None:
            self._since = now
        if now - self._since < self._limit:
            return False
        self._since, self._limit = now, min(2 * self._limit, _LONGEST_SECONDS)
        return True

    def end(self) -> None:
        """The trouble is not there."""
        self._since, self._limit = None, self._first


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at the group, at the coordinator."""

    settled: bool
    """No rebalance is under way."""
    is_member: bool
    has_token: bool
    """The coordinator has given this worker the partition of the config topic."""


def difference(sight: Sight, leads: bool) -> str | None:
    """What the coordinator and this worker see differently; None when nothing, or when a rebalance will tell.

    Args:
        leads: whether this worker believes that it leads.
    """
    if not sight.is_member:
        return "the group does not have this worker"
    if not sight.settled or sight.has_token == leads:
        return None
    if leads:
        return "this worker leads, and the group has given the lead to another"
    return "the group has given this worker the lead, and it has not heard of it"
