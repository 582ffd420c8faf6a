"""The sequencer's and the translator's work between Kafka and Kafka, done in memory on records that were read."""

import random
import time
from collections.abc import Mapping
from typing import Any

from side_by_side import DEADLINE_SECONDS, Side
from translatorlab.truth import Expected

from tidings_domain import Domain
from tidings_domain.evaluation.evaluate import Evaluator
from tidings_domain.routing.router import Router
from tidings_domain.routing.transactions import SnapshotRow
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.headers.as_of import as_of
from tidings_envelope.registry import RegistryClient
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.assembler import Assembler
from tidings_translator.sequencer.assembly.first_records import FirstRecords, look
from tidings_translator.sequencer.assembly.progress import Beginning
from tidings_translator.sequencer.assembly.transactions import LostTransaction
from tidings_translator.sequencer.changelog import Changelog


class InMemory:
    """The sequencer's and the translator's work on records that were read.

    Args:
        since: events of commits up to this position are not collected.
    """

    def __init__(self, domain: Domain, side: Side, registry: str, seed: int, since: int = 0) -> None:
        self._since = since
        changelog = Changelog()
        self._records = {Partition(*place): list(found) for place, found in side.records.items()}
        self._decoder = EnvelopeDecoder(RegistryClient(registry))
        self._chance = random.Random(seed)
        tables = {p.topic: p.topic.removeprefix(f"{side.base}.") for p in self._records}
        tables[f"{side.base}.transaction"] = None
        kept = {p for p in self._records if tables[p.topic] is None or tables[p.topic] in domain.tables}
        self._next = dict.fromkeys(sorted(kept), 0)
        self._assembler = Assembler(
            frozenset(domain.tables),
            changelog.progress,
            self._next,
            tables,
            roots=frozenset(cls.__table__ for cls in domain.aggregates.values()),
            first=self._first_records(tables),
        )
        self._router = Router(domain, changelog.memory, changelog.progress)
        self._evaluator = Evaluator(domain)
        self._states: dict[tuple[str, str], bytes | None] = {}
        self.ids: list[str] = []
        self.events: Expected = {}
        self.snapshot_rows = 0
        self.beginnings: list[Beginning] = []
        """Snapshots with which the stream began anew."""
        self.silent: set[int] = set()
        """Ids of transactions that were committed while such a one was read."""
        self.lost: set[int] = set()
        """And of those without an END."""

    def run(self) -> Expected:
        """Everything there is, partitions in turns of any length."""
        while unread := [p for p, offset in self._next.items() if offset < len(self._records[p])]:
            partition = self._chance.choice(unread)
            for _ in range(self._chance.randint(1, 40)):
                self._read(partition)
            self._take()
        self._take()
        return self.events

    def close(self) -> None:
        """Give back what the assembler keeps on disk."""
        self._assembler.close()

    @property
    def waits_for(self) -> str | None:
        """What the topics lack, None when every transaction was complete."""
        return self._assembler.waiting.describe() if self._assembler.open_transactions else None

    def _first_records(self, tables: Mapping[str, str | None]) -> FirstRecords:
        markers: list[tuple[Any, Any]] = []
        rows: list[tuple[Any, Any]] = []
        for partition in self._next:
            values = [(value, headers) for _, value, headers in self._records[partition][:100]]
            if tables[partition.topic] is None:
                markers += values
            else:
                rows += values[:1]
        return look(self._decoder, markers, rows)

    def _read(self, partition: Partition) -> None:
        offset = self._next[partition]
        if offset == len(self._records[partition]):
            return
        self._next[partition] = offset + 1
        key, value, headers = self._records[partition][offset]
        if value is None:
            self._assembler.nothing(partition, offset)
        elif partition.topic.endswith(".transaction"):
            self._assembler.marker(partition, offset, self._decoder.marker(value), 0.0)
        else:
            envelope = self._decoder.envelope(value)
            assert envelope is not None
            self._assembler.row(partition, offset, envelope, 0.0, key, as_of(headers))

    def _take(self) -> None:
        self._hand_on()
        while self._assembler.wants_ends:
            self._assembler.set_ends({p: len(self._records[p]) for p in self._next})
            self._hand_on()

    def _hand_on(self) -> None:
        self.beginnings += self._assembler.take_beginnings()
        for one in self._assembler.take(0.0):
            if isinstance(one, SnapshotRow):
                self.snapshot_rows += 1
                sets = self._router.snapshot_row(one)
            else:
                if isinstance(one, LostTransaction):
                    self.lost.add(one.txid)
                    self._router.learn(row.envelope for row in one.rows)
                    continue
                if one.silent:
                    self.silent.add(one.txid)
                sets = self._router.change_sets(one)
            for change_set in sets:
                key = (change_set.aggregate, change_set.id)
                done = self._evaluator.apply(self._states.get(key), change_set)
                assert done.failures == [], done.failures
                self._states[key] = done.new_state
                for event in done.events if change_set.commit_lsn > self._since else ():
                    self.ids.append(event.event_id)
                    by_order = self.events.setdefault(event.topic.removeprefix("store."), {})
                    by_order.setdefault(change_set.id, []).append(event.payload)


def everything(domain: Domain, side: Side, registry: str, seed: int, since: int = 0) -> InMemory:
    """What a side's topics tell; partitions are written beside each other, so the last one's end is not all others'."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        side.read()
        told = InMemory(domain, side, registry, seed, since)
        try:
            told.run()
        finally:
            told.close()
        if told.waits_for is None:
            return told
        assert time.monotonic() < deadline, f"{side.base}: {told.waits_for}"
