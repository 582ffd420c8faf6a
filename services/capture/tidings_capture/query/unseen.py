"""What a query source never sees, by its configuration: said when a task starts, and as a metric for as long as it runs. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from tidings_capture.query.config import QueryConfig
from tidings_capture.query.options import BOTH, BULK, INCREMENTING


class Unseen(NamedTuple):
    """A kind of changes that no record tells of."""

    kind: str
    """As the metric names it."""
    text: str


_DELETED = Unseen("deleted", "deleted rows")
_UPDATED = Unseen("updated", "updates")
_BETWEEN = Unseen("between_polls", "all but the last of several updates of a row between two polls")
_LATE = Unseen("late", "rows that are committed after others with greater values were read")
_EQUAL = Unseen("equal_timestamp", "rows that are committed later with a timestamp that was read already")


def unseen(config: QueryConfig) -> Sequence[Unseen]:
    """What a configuration does not see; nothing that its comparisons find (``tidings.reconciliation.interval.ms``)."""
    if config.mode == BULK:
        return ()
    compares = bool(config.reconcile_seconds)
    return [
        kind
        for kind, is_missed in (
            (_DELETED, not (compares and config.tombstones)),
            (_UPDATED, config.mode == INCREMENTING and not compares),
            (_BETWEEN, config.by_timestamp or compares),
            (_LATE, not config.waits and not compares),
            (_EQUAL, config.mode not in {BOTH, INCREMENTING} and not compares),
        )
        if is_missed
    ]
