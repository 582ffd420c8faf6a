"""Plans the sequencer's topics."""

from tidings_translator.base.settings import DAY_SECONDS, SequencerSettings
from tidings_translator.kafka.topics import TopicPlan


def sequencer_plans(settings: SequencerSettings) -> list[TopicPlan]:
    """The change sets, the state, the dead letters, the ledger of generations."""
    return [
        TopicPlan(
            settings.change_sets_topic,
            settings.partitions,
            kept_seconds=settings.change_sets_days * DAY_SECONDS,
        ),
        TopicPlan(settings.sequencer_state_topic, 1, compacted=True),
        TopicPlan(settings.dead_letters_topic, 1, kept_seconds=settings.dead_letters_days * DAY_SECONDS),
        TopicPlan(settings.ledger_topic, 1, compacted=True),
    ]
