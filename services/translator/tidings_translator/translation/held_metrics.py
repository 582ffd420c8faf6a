"""Shows held aggregates in the metrics and in ``/readyz``."""

from collections import Counter
from collections.abc import Iterable

from tidings_translator.base import metrics
from tidings_translator.translation.shard import Shard


class HeldMetrics:
    """Keeps the gauges, and takes back those of partitions and aggregates that are gone."""

    def __init__(self) -> None:
        self._aggregates: set[str] = set()
        self._partitions: set[str] = set()

    def show(self, shards: Iterable[Shard]) -> str:
        """Set the gauges; returns a few words for the person who looks, empty when nothing is held."""
        held: Counter[str] = Counter()
        waiting, oldest = 0, 0
        partitions = set()
        for shard in shards:
            name = str(shard.changelog.partition)
            partitions.add(name)
            here = 0
            for one in shard.held.values():
                held[one.aggregate] += 1
                here += len(one.waiting)
                oldest = min(oldest or one.since_us, one.since_us)
            waiting += here
            metrics.HELD_CHANGE_SETS.labels(name).set(here)
            metrics.HELD_SHARE.labels(name).set(shard.held.share)
        for name in self._partitions - partitions:
            metrics.HELD_CHANGE_SETS.remove(name)
            metrics.HELD_SHARE.remove(name)
        self._partitions = partitions
        self._aggregates |= set(held)
        for aggregate in self._aggregates:
            metrics.HELD_AGGREGATES.labels(aggregate).set(held[aggregate])
        metrics.HELD_SINCE.set(oldest / 1e6)
        if not held:
            return ""
        return f"{held.total()} held with {waiting} change sets: tidings-translator dead-letters list"
