"""Real Debezium's topics and capture's, in every format, give the same business events, and those that SQL tells.

What the two stages do between Kafka and Kafka is done here in memory, so that six sources cost little.
"""

import random
import time
from typing import Any

import pytest
from side_by_side import DEADLINE_SECONDS, Side, until
from translatorlab.store import TABLES, Customers, create_store
from translatorlab.truth import Expected, count, expected_events

from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.registry import RegistryClient
from tidings_stack.connect import avro_converter_settings
from tidings_translator.assembly import Assembler
from tidings_translator.domain import Domain, load_domain
from tidings_translator.evaluate import Evaluator
from tidings_translator.memory import Memory
from tidings_translator.records import Partition
from tidings_translator.routing import Router
from tidings_translator.transactions import CompleteTransaction

TRANSACTIONS = 150
JSON = "org.apache.kafka.connect.json.JsonConverter"
OPTIONS = {
    "provide.transaction.metadata": "true",
    "table.include.list": rf"public\.({'|'.join(TABLES)}|elsewhere)",
}


def json_options(schemas: str) -> dict[str, str]:
    sides = ("key.converter", "value.converter")
    return dict.fromkeys(sides, JSON) | {f"{side}.schemas.enable": schemas for side in sides}


class InMemory:
    """The sequencer's and the translator's work on records that were read."""

    def __init__(self, domain: Domain, side: Side, registry: str, seed: int) -> None:
        memory = Memory()
        self._records = {Partition(*place): found for place, found in side.records.items()}
        self._decoder = EnvelopeDecoder(RegistryClient(registry))
        self._chance = random.Random(seed)
        tables = {p.topic: p.topic.removeprefix(f"{side.base}.") for p in self._records}
        tables[f"{side.base}.transaction"] = None
        kept = {p for p in self._records if tables[p.topic] is None or tables[p.topic] in domain.tables}
        self._next = dict.fromkeys(sorted(kept), 0)
        self._assembler = Assembler(frozenset(domain.tables), memory.progress, self._next, tables)
        self._router = Router(domain, memory)
        self._evaluator = Evaluator(domain)
        self._states: dict[tuple[str, str], bytes | None] = {}
        self.ids: list[str] = []
        self.events: Expected = {}

    def run(self) -> Expected:
        """Everything there is, partitions in turns of any length."""
        while unread := [p for p, offset in self._next.items() if offset < len(self._records[p])]:
            partition = self._chance.choice(unread)
            for _ in range(self._chance.randint(1, 40)):
                self._read(partition)
            self._take()
        self._take()
        return self.events

    @property
    def waits_for(self) -> str | None:
        """What the topics lack, None when every transaction was complete."""
        return self._assembler.waiting_for() if self._assembler.open_transactions else None

    def _read(self, partition: Partition) -> None:
        offset = self._next[partition]
        if offset == len(self._records[partition]):
            return
        self._next[partition] = offset + 1
        value = self._records[partition][offset][1]
        if value is None:
            self._assembler.nothing(partition, offset)
        elif partition.topic.endswith(".transaction"):
            self._assembler.marker(partition, offset, self._decoder.marker(value), 0.0)
        else:
            envelope = self._decoder.envelope(value)
            assert envelope is not None
            self._assembler.row(partition, offset, envelope, 0.0)

    def _take(self) -> None:
        if self._assembler.wants_ends:
            self._assembler.set_ends(dict.fromkeys(self._next, 0))  # no snapshot was taken
        for one in self._assembler.take(0.0):
            assert isinstance(one, CompleteTransaction)
            for change_set in self._router.change_sets(one):
                key = (change_set.aggregate, change_set.id)
                done = self._evaluator.apply(self._states.get(key), change_set)
                assert done.failures == []
                self._states[key] = done.new_state
                for event in done.events:
                    self.ids.append(event.event_id)
                    by_order = self.events.setdefault(event.topic.removeprefix("store."), {})
                    by_order.setdefault(change_set.id, []).append(event.payload)


def everything(domain: Domain, side: Side, registry: str, seed: int) -> InMemory:
    """What a side's topics tell; partitions are written beside each other, so the last one's end is not all others'."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        side.read()
        told = InMemory(domain, side, registry, seed)
        told.run()
        if told.waits_for is None:
            return told
        assert time.monotonic() < deadline, f"{side.base}: {told.waits_for}"


@pytest.mark.timeout(900)
def test_the_same_events_from_either_engine_in_every_format(
    pair: Any, pg_database: str, registry_url: str, unique_name: str
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    slot = f"{unique_name}_order"
    create_store(pg_database, slot)
    formats = {
        "json": {**json_options("false"), "decimal.handling.mode": "string"},
        "json with schemas": json_options("true"),
        "avro": avro_converter_settings(registry_url),
    }
    pairs = {name: pair({**OPTIONS, **form}) for name, form in formats.items()}
    with Customers(pg_database, seed, pause=0.0, big=0.02) as customers:
        until("customers to have been there", lambda: customers.transactions >= TRANSACTIONS)
    for both in pairs.values():
        both.catch_up()
    want = {event: found for event, found in expected_events(pg_database, slot).items() if found}
    assert count(want) > TRANSACTIONS // 2
    domain = load_domain("translatorlab.domain")
    ids = set()
    for form, both in pairs.items():
        for side in (both.theirs, both.mine):
            told = everything(domain, side, registry_url, seed)
            assert told.events == want, (form, side.base)
            assert len(set(told.ids)) == len(told.ids) == count(want)
            ids.add(frozenset(told.ids))
    assert len(ids) == 1, "an event's id depends on what was committed, and on nothing else"
