"""Lists topics, and creates those that the translator owns.

All calls block and are meant for threads. Kafka's errors become `BrokerError`, which names TIDINGS_KAFKA.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from tidings_domain.routing.record_sizes import MAX_RECORD_BYTES
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.records import Partition
from tidings_translator.kafka.clients import KafkaAdmin, broken
from tidings_translator.kafka.offsets import REQUEST_SECONDS, partition_ends

_COMPACTED_SEGMENT_BYTES = 64 << 20
"""Kafka compacts all but the segment that is being written, which has up to a gigabyte by default: a restart would read that."""
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPlan(NamedTuple):
    """A topic to be created."""

    name: str
    partitions: int
    compacted: bool = False
    unlimited: bool = False
    """Kept for ever: business events, dead letters."""
    kept_seconds: float | None = None
    """Kept so long: change sets. Where nothing is said, by the broker's default."""
    own: bool = True
    """Only our stages read and write it, so that its retention is ours to look after."""


class Topics:
    """Which topics Kafka has."""

    def __init__(self, kafka: KafkaAccess) -> None:
        self._kafka = kafka
        self._admin = KafkaAdmin(kafka)

    def partitions(self, *, timeout_seconds: float = 10.0) -> dict[str, int]:
        """Every topic with the number of its partitions.

        Raises:
            BrokerError: no broker answered in time.
        """
        try:
            metadata = self._admin.list_topics(timeout=timeout_seconds)
        except KafkaException as error:
            raise broken(error, f"no Kafka broker answers at {self._kafka.bootstrap}", self._admin) from error
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    def check_visible(self, missing: str) -> None:
        """See whether a topic only seems to be missing: Kafka lists no topic that the user has no right to.

        Args:
            missing: a topic's name; other words are let pass.

        Raises:
            BrokerError: the right is missing, or Kafka did not answer.
        """
        if not _TOPIC_NAME.fullmatch(missing):
            return
        [future] = self._admin.describe_topics(
            TopicCollection([missing]), request_timeout=REQUEST_SECONDS
        ).values()
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise broken(error, f"topic {missing} cannot be read", self._admin) from error

    def create(self, plans: Sequence[TopicPlan], *, replication: int) -> list[str]:
        """Create those of `plans` that do not exist; returns their names. A topic that is planned twice is created once: of a name
        that comes twice the client's library dies.

        Raises:
            BrokerError: Kafka refused one.
        """
        have = self.partitions()
        new = [*{plan.name: plan for plan in plans if plan.name not in have}.values()]
        if not new:
            return []
        futures = self._admin.create_topics(
            [
                NewTopic(
                    plan.name,
                    num_partitions=plan.partitions,
                    replication_factor=replication,
                    config=_topic_settings(plan),
                )
                for plan in new
            ],
            request_timeout=REQUEST_SECONDS,
        )
        for name, future in futures.items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise broken(error, f"topic {name} cannot be created", self._admin) from error
        return [plan.name for plan in new]

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The high watermarks."""
        return partition_ends(self._admin, partitions)


def _topic_settings(plan: TopicPlan) -> dict[str, str]:
    settings = {"max.message.bytes": str(MAX_RECORD_BYTES)} | retention_of(plan)
    if plan.compacted:
        settings["segment.bytes"] = str(_COMPACTED_SEGMENT_BYTES)
    return settings


def retention_of(plan: TopicPlan) -> dict[str, str]:
    """What a topic's settings must say so that nothing is deleted which is still needed."""
    if plan.compacted:
        return {"cleanup.policy": "compact"}
    if plan.unlimited or plan.kept_seconds == 0:
        return {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    if plan.kept_seconds is not None:
        kept = str(int(plan.kept_seconds * 1000))
        return {"cleanup.policy": "delete", "retention.ms": kept, "retention.bytes": "-1"}
    return {}
