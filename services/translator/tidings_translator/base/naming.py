"""Names that belong to a generation of the rules: its topics and consumer groups begin with them."""

ORIGINAL = "original"
"""What the generation without a name is called where a name is needed."""
NAME = r"[a-z0-9][a-z0-9-]{0,39}"


def prefix(source: str, generation: str) -> str:
    """What the names of a generation's own topics begin with, without the last dot."""
    return f"tidings.{source}" if generation == ORIGINAL else f"tidings.{source}.generation.{generation}"


def group(stage: str, source: str, generation: str) -> str:
    """The consumer group of a generation's stage; the sequencer's is its transactional id too."""
    base = f"tidings-{stage}-{source}"
    return base if generation == ORIGINAL else f"{base}.generation.{generation}"


def ledger_topic(source: str) -> str:
    """The topic in which the generations of a source agree."""
    return f"tidings.{source}.generations"


def source_of_ledger(topic: str) -> str | None:
    """The source whose ledger a topic is; None when it is none."""
    source = topic.removeprefix("tidings.").removesuffix(".generations")
    return source if source and topic == ledger_topic(source) else None


def shadow_topic(source: str, generation: str, topic: str) -> str:
    """Where a generation that does not publish writes the events for a business topic."""
    return f"{prefix(source, generation)}.events.{topic}"
