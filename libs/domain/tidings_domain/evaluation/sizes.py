"""Makes failures of what was evaluated and is too large to be published. Pure."""

import msgspec

from tidings_domain.changes import ChangeSet
from tidings_domain.evaluation.evaluate import PublishedEvent, RuleFailure


def row_failure(change_set: ChangeSet, reason: str) -> RuleFailure:
    """The failure of a change set as a whole: of no rule."""
    return RuleFailure(
        None, change_set.aggregate, change_set.id, change_set.commit_lsn, change_set.txid, reason
    )


def without_too_large(
    events: list[PublishedEvent], failures: list[RuleFailure], change_set: ChangeSet, most_bytes: int
) -> tuple[list[PublishedEvent], list[RuleFailure]]:
    """The events whose bodies have at most `most_bytes`, and a failure for each that has more."""
    fitting = [event for event in events if len(event.body) <= most_bytes]
    failed = list(failures)
    for event in events:
        if len(event.body) > most_bytes:
            size = len(event.body)
            reason = f"an event for {event.topic} has {size} bytes; {most_bytes} are allowed"
            failed.append(
                msgspec.structs.replace(
                    row_failure(change_set, reason), rule=event.rule, event_id=event.event_id
                )
            )
    return fitting, failed
