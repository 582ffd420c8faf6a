"""Counts and logs dead letters when they are handed to Kafka."""

from tidings_service import get_logger
from tidings_translator.base import metrics
from tidings_translator.base.records import Output
from tidings_translator.dead_letters.letters import Closed, DeadLetter

log = get_logger("tidings_translator.dead_letters")
closed_log = get_logger("tidings_translator.shard_letters")


def report(letter: DeadLetter) -> Output:
    """Count and log a letter (without key, value and state); its record."""
    metrics.DEAD_LETTERS.labels(letter.stage, letter.error).inc()
    log.warning(
        "dead letter",
        stage=letter.stage,
        error=letter.error,
        reason=letter.reason,
        place=letter.place,
        **letter.known,
    )
    return letter.output


def report_closed(closed: Closed) -> None:
    """Count and log what became of a letter."""
    metrics.DEAD_LETTERS_RESOLVED.labels(closed.outcome).inc()
    closed_log.info("dead letter closed", outcome=closed.outcome, place=closed.place, rule=closed.rule)
