"""Which topics a task may write to: none of the worker's own nor of Kafka's or the translator's, and not without end.

A router takes a topic's name from its options or from the data (`ByLogicalTableRouter`, the outbox's ``route.by.field``): whoever
writes rows could else write configurations of connectors, offsets of consumers, or the state of aggregates.
"""

import re
from collections.abc import Collection
from typing import Final

from tidings_connect.errors import ConnectError

MOST_TOPICS: Final = "tidings.task.topics.max"
DEFAULT_MOST_TOPICS: Final = 10_000
_KAFKAS: Final = "__"
_ALWAYS_KAFKAS: Final = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
_DEBEZIUMS: Final = "__debezium"
_TRANSLATORS: Final = re.compile(
    r"tidings\..+\.(change-sets|sequencer-state|state|dead-letters|generations)|tidings\..+\.generation\..+",
    re.DOTALL,
)


class TopicError(ConnectError):
    """A record is for a topic that the task may not write to."""

    code = "topic"


class TopicBounds:
    """What a task may write to.

    Args:
        internal: the worker's own topics.
        prefix: ``topic.prefix``; a source may be called tidings itself.
        heartbeats: the connector's own topic of heartbeats, whatever its name begins with.
    """

    def __init__(self, internal: Collection[str], prefix: str, heartbeats: str) -> None:
        self._internal = frozenset(internal)
        self._own = f"{prefix}." if f"{prefix}.".startswith("tidings.") else None
        self._heartbeats = heartbeats

    def check(self, topic: str) -> None:
        """Refuse a topic that is not for records.

        Raises:
            TopicError: says whose it is.
        """
        whose = self._whose(topic)
        if whose is not None:
            raise TopicError(
                f"records may not go to topic {topic}, which is {whose}",
                hint="correct the transforms, topic.prefix or the option that names the topic",
            )

    def _whose(self, topic: str) -> str | None:
        if topic in self._internal:
            return "one of the worker's own (config, offset and status storage)"
        if topic in _ALWAYS_KAFKAS or (
            topic.startswith(_KAFKAS) and not topic.startswith(_DEBEZIUMS) and topic != self._heartbeats
        ):
            return "Kafka's own (its name begins with __)"
        own = self._own is not None and topic.startswith(self._own)
        return "the translator's own" if _TRANSLATORS.fullmatch(topic) and not own else None
