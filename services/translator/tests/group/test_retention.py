"""Topics of the stages' own keep what is needed, whoever has made them."""

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from structlog.testing import capture_logs

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base import metrics
from tidings_translator.base.records import Partition
from tidings_translator.kafka.retention import Retention
from tidings_translator.kafka.topics import TopicPlan, Topics

pytestmark = [pytest.mark.stack, pytest.mark.timeout(120)]

DAY_MS = 86_400_000
NEEDED = {
    "state": {"cleanup.policy": "compact"},
    "change-sets": {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS), "retention.bytes": "-1"},
    "dead-letters": {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"},
}


def plans(name: str) -> list[TopicPlan]:
    return [
        TopicPlan(f"{name}.state", 2, compacted=True),
        TopicPlan(f"{name}.change-sets", 2, kept_seconds=30 * 86_400),
        TopicPlan(f"{name}.dead-letters", 1, unlimited=True),
    ]


def settings(admin: AdminClient, name: str) -> dict[str, dict[str, str]]:
    """Of each topic those that `NEEDED` has."""
    found = {}
    for topic, needed in NEEDED.items():
        [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, f"{name}.{topic}")]).values()
        entries = future.result()
        found[topic] = {key: entries[key].value for key in needed}
    return found


@pytest.fixture
def admin(kafka_bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka_bootstrap})


def test_topics_are_made_with_what_is_needed(
    kafka_bootstrap: str, unique_name: str, admin: AdminClient
) -> None:
    topics = Topics(KafkaAccess(kafka_bootstrap))
    topics.create(plans(unique_name), replication=1)
    topics.ends([Partition(one.name, 0) for one in plans(unique_name)])  # they are there by then
    assert settings(admin, unique_name) == NEEDED


def test_the_broker_s_defaults_are_replaced_and_what_somebody_has_set_is_told(
    kafka_bootstrap: str, unique_name: str, admin: AdminClient
) -> None:
    """An older version made change sets and dead letters without a word about retention."""
    made = [
        NewTopic(f"{unique_name}.state", 2, 1, config={"cleanup.policy": "compact,delete"}),
        NewTopic(f"{unique_name}.change-sets", 2, 1, config={"retention.ms": str(DAY_MS)}),
        NewTopic(f"{unique_name}.dead-letters", 1, 1),
    ]
    for future in admin.create_topics(made).values():
        future.result()
    Topics(KafkaAccess(kafka_bootstrap)).ends([Partition(one.name, 0) for one in plans(unique_name)])
    with capture_logs() as logs:
        Retention(KafkaAccess(kafka_bootstrap)).keep(plans(unique_name))
    assert settings(admin, unique_name) == {
        **NEEDED,
        "state": {"cleanup.policy": "compact,delete"},
        "change-sets": {**NEEDED["change-sets"], "retention.ms": str(DAY_MS)},
    }
    told = {line["topic"]: line["needs"] for line in logs if line["log_level"] == "warning"}
    assert told == {
        f"{unique_name}.state": {"cleanup.policy": "compact"},
        f"{unique_name}.change-sets": {"retention.ms": str(30 * DAY_MS)},
    }
    short = metrics.TOPIC_RETENTION_SHORT
    assert [short.labels(f"{unique_name}.{one}")._value.get() for one in NEEDED] == [1, 1, 0]
