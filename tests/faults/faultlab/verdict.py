"""Whether topics hold a history: nothing missing, nothing invented, nothing out of order.

At least once means more than that everything is there somewhere. Each partition's records, read in order, are the history
from its first event on, except that they may at any time go back to an earlier event and go on from there; so no consumer
ever sees a change before all those that precede it, and the last record is the history's last. Exactly once: they never
go back.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from faultlab.history import TABLES, Event, Transaction, added_columns
from faultlab.omissions import HEADER, NONE, Omissions
from tidings_stack.kafka import arrived

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Read:
    """A record as a consumer gets it."""

    offset: int
    key: Any
    value: Any
    left_out: Any = None
    """Of an END marker: what it says that has not come out."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The slot and then the topics, at some time in between."""

    confirmed_lsn: int
    ends: dict[Place, int]


@dataclass
class Verdict:
    """What was compared, and everything that is wrong."""

    events: int = 0
    records: int = 0
    repeated: int = 0
    snapshot_rows: int = 0
    snapshot_repeated: int = 0
    """Rows of snapshots that came again; also exactly once where a table takes longer than a transaction may."""
    problems: list[str] = field(default_factory=list)

    def blame(self, text: str) -> None:
        if len(self.problems) < 12:
            self.problems.append(text)


def read_topics(
    bootstrap: str, prefix: str, decode: Callable[[bytes], Any] = json.loads
) -> dict[Place, list[Read]]:
    """All committed records of a connector's topics, in each partition's order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "verdict",
            "log_level": 0,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "isolation.level": "read_committed",
        }
    )
    try:
        topics = consumer.list_topics(timeout=60).topics
        waiting = {
            (t, p) for t, found in topics.items() if t.startswith(f"{prefix}.") for p in found.partitions
        }
        records: dict[Place, list[Read]] = {place: [] for place in sorted(waiting)}
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in sorted(waiting)])
        deadline = time.monotonic() + 120
        while waiting:
            assert time.monotonic() < deadline, f"{sorted(waiting)} cannot be read to the end"
            for message in arrived(consumer, 0.1):
                place = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        waiting.discard(place)
                    continue
                key, value = message.key(), message.value()
                records[place].append(
                    Read(
                        int(message.offset() or 0),
                        None if key is None else decode(key),
                        None if value is None else decode(value),
                        next((json.loads(v) for k, v in message.headers() or () if k == HEADER), None),
                    )
                )
        return records
    finally:
        consumer.close()


class Ends:
    """Looks at where topics end, through one consumer."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer = self._made()

    def _made(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "verdict",
                "log_level": 0,
                "isolation.level": "read_committed",
            }
        )

    def of(self, prefix: str, tables: Iterable[str] = TABLES) -> dict[Place, int]:
        """The offset after the last committed record, of every partition of a connector's topics; nothing while no broker
        answers."""
        consumer = self._consumer
        names = [f"{prefix}.transaction", *(f"{prefix}.public.{table}" for table in tables)]
        try:
            topics = consumer.list_topics(timeout=5).topics
            return {
                (name, partition): consumer.get_watermark_offsets(TopicPartition(name, partition), timeout=5)[
                    1
                ]
                for name in names
                if name in topics
                for partition in topics[name].partitions
            }
        except KafkaException:
            # A broker that was restarted has other leader epochs than this client knows, for minutes.
            consumer.close()
            self._consumer = self._made()
            return {}

    def close(self) -> None:
        self._consumer.close()


def judge(
    prefix: str,
    history: list[Transaction],
    records: dict[Place, list[Read]],
    rows: dict[str, dict[int, int]],
    moments: Iterable[Moment] = (),
    *,
    exactly_once: bool = False,
    from_lsn: int = 0,
    omissions: Omissions = NONE,
) -> Verdict:
    """Compare.

    Args:
        rows: the tables at the end.
        from_lsn: transactions that end here or before are in a snapshot instead.
        omissions: what the history was read with.
    """
    verdict = Verdict()
    streamed = [t for t in history if t.end_lsn > from_lsn]
    moments = list(moments)
    for table in TABLES:
        told = [event for transaction in streamed for event in transaction.events if event.table == table]
        expected = [event for event in told if not event.left_out]
        verdict.events += len(expected)
        topic = f"{prefix}.public.{table}"
        parts = {place: found for place, found in records.items() if place[0] == topic}
        _judge_events(verdict, topic, expected, parts, moments, exactly_once)
        _judge_rows_read(verdict, expected, parts)
        spoiled = {key for event in told for key in event.spoils}
        there = {key: v for key, v in rows[table].items() if not omissions.by_transform(key)}
        _judge_state(verdict, topic, parts, there, spoiled)
    _judge_markers(verdict, prefix, streamed, records, moments, exactly_once)
    return verdict


def _judge_events(
    verdict: Verdict,
    topic: str,
    expected: list[Event],
    parts: dict[Place, list[Read]],
    moments: list[Moment],
    exactly_once: bool,
) -> None:
    wanted = {(event.txid, event.total_order): event for event in expected}
    seen: dict[Place, list[tuple[Hashable, int]]] = defaultdict(list)
    told: set[int] = set()
    for place, found in parts.items():
        live: dict[int, bool] = {}
        for number, record in enumerate(found):
            if record.value is None:
                before = found[number - 1] if number else None
                if before is None or before.key != record.key or (before.value or {}).get("op") != "d":
                    verdict.blame(f"{place} offset {record.offset}: a tombstone without a delete before it")
                continue
            verdict.records += 1
            if record.value["op"] == "r":
                verdict.snapshot_rows += 1
                verdict.snapshot_repeated += record.key["id"] in told
                told.add(record.key["id"])
                live[record.key["id"]] = True
                continue
            if (
                record.value["source"]["snapshot"] == "incremental"
            ):  # found gone, and its delete was on its way
                if live.get(record.key["id"]):
                    verdict.blame(f"{place} offset {record.offset}: a row that is there was found gone")
                live[record.key["id"]] = False
                continue
            live[record.key["id"]] = record.value["after"] is not None
            identity = _identity(record)
            event = wanted.get(identity)
            if event is None:
                verdict.blame(f"{place} offset {record.offset}: {identity} is in no history")
                continue
            after = record.value["after"]
            got = (record.value["op"], record.key["id"], None if after is None else after["v"])
            order = record.value["transaction"]["data_collection_order"]
            if got != (event.op, event.key, event.version) or order != event.table_order:
                verdict.blame(f"{place} offset {record.offset}: {got} at {order}, but it was {event}")
            added = added_columns(after)
            if added != event.added:
                verdict.blame(f"{place} offset {record.offset}: {added} came and went, but it was {event}")
            if event.op == "d" and (number + 1 == len(found) or found[number + 1].value is not None):
                # An interruption between the two is mended by sending both again.
                later = any(_identity(r) == identity for r in found[number + 1 :] if r.value is not None)
                if not later:
                    verdict.blame(f"{place} offset {record.offset}: the delete's tombstone is missing")
            seen[place].append((identity, record.offset))
    order = [((event.txid, event.total_order), event.end_lsn) for event in expected]
    _judge_order(verdict, topic, order, seen, moments, exactly_once)


def _judge_rows_read(verdict: Verdict, expected: list[Event], parts: dict[Place, list[Read]]) -> None:
    """A row that a snapshot read is never older than what the topic has told of its key."""
    deleted: dict[tuple[str, int], int] = {}
    """What the row was like that an event deletes."""
    now: dict[int, int] = {}
    for event in expected:
        if event.version is None:
            deleted[event.txid, event.total_order] = now.pop(event.key, 0)
        else:
            now[event.key] = event.version
    for place, found in parts.items():
        newest: dict[int, int] = {}
        gone: dict[int, int] = {}
        for record in found:
            if record.value is None:
                continue
            key, after = record.key["id"], record.value["after"]
            if after is None:
                gone[key] = max(gone.get(key, -1), deleted.get(_identity(record), -1))
                continue
            if record.value["op"] == "r" and (
                after["v"] < newest.get(key, 0) or after["v"] <= gone.get(key, -1)
            ):
                verdict.blame(f"{place} offset {record.offset}: a row is older than what was told before it")
            newest[key] = max(newest.get(key, 0), after["v"])


def _identity(record: Read) -> tuple[str, int]:
    transaction = record.value.get("transaction") or {"id": "none", "total_order": 0}
    return transaction["id"].partition(":")[0], transaction["total_order"]


def _judge_markers(
    verdict: Verdict,
    prefix: str,
    history: list[Transaction],
    records: dict[Place, list[Read]],
    moments: list[Moment],
    exactly_once: bool,
) -> None:
    topic = f"{prefix}.transaction"
    wanted = {transaction.txid: transaction for transaction in history}
    seen: dict[Place, list[tuple[Hashable, int]]] = defaultdict(list)
    for place, found in records.items():
        if place[0] != topic:
            continue
        for record in found:
            txid, status = record.value["id"].partition(":")[0], record.value["status"]
            transaction = wanted.get(txid)
            if transaction is None:
                verdict.blame(f"{place} offset {record.offset}: {status} of {txid}, which is in no history")
                continue
            if not transaction.events:
                continue  # of signals
            if status == "END":
                counts = {
                    f"public.{t}": n
                    for t in TABLES
                    if (n := sum(event.table == t for event in transaction.events))
                }
                said = {c["data_collection"]: c["event_count"] for c in record.value["data_collections"]}
                if record.value["event_count"] != len(transaction.events) or said != counts:
                    verdict.blame(
                        f"{place} offset {record.offset}: END of {txid} says {said}, it was {counts}"
                    )
                if record.left_out != (omitted := _left_out(transaction)):
                    verdict.blame(
                        f"{place} offset {record.offset}: END of {txid} says that {record.left_out} was left out,"
                        f" it was {omitted}"
                    )
            seen[place].append(((txid, status), record.offset))
    order = [((t.txid, status), t.end_lsn) for t in history if t.events for status in ("BEGIN", "END")]
    _judge_order(verdict, topic, order, seen, moments, exactly_once)


def _left_out(transaction: Transaction) -> dict[str, dict[str, int]] | None:
    """What the END marker has to say."""
    found = {
        kind: dict(counts)
        for kind in ("filtered", "failed")
        if (counts := Counter(f"public.{e.table}" for e in transaction.events if e.left_out == kind))
    }
    return found or None


def _judge_order(
    verdict: Verdict,
    topic: str,
    expected: list[tuple[tuple[str, Any], int]],
    seen: dict[Place, list[tuple[Hashable, int]]],
    moments: list[Moment],
    exactly_once: bool,
) -> None:
    home: dict[Hashable, Place] = {}
    first: dict[Hashable, int] = {}
    for place, found in seen.items():
        for identity, offset in found:
            if home.setdefault(identity, place) != place:
                verdict.blame(f"{topic}: {identity} is in two partitions")
            first.setdefault(identity, offset)
    lost = [identity for identity, _ in expected if identity not in home]
    if lost:
        verdict.blame(f"{topic}: {len(lost)} of {len(expected)} are lost, the first is {lost[0]}")
    for place, found in seen.items():
        own = [identity for identity, _ in expected if home.get(identity) == place]
        numbers = {identity: number for number, identity in enumerate(own)}
        last = furthest = -1
        for identity, offset in found:
            number = numbers.get(identity, -2)
            if number > last + 1:
                what = (
                    "before all that precedes it"
                    if number > furthest + 1
                    else "late, by a task that was over"
                )
                verdict.blame(f"{place} offset {offset}: {identity} came {what} ({last}, then {number})")
            if number <= last:
                verdict.repeated += last - number + 1
                if exactly_once:
                    verdict.blame(f"{place} offset {offset}: {identity} came again")
            last, furthest = number, max(furthest, number)
        if own and last != len(own) - 1:
            verdict.blame(f"{place} ends with an event that is not the last: {last + 1} of {len(own)}")
    for moment in moments:
        for identity, end_lsn in expected:
            if end_lsn > moment.confirmed_lsn or identity not in home:
                continue
            if first[identity] >= moment.ends.get(home[identity], 0):
                verdict.blame(
                    f"{home[identity]}: {identity} was not there while the slot was confirmed past it"
                    f" ({end_lsn} <= {moment.confirmed_lsn})"
                )
                break


def _judge_state(
    verdict: Verdict, topic: str, parts: dict[Place, list[Read]], rows: dict[int, int], spoiled: set[int]
) -> None:
    """A consumer that keeps the last record of every key has the table."""
    state: dict[int, int] = {}
    for found in parts.values():
        for record in found:
            if record.value is not None and record.value["after"] is not None:
                state[record.key["id"]] = record.value["after"]["v"]
            else:
                state.pop(record.key["id"], None)
    if state != rows:
        keys = (state.keys() | rows.keys()) - spoiled
        wrong = [key for key in keys if state.get(key) != rows.get(key)]
        if wrong:
            verdict.blame(f"{topic}: {len(wrong)} rows are not the table's, for example key {wrong[0]}")
