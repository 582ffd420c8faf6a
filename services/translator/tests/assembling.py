"""Technical topics in memory, and a reader that feeds an assembler from them, commits and crashes."""

import json
from typing import Any

import msgspec
from bikes.history import KEYS, Change, History, Transaction
from bikes.topics import Record

from tidings_domain.routing.transactions import CompleteTransaction
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.envelope import lsn_of
from tidings_envelope.errors import DecodeError
from tidings_envelope.headers.left_out import LeftOut
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.assembler import Assembler
from tidings_translator.sequencer.assembly.progress import Progress

TABLES = frozenset({"public.orders", "public.order_items", "public.payments", "public.customers"})
MARKERS = Partition("p.transaction", 0)
ORDERS = Partition("p.public.orders", 0)


def end_of(gtid: str, events: int = 1) -> Record:
    """The END of a MariaDB's transaction that has rows of another table alone."""
    elsewhere = [{"data_collection": "public.elsewhere", "event_count": events}] if events else []
    value = {"status": "END", "id": gtid, "ts_ms": 5, "event_count": events, "data_collections": elsewhere}
    return MARKERS.topic, None, json.dumps(value).encode()


class Topics:
    """The technical topics in memory: partition to values."""

    def __init__(self, partitions: int = 3) -> None:
        self.partitions = partitions
        self.values: dict[Partition, list[bytes | None]] = {MARKERS: []}
        for table in sorted(TABLES):
            self.values |= {Partition(f"p.{table}", number): [] for number in range(partitions)}

    def write(self, records: list[Record]) -> None:
        for topic, key, value in records:
            number = 0 if topic == MARKERS.topic else sum(key or b"") % self.partitions
            if Partition(topic, number) in self.values:
                self.values[Partition(topic, number)].append(value)

    def assembler(
        self, progress: Progress | None = None, offsets: dict[Partition, int] | None = None, **limits: Any
    ) -> Assembler:
        return Assembler(
            TABLES,
            progress or Progress(),
            offsets or dict.fromkeys(self.values, 0),
            {p.topic: None if p == MARKERS else p.topic.removeprefix("p.") for p in self.values},
            **limits,
        )


class Reader:
    """Feeds an assembler; what comes out is committed with the progress and the offsets, or lost by a crash."""

    def __init__(self, topics: Topics, **limits: Any) -> None:
        self.topics = topics
        self.limits = limits
        self.decoder = EnvelopeDecoder()
        self.committed: list[object] = []
        self.letters: list[tuple[Partition, int]] = []
        """Where unreadable records were that the dead letters were told of; committed like all that comes out."""
        self.saved = msgspec.msgpack.encode(Progress())
        self.saved_offsets = dict.fromkeys(topics.values, 0)
        self.pending: list[object] = []
        self.pending_letters: list[tuple[Partition, int]] = []
        self.now = 0.0
        self.left_out: dict[int, LeftOut] = {}
        """What END markers say was left out, by their commit LSN."""
        self.ends_known = True
        self.as_of: int | None = None
        """What records of snapshots' rows say."""
        self.gate_shut = False
        """Nothing may come out, as during a promotion."""
        self.crash()

    def crash(self) -> None:
        self.pending, self.pending_letters = [], []
        self.next = dict(self.saved_offsets)
        progress = msgspec.msgpack.decode(self.saved, type=Progress)
        self.assembler = self.topics.assembler(progress, self.saved_offsets, **self.limits)

    def commit(self) -> None:
        self.saved = msgspec.msgpack.encode(self.assembler.progress)
        self.saved_offsets = self.assembler.offsets()
        self.committed += self.pending
        self.letters += self.pending_letters
        self.pending, self.pending_letters = [], []

    def feed(self, partition: Partition, count: int) -> None:
        for _ in range(count):
            offset = self.next[partition]
            if offset >= len(self.topics.values[partition]):
                break
            self.next[partition] = offset + 1
            value = self.topics.values[partition][offset]
            if value is None:
                self.assembler.nothing(partition, offset)
                continue
            try:
                if partition == MARKERS:
                    marker = self.decoder.marker(value)
                    if marker is None:
                        self.assembler.nothing(partition, offset)
                        continue
                    told = self.left_out.get(lsn_of(marker.id))
                    self.assembler.marker(partition, offset, marker, self.now, told)
                else:
                    envelope = self.decoder.envelope(value)
                    assert envelope is not None
                    row = envelope.after or envelope.before or {}
                    key = msgspec.json.encode([row[name] for name in KEYS[partition.topic[2:]]])
                    self.assembler.row(partition, offset, envelope, self.now, key, self.as_of)
            except DecodeError:
                if self.assembler.unreadable(partition, offset):
                    self.pending_letters.append((partition, offset))
        if self.gate_shut:
            return
        self.pending += self.assembler.take(self.now)
        if self.ends_known:
            self.end_snapshot()

    def unread(self) -> list[Partition]:
        return [p for p, values in self.topics.values.items() if self.next[p] < len(values)]

    def feed_all(self) -> list[object]:
        while unread := self.unread():
            for partition in unread:
                self.feed(partition, 1)
        self.pending += self.assembler.take(self.now)
        self.end_snapshot()
        self.commit()
        return self.committed

    def end_snapshot(self) -> None:
        while self.assembler.wants_ends:
            self.assembler.set_ends({p: len(values) for p, values in self.topics.values.items()})
            self.pending += self.assembler.take(self.now)


def rows_of(transaction: Transaction) -> list[int]:
    return [order for order, change in enumerate(transaction.changes, 1) if change.table in TABLES]


def summary(out: list[object]) -> list[tuple[int, int, list[int]]]:
    """(txid, commit LSN, ordinals) of what came out, all of which must be complete transactions."""
    found = []
    for one in out:
        assert isinstance(one, CompleteTransaction), one
        orders = [row.transaction.total_order for row in one.rows if row.transaction is not None]
        found.append((one.txid, one.commit_lsn, orders))
    return found


def told(transactions: list[Transaction]) -> list[tuple[int, int, list[int]]]:
    return [(t.txid, t.end_lsn, rows_of(t)) for t in transactions]


def two_orders() -> list[Transaction]:
    history = History(1)
    order = {"id": 1, "customer_id": 1, "status": "placed"}
    return [
        history.commit([Change("public.orders", "c", None, {**order, "id": number})]) for number in (1, 2)
    ]
