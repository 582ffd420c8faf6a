"""The same connector JSON on real Kafka Connect with Debezium and on a real capture worker, record by record.

`Pair` posts one configuration to both REST APIs, on the same database; the two differ in `topic.prefix`, slot and
publication alone, whose names have the same length. `Pair.run` runs SQL, and `Pair.compare` reads every topic of both
and compares keys, values, schemas, headers and tombstones in order. Masked: the connectors' clocks, the run id, and
for snapshot rows their position and time, because two snapshots are taken at two moments.

A table of its own, ``public.zzend``, gets a row when all has been said; its records show that both have come so far.
"""

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from masking import HEARTBEAT, masked

from tidings_envelope.headers.as_of import HEADER as AS_OF
from tidings_stack.capture import call
from tidings_stack.connect import POSTGRES_CONNECTOR, connector_settings
from tidings_stack.kafka import arrived
from tidings_stack.waiting import wait_for

DEADLINE_SECONDS = 60
CONNECTOR_CLASS = POSTGRES_CONNECTOR
SENTINEL = "zzend"
_RUN_ID = "__debezium.context.runId"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN_JSON = {
    "decimal.handling.mode": "string",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "poll.interval.ms": "20",
    "topic.prefix": "{base}",
    "slot.name": "{base}",
    "publication.name": "{base}",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
}
"""Options of a connector whose records are read as JSON without schemas; `{base}` is the side's name."""

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]
Records = dict[tuple[str, int], list[Record]]
"""By topic and partition, in order."""


def rest(url: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    """Status and JSON body of a REST answer, whatever the status."""
    return call(method, url, body)


def until(what: str, condition: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> Any:
    """The first true value of a condition; fails with `what` after `seconds`."""
    return wait_for(what, condition, seconds)


class Side:
    """One of the two: a connector behind a REST API."""

    def __init__(self, url: str, base: str, bootstrap: str) -> None:
        self.url = url
        self.bootstrap = bootstrap
        self.base = base
        """What its topic prefix, slot and publication begin with."""
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": base,
                "enable.auto.commit": False,
                # Never skip: a broker whose leader of a new topic has just changed refuses the first offset for a moment.
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
            }
        )
        self._next: dict[tuple[str, int], int] = {}
        self.records: Records = defaultdict(list)

    def create(self, config: Mapping[str, str]) -> None:
        """Post the configuration; `{base}` in a value stands for the side's own name."""
        own = {name: value.replace("{base}", self.base) for name, value in config.items()}
        status, body = rest(f"{self.url}/connectors/{self.base}/config", "PUT", own)
        assert status == 201, (self.url, body)

    def task(self) -> dict[str, Any]:
        """The task's state; an empty one while there is none."""
        status, body = rest(f"{self.url}/connectors/{self.base}/status")
        return body["tasks"][0] if status == 200 and body["tasks"] else {"state": None, "trace": ""}

    def check(self) -> None:
        """Fail with the task's trace when it has failed."""
        task = self.task()
        assert task["state"] != "FAILED", f"{self.url}: {task.get('trace', '')[:4000]}"

    def delete(self) -> None:
        """End the connector."""
        rest(f"{self.url}/connectors/{self.base}", "DELETE")
        self._consumer.close()

    @contextlib.contextmanager
    def deleted_at_last(self) -> Iterator[None]:
        """Ends the connector, whatever happens: one that goes on may hold locks of its database."""
        try:
            yield
        finally:
            self.delete()

    def topics(self) -> dict[str, int]:
        """The side's topics, with their numbers of partitions."""
        found = self._consumer.list_topics(timeout=30).topics
        return {name: len(topic.partitions) for name, topic in found.items() if self.base in name}

    def read(self) -> None:
        """Take in what is new on the side's topics."""
        ends = {place: end for place, end in self._ends().items() if self._next.get(place, 0) < end}
        if not ends:
            return
        # All at once: a consumer that is assigned anew takes its time.
        self._consumer.assign([TopicPartition(*place, self._next.get(place, 0)) for place in ends])
        waiting, deadline = set(ends), time.monotonic() + DEADLINE_SECONDS
        while waiting:
            assert time.monotonic() < deadline, f"these give no more records: {sorted(waiting)}"
            for message in arrived(self._consumer, 0.2):
                assert message.error() is None, message.error()
                place = (message.topic(), message.partition())
                wanted = self._next.get(place, 0)
                if message.offset() < wanted:
                    continue  # again, after the first offset was refused
                if message.offset() > wanted:
                    # The consumer has skipped records that were there when it was assigned.
                    print(f"{place}: {message.offset()} came where {wanted} was asked for")
                    self._consumer.seek(TopicPartition(*place, wanted))
                    continue
                self.records[place].append((message.key(), message.value(), list(message.headers() or ())))
                self._next[place] = message.offset() + 1
                if self._next[place] >= ends[place]:
                    waiting.discard(place)
        self._consumer.unassign()

    def _ends(self, part: str = "") -> dict[tuple[str, int], int]:
        """Where the partitions end of topics whose names hold a text."""
        found = {}
        for topic, partitions in self.topics().items():
            for partition in range(partitions if part in topic else 0):
                with contextlib.suppress(KafkaException):  # a topic that is just being created
                    place = TopicPartition(topic, partition)
                    found[topic, partition] = self._consumer.get_watermark_offsets(place, timeout=30)[1]
        return found

    def sentinels(self) -> int:
        """How many rows of the sentinel table have arrived."""
        return sum(self._ends(SENTINEL).values())


class Pair:
    """A Debezium connector and ours on one database."""

    def __init__(
        self,
        url: str,
        theirs: Side,
        mine: Side,
        options: Mapping[str, str],
        suffix: str = "",
        only_theirs: Mapping[str, str] | None = None,
    ) -> None:
        """`only_theirs` are options that Debezium gets in place of ours: those that mean the same in other words."""
        self.url = url
        self.theirs = theirs
        self.mine = mine
        self.options = self._with_sentinel(dict(options))
        self._suffix = suffix
        self._only_theirs = dict(only_theirs or {})
        self._sent = 0
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {SENTINEL} (id int PRIMARY KEY)")

    @staticmethod
    def _with_sentinel(options: dict[str, str]) -> dict[str, str]:
        for name, entry in (("table.include.list", ""), ("column.include.list", r"\.id")):
            if options.get(name):
                options[name] += rf",public\.{SENTINEL}{entry}"
        return options

    def start(self) -> None:
        """Post the configuration to both, and wait until both stream."""
        own = {
            "topic.prefix": "{base}" + self._suffix,
            "slot.name": "{base}",
            "publication.name": "{base}",
            "snapshot.mode": "no_data",
            "errors.max.retries": "0",
            "poll.interval.ms": "20",
            # Created by Connect at once, rather than by the broker when the producer asks again and again.
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            **self.options,
        }
        config = connector_settings(self.url, **own)
        self.theirs.create(config | self._only_theirs)
        self.mine.create(config)
        for side in (self.mine, self.theirs):
            until(f"{side.base} streams", lambda side=side: self._streams(side))

    def _streams(self, side: Side) -> bool:
        row = self.connection.execute(
            # Not only active: a slot that is just being created is, too, and will not tell what is written meanwhile.
            "SELECT active_pid IN (SELECT pid FROM pg_stat_replication WHERE state IN ('catchup', 'streaming'))"
            " FROM pg_replication_slots WHERE slot_name = %s",
            [side.base],
        ).fetchone()
        if row != (True,):
            side.check()
        return row == (True,)

    def run(self, *steps: str | Iterable[str]) -> None:
        """Run each step, and wait until both have sent it. A step is SQL: one string is one transaction, or one
        statement each where the string holds ``BEGIN``; a list's strings follow without waiting."""
        for step in steps:
            for statement in [step] if isinstance(step, str) else step:
                self.connection.execute(statement)  # type: ignore[call-overload]
            self.catch_up()

    def catch_up(self) -> None:
        """Wait until both have sent everything."""
        self._sent += 1
        if "c" in self.options.get("skipped.operations", ""):  # an insert would not show
            self.connection.execute(f"INSERT INTO {SENTINEL} VALUES (1) ON CONFLICT DO NOTHING")
            self.connection.execute(f"UPDATE {SENTINEL} SET id = id")
        else:
            self.connection.execute(f"INSERT INTO {SENTINEL} SELECT coalesce(max(id), 0) + 1 FROM {SENTINEL}")
        for side in (self.theirs, self.mine):
            until(f"{side.base} has come to the end", lambda side=side: self._arrived_alive(side))
            side.read()

    def _arrived_alive(self, side: Side) -> bool:
        if not self.arrived(side):
            side.check()
            return False
        return True

    def arrived(self, side: Side) -> bool:
        """Whether a side has sent everything that came before the last `catch_up`."""
        return side.sentinels() >= self._sent

    def records(self, side: Side, but_headers: Collection[str] = ()) -> Records:
        """A side's records, masked, under the names that ours have, without some headers."""
        ours = self.mine.base

        def renamed(data: bytes | None) -> bytes | None:
            return None if data is None else data.replace(side.base.encode(), ours.encode())

        left_out = {_RUN_ID, AS_OF, *but_headers}
        records: Records = {}
        for (topic, partition), found in side.records.items():
            records[topic.replace(side.base, ours), partition] = [
                (
                    renamed(masked(key, self.registry())),
                    renamed(masked(value, self.registry())),
                    [(name, renamed(text)) for name, text in headers if name not in left_out],
                )
                for key, value, headers in (found[:1] if HEARTBEAT.search(topic) else found)
            ]
        return records

    def registry(self) -> str | None:
        """The registry's Confluent API when the converters are Avro's."""
        url = self.options.get("value.converter.apicurio.registry.url")
        return url and url.replace("/apis/registry/v2", "/apis/ccompat/v7")

    def counts(self, side: Side) -> dict[str, int]:
        """Numbers of records by topic, under the names that ours have."""
        side.read()
        found: dict[str, int] = defaultdict(int)
        for (topic, _), records in side.records.items():
            name = topic.replace(side.base, self.mine.base)
            found[name] += 1 if HEARTBEAT.search(topic) else len(records)
        return {
            name: min(count, 1) if HEARTBEAT.search(name) else count for name, count in found.items() if count
        }

    def compare(self, but_headers: Collection[str] = ()) -> Records:
        """Every record of every topic is the same; returns ours.

        Args:
            but_headers: those that need not be the same.

        Raises:
            AssertionError: the first difference of each topic.
        """
        deadline = time.monotonic() + 5
        while (mine := self.counts(self.mine)) != (theirs := self.counts(self.theirs)):
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if mine != theirs:
            self.theirs.check()
            self.mine.check()
        found = [f"number of records: {mine} is not {theirs}"] if mine != theirs else []
        my_records, their_records = (self.records(side, but_headers) for side in (self.mine, self.theirs))
        for place in sorted(my_records.keys() | their_records.keys()):
            found += _differences(place, my_records.get(place, []), their_records.get(place, []))
        assert not found, "\n".join(found)
        return my_records

    def topic_settings(self) -> None:
        """Topics have the same partitions and settings."""
        theirs, mine = (_settings(side) for side in (self.theirs, self.mine))
        renamed = {name.replace(self.theirs.base, self.mine.base): value for name, value in theirs.items()}
        assert mine == renamed

    def close(self) -> None:
        """End both connectors."""
        try:
            for side in (self.theirs, self.mine):
                side.delete()
            slots = [self.theirs.base, self.mine.base]
            busy = "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name = ANY(%s)"
            until(
                "both have let go of their slots",
                lambda: self.connection.execute(busy, [slots]).fetchone() == (0,),
            )
        finally:
            self.connection.close()


def _settings(side: Side) -> dict[str, Any]:
    """Partitions and the settings that a topic has of its own."""
    topics = side.topics()
    admin = AdminClient({"bootstrap.servers": side.bootstrap})
    futures = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in topics])
    own = {
        resource.name: {entry.name: entry.value for entry in future.result().values() if not entry.is_default}
        for resource, future in futures.items()
    }
    return {name: (count, own[name]) for name, count in topics.items()}


def _differences(place: tuple[str, int], mine: list[Record], theirs: list[Record]) -> list[str]:
    """The first difference of a topic's partition, in words that fit on a screen."""
    for number, (my_record, their_record) in enumerate(zip(mine, theirs, strict=False)):
        for what, my_part, their_part in zip(
            ("key", "value", "headers"), my_record, their_record, strict=True
        ):
            if my_part != their_part:
                return [f"{place[0]} record {number} {what}{_window(my_part, their_part)}"]
    if len(mine) != len(theirs):
        return [f"{place[0]}: {len(mine)} records, not {len(theirs)}"]
    return []


def _window(mine: Any, theirs: Any) -> str:
    if not isinstance(mine, bytes) or not isinstance(theirs, bytes):
        return f": {_short(mine)} is not {_short(theirs)}"
    pairs = enumerate(zip(mine, theirs, strict=False))
    start = next((i for i, (a, b) in pairs if a != b), min(len(mine), len(theirs)))
    window = slice(max(0, start - 80), start + 120)
    return f" at {start}:\n  mine   {mine[window]!r}\n  theirs {theirs[window]!r}"


def _short(part: Any) -> str:
    text = repr(part)
    return text if len(text) < 400 else f"{text[:200]} ... {text[-200:]}"
