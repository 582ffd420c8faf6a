"""Registers the contracts of a domain's events, and plans the translator's topics."""

from collections.abc import Iterable

from tidings_domain.language.events import contract_of, topic_of
from tidings_domain.loading.domain import Domain
from tidings_envelope.registry import RegistryClient
from tidings_envelope.wire import header
from tidings_translator.base.settings import DAY_SECONDS, TranslatorSettings
from tidings_translator.kafka.topics import TopicPlan


def register_contracts(domain: Domain, registry: RegistryClient) -> dict[str, bytes]:
    """Register every live version's contract; by topic the first bytes of a value, which name it.

    Raises:
        RegistryError: the registry is away, or refuses an incompatible contract.
    """
    frames = {}
    for event in domain.event_classes():
        topic = topic_of(event)
        subject = f"{topic}-value"
        frames[topic] = header(registry.register(subject, contract_of(event)))
        registry.set_compatibility(subject, "FULL_TRANSITIVE")
    return frames


def translator_plans(
    settings: TranslatorSettings, partitions: int, event_topics: Iterable[str]
) -> list[TopicPlan]:
    """State (partitioned like the change sets), dead letters, the ledger, and topics of events."""
    return [
        TopicPlan(settings.state_topic, partitions, compacted=True),
        TopicPlan(settings.dead_letters_topic, 1, kept_seconds=settings.dead_letters_days * DAY_SECONDS),
        TopicPlan(settings.ledger_topic, 1, compacted=True),
        *event_plans(settings, event_topics),
    ]


def event_plans(settings: TranslatorSettings, event_topics: Iterable[str]) -> list[TopicPlan]:
    """Business topics, or their shadows."""
    return [
        TopicPlan(topic, settings.partitions, unlimited=True, own=False) for topic in sorted(event_topics)
    ]
