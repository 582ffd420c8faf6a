"""What the live service makes of records: the translator's own assembler, router and shard, with lists in Kafka's place."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from tidings_domain.changes import encode_change_set
from tidings_domain.evaluation.evaluate import Evaluator
from tidings_domain.evaluation.tracing import Traces
from tidings_domain.loading.domain import Domain
from tidings_domain.routing.memory import Memory
from tidings_domain.routing.router import Router
from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_envelope.binlog import read_as_of
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.headers.as_of import as_of
from tidings_envelope.headers.left_out import HEADER, left_out
from tidings_translator.base.records import Output, Partition
from tidings_translator.sequencer.assembly.assembler import Assembler
from tidings_translator.sequencer.assembly.progress import Progress
from tidings_translator.translation.policies import Policies
from tidings_translator.translation.publishing import BatchResult, Publisher
from tidings_translator.translation.shard import Shard, ShardContext

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]


class _Fetched(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Any


class Begun(NamedTuple):
    """What a life goes on with."""

    memory: Mapping[bytes, bytes]
    progress: Progress
    states: Mapping[bytes, bytes]
    next_offsets: Mapping[Partition, int]


class Live:
    """One life without a restart.

    Args:
        domain: the rules.
        decoder: of the records.
        records: of each partition of each topic, in order.
        tables: topic to table; None for the transaction topic.
        begun: what was before; None: nothing.
    """

    def __init__(
        self,
        domain: Domain,
        decoder: EnvelopeDecoder,
        records: Mapping[Partition, list[Record]],
        tables: Mapping[str, str | None],
        begun: Begun | None = None,
    ) -> None:
        begun = begun or Begun({}, Progress(), {}, {})
        self._decoder = decoder
        self._records = records
        self._next = dict.fromkeys(records, 0) | dict(begun.next_offsets)
        self.progress = begun.progress
        names = frozenset(table for table in tables.values() if table is not None)
        self._assembler = Assembler(names, self.progress, dict(self._next), tables, read_ahead_rows=10**9)
        self._tables = tables
        self._memory = Memory()
        for key, value in begun.memory.items():
            self._memory.load(key, value)
        self._router = Router(domain, self._memory, self.progress)
        self._traces = Traces(None)
        here = Partition("change-sets", 0)
        topics = {f"{one.__domain__}.{one.__event__}.v{one.__major__}": b"" for one in domain.event_classes()}
        context = ShardContext(Evaluator(domain), Policies(domain), Publisher(topics, {}), "letters", 1 << 30)
        self._topics = frozenset(topics)
        self._shard = Shard(context, here, Partition("state", 0), 1, 0, "live")
        self._shard.states.update(begun.states)
        self._offset = 0
        self.letters = 0

    def events(self, chance: random.Random) -> list[Output]:
        """Read all, the partitions in any order; what is published."""
        result = BatchResult()
        while unread := [one for one in self._records if self._next[one] < len(self._records[one])]:
            self._feed(chance.choice(unread), chance.randint(1, 20))
            self._take(result)
        while self._assembler.wants_ends:
            self._assembler.set_ends({one: len(values) for one, values in self._records.items()})
            self._take(result)
        self.letters = len(result.letters)
        return [one for one in result.outputs if one.topic in self._topics]

    def remembered(self) -> dict[bytes, bytes]:
        """What is remembered of rows, as in the changelog; of a life without a beginning, and once."""
        return {key: value for key, value in self._memory.take_changes().items() if value is not None}

    def _feed(self, partition: Partition, count: int) -> None:
        for _ in range(count):
            offset = self._next[partition]
            if offset == len(self._records[partition]):
                return
            self._next[partition] += 1
            key, value, headers = self._records[partition][offset]
            if self._tables[partition.topic] is None:
                found = dict(headers).get(HEADER)
                told = None if found is None else left_out(found)
                marker = self._decoder.marker(value or b"", headers)
                self._note_domain()
                if marker is None:
                    self._assembler.nothing(partition, offset)
                else:
                    self._assembler.marker(partition, offset, marker, 0.0, told)
                continue
            envelope = self._decoder.envelope(value, headers)
            if envelope is None:
                self._assembler.nothing(partition, offset)
                continue
            self._note_domain()
            self._traces.note(headers, envelope)
            position = as_of(headers) if envelope.op == "r" else None
            if position is not None:
                envelope = read_as_of(envelope, position)
            self._assembler.row(partition, offset, envelope, 0.0, key, position)

    def _note_domain(self) -> None:
        self.progress.note_domain(self._decoder.replication_domain)

    def _take(self, result: BatchResult) -> None:
        for one in self._assembler.take(0.0):
            if isinstance(one, SnapshotRow):
                sets = self._router.snapshot_row(one)
            else:
                assert isinstance(one, CompleteTransaction)
                sets = self._traces.hand_on(one.txid, self._router.change_sets(one))
            for made in sets:
                self._offset += 1
                key = f"{made.aggregate}/{made.id}".encode()
                self._shard.take(_Fetched(self._offset, key, encode_change_set(made), []), result)
