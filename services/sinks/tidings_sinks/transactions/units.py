"""What comes out of an assembly, in order: transactions, and rows of snapshots that belong to none."""

from collections import deque
from collections.abc import Container
from typing import Final

from tidings_connect.data.subscription import TopicPartition
from tidings_envelope.gtid import Gtid
from tidings_sinks.transactions.events import RowPlace
from tidings_sinks.transactions.rows import Disk, Held, Rows


class Unit:
    """Rows that become visible together."""

    __slots__ = ("done", "rows", "waiting")

    def __init__(self, disk: Disk) -> None:
        self.rows: Final = Rows(disk)
        self.done = False
        """Whether it is durable in the target."""
        self.waiting: dict[TopicPartition, int] = {}
        """Rows that are kept, by partition."""

    def add(self, order: int, held: Held, size: int) -> None:
        """Keep a row."""
        self.rows.add(order, held, size)
        at = held.record.original
        self.waiting[at] = self.waiting.get(at, 0) + 1


class Loose(Unit):
    """Rows of a snapshot, which have no transaction, in the order in which they were read."""

    __slots__ = ()


class Transaction(Unit):
    """A transaction of the source."""

    __slots__ = (
        "begin",
        "counts",
        "end",
        "ended_at",
        "followers",
        "gtid",
        "needed",
        "out",
        "partitions",
        "text",
        "txid",
    )

    def __init__(self, disk: Disk, txid: int, text: str) -> None:
        super().__init__(disk)
        self.txid = txid
        self.text = text
        """Its id, for messages."""
        self.begin: RowPlace | None = None
        """Of the row that was read first; None before."""
        self.end: int | None = None
        """The position of its commit; None before its end was read."""
        self.gtid: Gtid | None = None
        """Of MariaDB; None before its end was read."""
        self.ended_at = 0.0
        self.out = False
        """Whether it is among those that are written next."""
        self.needed: dict[str, int] = {}
        """Rows by collection, once its end was read."""
        self.counts: dict[str, int] = {}
        """Rows by collection that have come."""
        self.partitions: set[TopicPartition] = set()
        """Where these stand."""
        self.followers: Loose | None = None
        """Rows of a snapshot that stand behind its rows in a partition."""

    @property
    def short(self) -> dict[str, int]:
        """Rows by collection that have not come; known after its end."""
        counts = self.counts
        return {name: n - counts.get(name, 0) for name, n in self.needed.items() if n > counts.get(name, 0)}

    @property
    def is_complete(self) -> bool:
        """Whether its end and all its rows were read."""
        if self.end is None:
            return False
        counts = self.counts
        return all(counts.get(name, 0) >= n for name, n in self.needed.items())


class Place:
    """How far a partition was read, and what still needs its records."""

    __slots__ = ("latest_commit", "next_offset", "runs", "streaming", "unreadable", "waiting")

    def __init__(self, offset: int) -> None:
        self.next_offset = offset
        """-1 before the first record, where nobody has said where reading begins."""
        self.runs: deque[tuple[int, Unit]] = deque()
        """Units that need records from an offset, oldest first."""
        self.waiting = 0
        """Rows that are kept and not written."""
        self.streaming = False
        """Whether a row of a transaction was the last that was read, so that no snapshot goes on."""
        self.latest_commit = -1
        """The position of the last commit before the youngest transaction that has rows here: older ones have no more."""
        self.unreadable = 0
        """Records that nobody could read."""

    def needed_by(self, offset: int, unit: Unit) -> None:
        """A unit needs the record at this offset, which is the last that was read."""
        if not self.runs or self.runs[-1][1] is not unit:
            self.runs.append((offset, unit))

    def youngest(self) -> Transaction | None:
        """The last transaction that is not done and has rows here."""
        return next(
            (unit for _, unit in reversed(self.runs) if isinstance(unit, Transaction) and not unit.done), None
        )

    def needed_from(self, without: Container[Unit] = ()) -> int:
        """The offset from which a successor must read, once some units are done."""
        runs = self.runs
        while runs and runs[0][1].done:
            runs.popleft()
        return next(
            (offset for offset, unit in runs if not unit.done and unit not in without), self.next_offset
        )
