"""The watermark: everything at or below it is in the tables, whatever the order of reading, and it comes to the end."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tidings_lakehouse.spark.kafka import Offsets
from tidings_lakehouse.watermark.completeness import Completeness, End, Rows, has_read

DEADLINE = 1000.0
MARKERS = "transaction"


@dataclass(frozen=True)
class Row:
    topic: str
    partition: int
    tx_id: int
    order: int
    last_commit: int | None
    lsn: int
    snapshot: bool = False


@dataclass
class Source:
    """What a connector sends: by topic and partition, in order."""

    log: dict[tuple[str, int], list[Row | End]] = field(default_factory=dict)
    moments: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """By partition, when each record was sent."""
    sent: int = 0

    snapshot: int = 0
    """How many records are of a snapshot, which is there as a whole before anything else is sent."""

    def send(self, topic: str, partition: int, record: Row | End) -> None:
        self.log.setdefault((topic, partition), []).append(record)
        self.moments.setdefault((topic, partition), []).append(self.sent)
        self.sent += 1

    def visible(self, upto: int, late: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """How many records of each partition can be read after `upto` were sent, some of which are on their way."""
        found: dict[tuple[str, int], int] = {}
        for place in self.log:
            end = max(min(upto, self.snapshot), upto - late.get(place, 0))
            found[place] = bisect_left(self.moments[place], end)
        return found

    def stored(self, visible: dict[tuple[str, int], int]) -> int | None:
        """The position behind everything that can be read, and before anything that cannot."""
        arrived = min(
            [self.moments[place][end] for place, end in visible.items() if end < len(self.moments[place])],
            default=self.sent,
        )
        if arrived < self.snapshot:
            return None
        ends = [
            record.commit_lsn
            for place, records in self.log.items()
            for record, moment in zip(records, self.moments[place], strict=True)
            if isinstance(record, End) and moment < arrived
        ]
        return max(ends, default=60)


def make_source(random_: random.Random, transactions: int, topics: int, partitions: int) -> Source:
    """A snapshot, transactions, and what crashes repeat: a connector goes back and sends the same again."""
    source = Source()
    for number in range(random_.randrange(6)):
        topic = f"t{random_.randrange(topics)}"
        row = Row(topic, number % partitions, 0, 0, None, 5, snapshot=True)
        source.send(topic, row.partition, row)
    source.snapshot = source.sent
    sent: list[list[tuple[str, int, Row | End]]] = []
    last: int | None = None
    for tx_id in range(1, transactions + 1):
        commit = tx_id * 100
        rows = [
            Row(
                f"t{random_.randrange(topics)}",
                random_.randrange(partitions),
                tx_id,
                order,
                last,
                commit - 50,
            )
            for order in range(1, random_.choice([1, 2, 3, 8]))
        ]
        end = End(0, tx_id, commit, Counter(row.topic for row in rows))
        sent.append([*((row.topic, row.partition, row) for row in rows), (MARKERS, 0, end)])
        for one in sent[-1]:
            source.send(*one)
        last = commit
        if random_.random() < 0.15:
            for transaction in sent[-random_.randrange(1, 4) :]:
                for one in transaction:
                    source.send(*one)
    return source


class Reader:
    """A job: reads some of every partition in a batch, and may be killed and begin again with what is in its tables."""

    def __init__(self, source: Source, random_: random.Random, deadline: float) -> None:
        self.source, self.random, self.deadline = source, random_, deadline
        self.read: dict[tuple[str, int], int] = {}
        self.now = 0.0
        self.tracker = Completeness(None, None, deadline)

    def batch(self, most: int, *, visible: dict[tuple[str, int], int]) -> int | None:
        """Read up to `most` records of every partition that can be seen."""
        rows: list[Row] = []
        ends: list[End] = []
        for place in sorted(self.source.log):
            start = self.read.get(place, 0)
            end = max(start, min(visible.get(place, 0), start + self.random.randrange(most + 1)))
            self.read[place] = end
            read = self.source.log[place][start:end]
            ends += [record for record in read if isinstance(record, End)]
            rows += [record for record in read if isinstance(record, Row)]
        self.count(rows)
        self.now += 1.0
        for one in ends:
            self.tracker.end(one, self.now)
        if self.tracker.is_asking():
            self.tracker.await_ends(_offsets(visible))
        if self.tracker.is_overdue(self.now):
            self.tracker.rest_at(_offsets(visible), self.now)
        return self.tracker.advance(_offsets(self.read), 1)

    def rest(self, *, visible: dict[tuple[str, int], int]) -> int | None:
        """Look at the position that the source has stored: behind what all partitions have of it."""
        position = self.source.stored(visible)
        if position is not None and has_read(_offsets(self.read), _offsets(visible)):
            self.tracker.claim(position)
        return self.tracker.commit_lsn

    def count(self, rows: list[Row]) -> None:
        tracker = self.tracker
        if any(row.snapshot for row in rows):
            tracker.shut(max(row.lsn for row in rows if row.snapshot))
        passed = -1 if tracker.passed is None else tracker.passed
        new = [
            row
            for row in rows
            if not row.snapshot and (row.lsn if row.last_commit is None else row.last_commit) >= passed
        ]
        tracker.count(
            _grouped(new),
            lambda again: _grouped(
                [
                    row
                    for row in new
                    for one, above in again
                    if (row.topic, row.partition, row.tx_id) == (one.topic, one.partition, one.tx_id)
                    and row.order > above
                ]
            ),
        )
        for row in rows:
            if row.last_commit is not None:
                tracker.beyond((row.topic, row.partition), row.last_commit)

    def restart(self) -> None:
        """From what the tables hold: rows, END markers, and the watermark."""
        self.tracker = Completeness(self.tracker.commit_lsn, self.tracker.passed, self.deadline)
        held = [record for place, end in sorted(self.read.items()) for record in self.source.log[place][:end]]
        for record in held:
            if isinstance(record, End):
                self.tracker.end(record, self.now)
        shut = [record for record in held if isinstance(record, Row) and not record.snapshot]
        self.count(shut)


def _grouped(rows: list[Row]) -> list[Rows]:
    groups: dict[tuple[str, int, int], set[int]] = {}
    for row in rows:
        groups.setdefault((row.topic, row.partition, row.tx_id), set()).add(row.order)
    return [Rows(*key, len(orders), min(orders), max(orders)) for key, orders in groups.items()]


def _offsets(places: dict[tuple[str, int], int]) -> Offsets:
    found: Offsets = {}
    for (topic, partition), end in places.items():
        found.setdefault(topic, {})[str(partition)] = end
    return found


def missing_below(source: Source, read: dict[tuple[str, int], int], watermark: int) -> list[Row]:
    """Rows at or below a watermark that have not been read once, and all of the snapshot's."""
    have = {
        (record.tx_id, record.order)
        for place, end in read.items()
        for record in source.log[place][:end]
        if isinstance(record, Row) and not record.snapshot
    }
    return [
        record
        for place, records in source.log.items()
        for offset, record in enumerate(records)
        if isinstance(record, Row)
        and (
            offset >= read.get(place, 0)
            if record.snapshot
            else record.tx_id * 100 <= watermark and (record.tx_id, record.order) not in have
        )
    ]


@given(
    seed=st.integers(0, 1 << 32),
    transactions=st.integers(1, 25),
    topics=st.integers(1, 3),
    partitions=st.integers(1, 3),
    is_late=st.booleans(),
    has_positions=st.booleans(),
)
def test_everything_at_or_below_it_is_there_and_it_comes_to_the_end(
    seed: int, transactions: int, topics: int, partitions: int, is_late: bool, has_positions: bool
) -> None:
    """A reader that is behind gives nothing up, however short the deadline, which is for what is still on its way.

    Without stored positions only ENDs open the gate, the last of which may be read before the snapshot; a reader that is
    restarted behind it waits for the next one, which does not come here.
    """
    random_ = random.Random(seed)
    source = make_source(random_, transactions, topics, partitions)
    reader = Reader(source, random_, DEADLINE if is_late else 0.0)
    former = upto = 0
    late = {place: random_.randrange(12) if is_late else 0 for place in source.log}
    for step in range(200):
        upto = min(source.sent, upto + random_.randrange(9))
        if has_positions and random_.random() < 0.1:
            reader.restart()
        visible = source.visible(upto, late if step < 120 else {})
        watermark = reader.batch(4, visible=visible)
        if has_positions and random_.random() < 0.2:
            watermark = reader.rest(visible=visible)
        if watermark is not None:
            assert not missing_below(source, reader.read, watermark)
            assert watermark >= former
            former = watermark
    assert reader.tracker.commit_lsn == transactions * 100
    assert reader.tracker.missing == 0
    assert reader.tracker.waiting_seconds(999.0) == 0.0


ENDS: Offsets = {"a": {"0": 1, "1": 1}, MARKERS: {"0": 1}}
MORE: Offsets = {"a": {"0": 1, "1": 2}, MARKERS: {"0": 1}}


def opened() -> Completeness:
    """A tracker whose gate is open."""
    tracker = Completeness(None, None, DEADLINE)
    tracker.end(End(0, 1, 100, {}), 0.0)
    assert tracker.is_asking()
    tracker.await_ends(ENDS)
    assert tracker.advance(ENDS, 1) == 100
    return tracker


def test_it_waits_for_a_partition_that_has_not_been_read() -> None:
    tracker = Completeness(None, None, DEADLINE)
    tracker.end(End(0, 1, 100, {}), 0.0)
    tracker.await_ends(ENDS)
    assert tracker.advance({"a": {"0": 1}, MARKERS: {"0": 1}}, 1) is None
    assert tracker.advance(ENDS, 1) == 100


def test_it_advances_while_a_table_rests() -> None:
    tracker = opened()
    tracker.end(End(0, 2, 200, {}), 0.0)
    assert tracker.advance(ENDS, 1) == 200


def test_a_row_that_never_comes_is_known_by_later_ones_of_every_partition() -> None:
    tracker = opened()
    tracker.end(End(0, 2, 200, {"a": 1}), 0.0)
    assert tracker.advance(ENDS, 1) == 100
    tracker.beyond(("a", 0), 300)
    assert tracker.advance(ENDS, 1) == 100
    tracker.beyond(("a", 1), 200)
    assert tracker.advance(ENDS, 1) == 200
    assert tracker.missing == 1


def test_a_row_that_never_comes_is_given_up_after_the_deadline() -> None:
    tracker = opened()
    tracker.end(End(0, 2, 200, {"a": 1}), 5.0)
    assert tracker.advance(ENDS, 1) == 100
    assert tracker.waiting_seconds(9.0) == 4.0
    late = 5.0 + DEADLINE
    assert not tracker.is_overdue(late - 1)
    assert tracker.advance(ENDS, 1) == 100
    assert tracker.is_overdue(late)
    tracker.rest_at(MORE, late)
    assert tracker.advance(ENDS, 1) == 100  # the job is behind
    assert not tracker.is_overdue(late + 1)
    assert tracker.advance(MORE, 1) == 200
    assert tracker.missing == 1
    # Nobody waits again for what has been given up, but what is there is read.
    tracker.end(End(0, 3, 300, {"a": 1}), late + 2)
    assert tracker.advance(MORE, 1) == 200
    assert tracker.is_overdue(late + 2)
    tracker.rest_at(MORE, late + 2)
    assert tracker.advance(MORE, 1) == 300
    tracker.count([Rows("a", 0, 4, 1, 1, 1)], lambda again: [])
    tracker.end(End(0, 5, 500, {"a": 1}), late + 3)
    assert not tracker.is_overdue(late + 3)
    assert tracker.advance(MORE, 1) == 300


def test_markers_in_several_partitions_are_passed_in_the_order_of_commits() -> None:
    tracker = opened()
    tracker.end(End(0, 3, 300, {}), 0.0)
    assert tracker.advance(ENDS, 2) == 100
    tracker.end(End(1, 2, 200, {"a": 1}), 0.0)
    assert tracker.advance(ENDS, 2) == 100
    tracker.count([Rows("a", 0, 2, 1, 1, 1)], lambda again: [])
    assert tracker.advance(ENDS, 2) == 200
