"""The business topics as a read_committed consumer sees them, read on from where the last look ended."""

import contextlib
import io
import json
import time
from dataclasses import dataclass
from typing import Any

import fastavro
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidings_stack.kafka import arrived
from tidings_stack.waiting import wait_for
from translatorlab.events import EVENTS
from translatorlab.truth import Expected, count

_PATIENCE_SECONDS = 120.0


@dataclass
class Verdict:
    """What was compared, and everything that is wrong."""

    expected: int
    found: int
    problems: list[str]
    wrong: list[str]
    """An order that differs, of each event of which any does."""


class Published:
    """Everything that was published under a name so far."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._bootstrap = bootstrap
        self._contracts = {
            f"{name}.{event.__event__}.v{event.__major__}": fastavro.parse_schema(
                json.loads(event.__contract__)
            )
            for event in EVENTS
        }
        self._prefix = f"{name}."
        self._next: dict[tuple[str, int], int] = {}
        self._ids: set[str] = set()
        self._repeated: list[str] = []
        self.events: Expected = {topic.removeprefix(self._prefix): {} for topic in self._contracts}
        self.records = 0

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the events that were read."""
        return frozenset(self._ids)

    def read(self) -> int:
        """Read what is new; how many records there are by now."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "verdict",
                "log_level": 0,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        try:
            topics = consumer.list_topics(timeout=60).topics
            open_places = {(t, p) for t in self._contracts if t in topics for p in topics[t].partitions}
            if open_places:
                consumer.assign([TopicPartition(t, p, self._next.get((t, p), 0)) for t, p in open_places])
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while open_places:
                assert time.monotonic() < deadline, f"{sorted(open_places)} cannot be read to the end"
                for message in arrived(consumer, 0.2):
                    error = message.error()
                    if error is None:
                        self._take(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        open_places.discard((message.topic(), message.partition()))
        except KafkaException:
            pass  # a broker that is away has nothing to tell; the next look may
        finally:
            consumer.close()
        return self.records

    def wait(self, count: int, seconds: float) -> None:
        """Read until so many are there, or none has come for so long."""
        with contextlib.suppress(AssertionError):  # the verdict tells more
            while (former := self.read()) < count:
                wait_for("an event", lambda former=former: self.read() > former, seconds)

    def _take(self, message: Any) -> None:
        place = message.topic(), message.partition()
        if message.offset() < self._next.get(place, 0):
            return
        self._next[place] = message.offset() + 1
        self.records += 1
        id_ = dict(message.headers())["ce_id"].decode()
        if id_ in self._ids:
            self._repeated.append(f"{message.topic()} {message.key().decode()}")
        self._ids.add(id_)
        payload: Any = fastavro.schemaless_reader(
            io.BytesIO(message.value()[5:]), self._contracts[message.topic()], None
        )
        by_order = self.events[message.topic().removeprefix(self._prefix)]
        by_order.setdefault(message.key().decode(), []).append(payload)

    def judge(self, want: Expected) -> Verdict:
        """Whether every event is there, once, per order in commit order, and none else."""
        problems = (
            [f"{len(self._repeated)} ids twice, the first: {self._repeated[0]}"] if self._repeated else []
        )
        first_wrong: list[str] = []
        for event, by_order in want.items():
            found = self.events[event]
            wrong = sorted(o for o in by_order.keys() | found.keys() if by_order.get(o) != found.get(o))
            if wrong:
                order = wrong[0]
                first_wrong.append(order)
                problems.append(
                    f"{event}: {len(wrong)} orders differ, such as {order}: expected {by_order.get(order)},"
                    f" found {found.get(order)}"
                )
        return Verdict(count(want), self.records, problems, first_wrong)
