"""Finds what a promotion or the end of a generation would leave behind: open letters, and the aggregates that they hold."""

from collections.abc import Iterable
from typing import NamedTuple

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.naming import prefix
from tidings_translator.dead_letters.letter_box import LetterBox
from tidings_translator.dead_letters.letters import Letter, open_letters


class Letters(NamedTuple):
    """The open letters of one generation.

    Attributes:
        held: aggregates that are held (``Order/17``), whose later change sets wait, too.
        skipped: letters about change sets that were left out, and can still be replayed.
        unread: origins of letters about technical records, which no change set was made of.
    """

    held: frozenset[str]
    skipped: int
    unread: frozenset[tuple[str, int, int]]


def sorted_letters(letters: Iterable[Letter], change_sets: str) -> Letters:
    """`letters`, which are open, by what they mean for their generation; `change_sets` is its topic of these."""
    held, unread = set[str](), set[tuple[str, int, int]]()
    skipped = 0
    for letter in letters:
        origin = letter.origin
        if letter.headers.get("policy") == "hold":
            held.add(letter.aggregate)
        elif origin.topic == change_sets:
            skipped += 1
        else:
            unread.add(origin[:3])
    return Letters(frozenset(held), skipped, frozenset(unread))


def letters_of(kafka: KafkaAccess, source: str, generation: str, topics: Iterable[str]) -> Letters:
    """The open letters of a generation.

    Args:
        kafka: the cluster.
        source: the topic prefix.
        generation: its name.
        topics: those that exist.

    Raises:
        BrokerError: Kafka is away.
    """
    own = prefix(source, generation)
    topic = f"{own}.dead-letters"
    letters = open_letters(LetterBox(kafka, topic).letters()) if topic in topics else []
    return sorted_letters(letters, f"{own}.change-sets")


def check_promotion(old: tuple[str, Letters], new: tuple[str, Letters]) -> None:
    """Whether nothing that waits for a person would get lost or out of order when publishing goes from `old` to `new`.

    Raises:
        GenerationError: something would; it says what.
    """
    for name, letters in (old, new):
        if letters.held:
            raise GenerationError(
                f"generation '{name}' holds {_some(letters.held)}: what waits there would be published after later changes"
                " of the same aggregates",
                hint=_hint(name),
            )
    name, letters = new
    if letters.skipped:
        raise GenerationError(
            f"generation '{name}' could not translate everything: {letters.skipped} dead letters are open, and their events"
            " would be missing",
            hint=_hint(name),
        )
    unread = letters.unread - old[1].unread  # what neither could read is missing in both
    if unread:
        topic, partition, offset = min(unread)
        raise GenerationError(
            f"generation '{name}' could not use {len(unread)} records which '{old[0]}' could, the first at"
            f" {topic}/{partition} offset {offset}",
            hint=_hint(name),
        )


def check_discard(name: str, letters: Letters) -> None:
    """Whether a generation that has published leaves nothing behind that only it can publish.

    Raises:
        GenerationError: it does.
    """
    if letters.held or letters.skipped:
        what = f"{_some(letters.held)} held" if letters.held else f"{letters.skipped} dead letters open"
        raise GenerationError(
            f"generation '{name}' still has {what}: only its own processes can publish what follows from them",
            hint=_hint(name),
        )


def _some(aggregates: frozenset[str]) -> str:
    shown = ", ".join(sorted(aggregates)[:3])
    return shown if len(aggregates) <= 3 else f"{shown} and {len(aggregates) - 3} more aggregates"


def _hint(name: str) -> str:
    return (
        f"TIDINGS_GENERATION={name} tidings-translator dead-letters list, then replay or discard; or, if that is meant,"
        " --despite-letters"
    )
