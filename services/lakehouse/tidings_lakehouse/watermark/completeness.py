"""Up to which commit everything is in the tables: END markers say what a transaction has, the tables what has come. Pure.

Partitions are not read in step, and producers send to several brokers at once, so that an END marker may be read before
rows of its transaction, or of one before it. A commit is passed when all rows that its END has counted have been read, and
all commits before it are passed. Rows are counted by `total_order`, which grows within a transaction in every partition, so
that what a crash repeats counts once.

A row that END has counted may never come: a transform left it out, or it could not be decoded. It is known when every
partition of its topic has been read beyond the commit (its rows name the last commit before their own). Else it is assumed after
`deadline` seconds, when everything is read that was on its topic by then: a job that is behind has not missed anything.

What no END counts are the rows of a snapshot. They are sent before the next transaction, so the watermark waits at a *gate*
until everything is read that was on the topics after an END had been seen: at every start, as long as there are rows of a
snapshot, and when a marker could not be decoded. An END may be read before a snapshot that was sent before it; if that is the
stream's first, their LSNs tell. A database may rest then; so a position that the connector's worker has
stored opens it, too (`claim`), when everything has been read that was on the topics after it was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidings_lakehouse.spark.kafka import Offsets

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class End:
    """An END marker."""

    partition: int
    """Of the transaction topic."""
    tx_id: int
    commit_lsn: int
    events: Mapping[str, int]
    """By technical topic, events that are to be there; those of tables that the lakehouse does not take are left out."""
    has_failed: bool = False
    """Capture has left out rows that it could not convert."""


@dataclass(frozen=True)
class Rows:
    """Rows of one transaction in one partition."""

    topic: str
    partition: int
    tx_id: int
    count: int
    """Different ones."""
    first: int
    """The least `total_order`."""
    last: int


Recount = Callable[[list[tuple[Rows, int]]], Iterable[Rows]]
"""Counts again what stands behind a `total_order`: of rows some of which were counted before."""


@dataclass
class _Open:
    """A transaction of which rows or the END are there."""

    counts: dict[str, int] = field(default_factory=dict)
    last: dict[Place, int] = field(default_factory=dict)


class Completeness:
    """What has been read of a source, and the watermark that follows.

    Args:
        commit_lsn: the watermark that is known; None when there is none.
        passed: the last commit that is passed, which is more as long as the gate is shut.
        deadline: seconds after which a row is given up that is not on its topic.
    """

    def __init__(self, commit_lsn: int | None, passed: int | None, deadline: float) -> None:
        self.commit_lsn = commit_lsn
        self.passed = passed
        self.missing = 0
        """Commits that were passed although rows were missing, in this process."""
        self.absent: set[str] = set()
        """Topics that were given up, until a row comes: nobody waits for them again and again."""
        self._deadline = deadline
        self._open: dict[int, _Open] = {}
        self._ends: dict[int, tuple[End, float]] = {}
        """By commit LSN, with the moment at which it was read."""
        self._newest: dict[int, int] = {}
        """By partition of the transaction topic, the newest commit."""
        self._beyond: dict[Place, int] = {}
        """The last commit that a row of the partition names: all rows up to there have been read."""
        self._is_shut = True
        self._wants_end = True
        """An END has to be read that comes later than what is here now."""
        self._snapshot_lsn = 0
        """An END has to be read of a commit behind this."""
        self._awaited: Offsets | None = None
        self._rest: tuple[float, Offsets] | None = None
        """The topics' ends at some moment: who has read up to there has all that was sent before it."""

    # --- what has been read: rows first, then what was read with them

    def count(self, rows: Iterable[Rows], recount: Recount) -> None:
        """Rows that are in the tables, of commits behind `passed`."""
        again = []
        for one in rows:
            last = self._seen(one)
            if one.first > last:
                self._add(one)
            elif one.last > last:
                again.append((one, last))
        if again:
            for one in recount(again):
                self._add(one)

    def _seen(self, rows: Rows) -> int:
        known = self._open.get(rows.tx_id)
        return 0 if known is None else known.last.get((rows.topic, rows.partition), 0)

    def _add(self, rows: Rows) -> None:
        self.absent.discard(rows.topic)
        known = self._open.setdefault(rows.tx_id, _Open())
        known.counts[rows.topic] = known.counts.get(rows.topic, 0) + rows.count
        known.last[rows.topic, rows.partition] = rows.last

    def beyond(self, place: Place, last_commit_lsn: int) -> None:
        """A row of a partition names this commit as the last one before its own."""
        self._beyond[place] = max(self._beyond.get(place, 0), last_commit_lsn)

    def end(self, end: End, now: float) -> None:
        """An END marker was read."""
        self._newest[end.partition] = max(self._newest.get(end.partition, 0), end.commit_lsn)
        self._wants_end = False
        if self.passed is not None and end.commit_lsn <= self.passed:
            self._open.pop(end.tx_id, None)  # repeated, as its rows were
        else:
            self._ends.setdefault(end.commit_lsn, (end, now))

    @property
    def awaited(self) -> frozenset[str]:
        """Topics whose rows are counted by an END that is not passed."""
        return frozenset(topic for end, _ in self._ends.values() for topic in end.events)

    # --- the gate

    def shut(self, snapshot_lsn: int | None = None) -> None:
        """Rows have come, or may have, that no END counts.

        Args:
            snapshot_lsn: they are of a stream's first snapshot, which was sent as a whole before anything that was committed
                behind this; None: nothing is known of what was sent when.
        """
        self._is_shut, self._awaited = True, None
        if snapshot_lsn is None:
            self._wants_end = True
        else:
            self._snapshot_lsn = max(self._snapshot_lsn, snapshot_lsn)

    def is_asking(self) -> bool:
        """Whether the gate waits to be told the topics' ends: an END has been read, which was sent behind what it waits for."""
        newest = max(self._newest.values(), default=0)
        return self._is_shut and self._awaited is None and not self._wants_end and newest > self._snapshot_lsn

    def await_ends(self, ends: Offsets) -> None:
        """The topics' ends, asked for after an END was read."""
        self._awaited = ends

    # --- rows that do not come

    def is_overdue(self, now: float) -> bool:
        """Whether the topics' ends have to be known to tell a row that does not come from one that has not been read.

        Args:
            now: in seconds, from any moment on.
        """
        for commit_lsn in sorted(self._ends):
            end, since = self._ends[commit_lsn]
            if short := self._short(end):
                asked = None if self._rest is None else self._rest[0]
                due = [self._due(topic, since) for topic in short]
                return any(one <= now and (asked is None or asked < one) for one in due)
        return False

    def rest_at(self, ends: Offsets, now: float) -> None:
        """The topics' ends at a moment."""
        self._rest = now, ends

    @property
    def is_shut(self) -> bool:
        """Whether the watermark waits at the gate."""
        return self._is_shut

    def claim(self, commit_lsn: int) -> None:
        """Everything up to a commit was on the topics before their ends were asked for, and all of that has been read.

        What had been sent before, a snapshot's rows too, has been read with it; so the gate opens, unless commits behind it
        wait there.
        """
        for lsn in [one for one in self._ends if one <= commit_lsn]:
            end, _ = self._ends.pop(lsn)
            self._open.pop(end.tx_id, None)
        if self.passed is None or self.passed <= commit_lsn:
            self.passed = commit_lsn
            self._is_shut, self._awaited = False, None
        self.commit_lsn = max(commit_lsn, self.commit_lsn or 0)

    # --- the watermark

    def advance(self, read: Offsets, markers: int) -> int | None:
        """The watermark.

        Args:
            read: by topic and partition, up to where everything is in the tables.
            markers: partitions of the transaction topic.
        """
        if len(self._newest) >= markers:
            self._pass(min(self._newest.values(), default=0), read)
        if self._is_shut and self._awaited is not None and has_read(read, self._awaited):
            self._is_shut, self._awaited = False, None
        if not self._is_shut:
            self.commit_lsn = self.passed
        return self.commit_lsn

    def _pass(self, upto: int, read: Offsets) -> None:
        for commit_lsn in sorted(self._ends):
            end, since = self._ends[commit_lsn]
            if commit_lsn > upto or not self._is_passed(end, read, since):
                break
            del self._ends[commit_lsn]
            self._open.pop(end.tx_id, None)
            self.passed = commit_lsn

    def waiting_seconds(self, now: float) -> float:
        """How long the oldest commit has waited that was read and is not passed."""
        return max((now - since for _, since in self._ends.values()), default=0.0)

    def _is_passed(self, end: End, read: Offsets, since: float) -> bool:
        short = self._short(end)
        unknown = [topic for topic in short if not self._is_beyond(topic, end, read)]
        if not all(self._is_given_up(topic, since, read) for topic in unknown):
            return False
        self.missing += end.has_failed or not self.absent.issuperset(short)
        self.absent.update(unknown)
        return True

    def _short(self, end: End) -> list[str]:
        """Topics that have fewer rows of a transaction than its END counts."""
        known = self._open.get(end.tx_id)
        counts = {} if known is None else known.counts
        return [topic for topic, count in end.events.items() if counts.get(topic, 0) < count]

    def _due(self, topic: str, since: float) -> float:
        """When rows of a topic have come that will, by the moment at which their END was read."""
        return since if topic in self.absent else since + self._deadline

    def _is_given_up(self, topic: str, since: float, read: Offsets) -> bool:
        if self._rest is None:
            return False
        moment, ends = self._rest
        return moment >= self._due(topic, since) and has_read(read, {topic: ends.get(topic, {})})

    def _is_beyond(self, topic: str, end: End, read: Offsets) -> bool:
        partitions = read.get(topic)
        return bool(partitions) and all(
            self._beyond.get((topic, int(number)), 0) >= end.commit_lsn for number in partitions or ()
        )


def has_read(read: Offsets, wanted: Offsets) -> bool:
    """Whether everything before some offsets has been read."""
    return all(
        read.get(topic, {}).get(number, 0) >= end
        for topic, partitions in wanted.items()
        for number, end in partitions.items()
    )
