"""Shows who still reads a version: the consumer groups of every business topic, as a table and as metrics.

A version of an event may go when nobody reads it any more. Kafka knows the groups that have committed an offset on its
topic; a group that is gone for good stays listed until Kafka forgets its offsets (``offsets.retention.minutes``), so that
the table also says up to which moment each group has read.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from tidings_domain.language.events import contract_of, topic_of
from tidings_domain.language.lifecycle import Lifecycle, lifecycle_of
from tidings_domain.loading.domain import Domain
from tidings_translator.base import metrics


class Reader(NamedTuple):
    """A consumer group on one business topic."""

    group: str
    topic: str
    state: str
    """Kafka's word for the group, in lower case: stable, empty, …"""
    members: int
    """Of the whole group, also on other topics."""
    behind: int
    """Offsets between what the group has committed and the end of the topic; control records count."""
    positions: dict[int, int]
    """The committed offset by partition."""
    distance: int | None = None
    """Offsets between the first that is left and what is committed, the smallest of its partitions; None while nothing was
    ever deleted."""


class Version(NamedTuple):
    """A live version of an event, as far as its readers are concerned."""

    topic: str
    event: str
    name: str
    """``v1``."""
    lifecycle: Lifecycle


def live_versions(domain: Domain) -> list[Version]:
    """Every live version of every event, sorted by topic."""
    versions = [
        Version(topic_of(event), event.__event__, f"v{event.__major__}", lifecycle_of(contract_of(event)))
        for event in domain.event_classes()
    ]
    return sorted(versions, key=lambda version: version.topic)


_MOST_READERS = 1_000


class ReaderMetrics:
    """Keeps the gauges of readers; those of a group that has left no trace any more disappear."""

    def __init__(self, most: int = _MOST_READERS) -> None:
        """
        Args:
            most: series of each gauge: a group is whatever a client of Kafka calls itself.
        """
        self._most = most
        self._shown: set[tuple[str, str, str]] = set()
        self._positions: dict[tuple[str, str, str], dict[int, int]] = {}
        self._distances: set[tuple[str, str, str]] = set()

    def show(self, versions: Iterable[Version], readers: Iterable[Reader], now: float) -> None:
        """Put what Kafka said into the metrics.

        Args:
            versions: the live versions.
            readers: of their topics.
            now: seconds since 1970. A group is seen when it has members, or when its offsets have moved.
        """
        names = {version.topic: (version.event, version.name) for version in versions}
        found = {(*names[reader.topic], reader.group): reader for reader in readers}
        # Those that are shown already stay: a gauge that comes and goes tells nothing.
        wanted = sorted(found, key=lambda labels: labels not in self._shown)
        metrics.READERS_LEFT_OUT.set(len(wanted[self._most :]))
        shown = set(wanted[: self._most])
        for labels in wanted[: self._most]:
            reader = found[labels]
            metrics.READER_MEMBERS.labels(*labels).set(reader.members)
            metrics.READER_LAG.labels(*labels).set(reader.behind)
            if reader.distance is not None:
                metrics.READER_DISTANCE.labels(*labels).set(reader.distance)
                self._distances.add(labels)
            former = self._positions.get(labels)
            if reader.members or (former is not None and former != reader.positions):
                metrics.READER_SEEN.labels(*labels).set(now)
            self._positions[labels] = reader.positions
        for labels in self._shown - shown:
            for metric in (metrics.READER_MEMBERS, metrics.READER_LAG, metrics.READER_SEEN):
                metric.remove(*labels)
            if labels in self._distances:
                self._distances.discard(labels)
                metrics.READER_DISTANCE.remove(*labels)
            del self._positions[labels]
        self._shown = shown


def table(versions: Sequence[Version], readers: Sequence[tuple[Reader, int | None]]) -> str:
    """The readers of every live version as text for a terminal.

    Args:
        versions: the live versions; each is listed, also without readers.
        readers: with the time of the last record behind each, milliseconds since 1970.
    """
    rows = [("TOPIC", "GROUP", "STATE", "MEMBERS", "BEHIND", "READ UP TO", "SUNSET")]
    for version in versions:
        sunset = str(version.lifecycle.sunset or ("deprecated" if version.lifecycle.deprecated else ""))
        own = [(reader, until) for reader, until in readers if reader.topic == version.topic]
        for reader, until in own:
            counts = (str(reader.members), str(reader.behind))
            rows.append((version.topic, reader.group, reader.state, *counts, _moment(until), sunset))
        if not own:
            rows.append((version.topic, "(nobody)", "", "", "", "", sunset))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join(lines) + "\n"


def _moment(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "nothing yet"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
