"""Fixes how many partitions a generation's change sets and states have: the number belongs to the generation.

An aggregate's key chooses its partition by that number, in the change sets and among the states. With another number an
aggregate would meet an empty state, and what it has told before would be news. So the sequencer writes the number into the
ledger with the generation's first change sets and chooses partitions by it whatever Kafka says, and both stages refuse
another. More partitions take a new generation (docs/generations.md).
"""

import functools
import struct
from collections.abc import Mapping

from tidings_translator.base.errors import GenerationError
from tidings_translator.base.settings import StageSettings
from tidings_translator.ledger.ledger import Ledger

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


def partitions_of(have: Mapping[str, int], ledger: Ledger, settings: StageSettings) -> int:
    """The number of partitions that count.

    Args:
        have: every topic with the number of its partitions.
        ledger: as of now.
        settings: of the stage.

    Raises:
        GenerationError: a topic has another number.
    """
    name = settings.generation
    fact = ledger.fact("partitions", name)
    count = have[settings.change_sets_topic] if fact is None else fact.partitions
    for topic in (settings.change_sets_topic, settings.state_topic):
        now = have.get(topic, count)
        if now == count or (now > count and settings.raised_partitions == "ignore"):
            continue
        raise GenerationError(
            f"topic {topic} has {now} partitions, and generation '{name}' has begun with {count}: aggregates would be"
            " looked for in other partitions than those that have their states",
            hint="more partitions take a new generation: `tidings-translator generations start NAME --partitions N`, then"
            " promote; until then TIDINGS_RAISED_PARTITIONS=ignore goes on in the partitions there were"
            if now > count
            else "was the topic made again? Start a new generation: `tidings-translator generations start NAME`",
        )
    return count


@functools.lru_cache(1 << 14)
def partition_of(key: bytes, count: int) -> int:
    """The partition that a key chooses among so many, as Kafka's own partitioner has it (murmur2)."""
    size = len(key)
    value = (_SEED ^ size) & _MASK
    words = size >> 2
    for word in struct.unpack_from(f"<{words}I", key):
        mixed = (word * _MULTIPLIER) & _MASK
        mixed = ((mixed ^ mixed >> 24) * _MULTIPLIER) & _MASK
        value = ((value * _MULTIPLIER) & _MASK) ^ mixed
    if rest := key[words << 2 :]:
        value = ((value ^ int.from_bytes(rest, "little")) * _MULTIPLIER) & _MASK
    value = ((value ^ value >> 13) * _MULTIPLIER) & _MASK
    return ((value ^ value >> 15) & 0x7FFFFFFF) % count
