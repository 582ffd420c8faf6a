"""Checks that a stage's topics keep what the design needs, also those that an older version has made.

A state that Kafka deletes by age, or change sets that are gone before a translator has read them, are lost events. What a
topic has of the broker's defaults, nobody has chosen for it: it is set. What somebody has set on the topic is left as it is,
told in the log, and shown by a metric.
"""

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from tidings_service import get_logger
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base import metrics
from tidings_translator.kafka.clients import KafkaAdmin, broken
from tidings_translator.kafka.offsets import REQUEST_SECONDS
from tidings_translator.kafka.topics import TopicPlan, retention_of

log = get_logger("tidings_translator.kafka_retention")


class Retention:
    """Looks after the retention of topics that exist."""

    def __init__(self, kafka: KafkaAccess) -> None:
        self._admin = KafkaAdmin(kafka)

    def keep(self, plans: Iterable[TopicPlan]) -> None:
        """Set what nobody has chosen, and tell of what somebody has chosen too short.

        A broker that does not let us look or change only leaves that untold: it is logged.
        """
        for plan in plans:
            if plan.own:
                try:
                    self._keep(plan)
                except KafkaException as error:
                    log.warning(
                        "retention cannot be looked after",
                        topic=plan.name,
                        error=str(broken(error, "the topic's settings cannot be read or set", self._admin)),
                    )

    def _keep(self, plan: TopicPlan) -> None:
        wanted = retention_of(plan)
        [future] = self._admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, plan.name)], request_timeout=REQUEST_SECONDS
        ).values()
        have: Mapping[str, ConfigEntry] = future.result()
        short = {
            name: value for name, value in wanted.items() if not _suffices(name, have[name].value, value)
        }
        chosen = {
            name: have[name].value
            for name in short
            if ConfigSource(have[name].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
        }
        self._set(plan.name, {name: value for name, value in short.items() if name not in chosen})
        metrics.TOPIC_RETENTION_SHORT.labels(plan.name).set(bool(chosen))
        if chosen:
            log.warning(
                "a topic may lose what is still needed: somebody has set it so",
                topic=plan.name,
                has=chosen,
                needs={name: wanted[name] for name in chosen},
            )

    def _set(self, topic: str, values: Mapping[str, str]) -> None:
        if not values:
            return
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        [future] = self._admin.incremental_alter_configs([resource], request_timeout=REQUEST_SECONDS).values()
        future.result()
        log.info("retention set, in place of the broker's default", topic=topic, settings=dict(values))


def _suffices(name: str, has: str | None, needs: str) -> bool:
    """Whether a setting keeps at least as much as another; -1 is without end."""
    if has is None or not name.startswith("retention."):
        return has == needs
    return int(has) == -1 or (int(needs) != -1 and int(has) >= int(needs))
