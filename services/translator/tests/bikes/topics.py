"""Writes a history to technical topics as capture and Debezium do, and reads the business topics back."""

import io
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import fastavro
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bikes.history import KEYS, Change, Transaction
from tidings_stack.kafka import arrived

Record = tuple[str, bytes | None, bytes | None]
T = TypeVar("T")


def row_record(prefix: str, transaction: Transaction, change: Change, order: int, table_order: int) -> Record:
    schema, table = change.table.split(".")
    lsn = transaction.end_lsn - len(transaction.changes) - 1 + order
    last = None if transaction.last_commit_lsn is None else str(transaction.last_commit_lsn)
    value = {
        "before": change.before,
        "after": change.after,
        "source": {
            "version": "3.7.0.Final",
            "connector": "postgresql",
            "name": prefix,
            "ts_ms": transaction.ts_us // 1000,
            "snapshot": "false",
            "db": "bikes",
            "sequence": json.dumps([last, str(lsn)]),
            "ts_us": transaction.ts_us,
            "ts_ns": transaction.ts_us * 1000,
            "schema": schema,
            "table": table,
            "txId": transaction.txid,
            "lsn": lsn,
            "xmin": None,
        },
        "transaction": {
            "id": f"{transaction.txid}:{lsn}",
            "total_order": order,
            "data_collection_order": table_order,
        },
        "op": change.op,
        "ts_ms": transaction.ts_us // 1000 + 5,
        "ts_us": transaction.ts_us + 5000,
        "ts_ns": transaction.ts_us * 1000 + 5_000_000,
    }
    return f"{prefix}.{change.table}", _json(change.key), _json(value)


def snapshot_record(prefix: str, table: str, row: dict[str, Any], *, lsn: int) -> Record:
    schema, name = table.split(".")
    value = {
        "before": None,
        "after": row,
        "source": {
            "name": prefix,
            "db": "bikes",
            "ts_ms": 1_760_000_000_000,
            "snapshot": "true",
            "sequence": json.dumps([None, str(lsn)]),
            "schema": schema,
            "table": name,
            "txId": 600,
            "lsn": lsn,
        },
        "transaction": None,
        "op": "r",
    }
    return f"{prefix}.{table}", _json({k: row[k] for k in KEYS[table]}), _json(value)


def records_of(prefix: str, transaction: Transaction) -> list[Record]:
    """BEGIN, the rows with their tombstones, END."""
    begin_id = f"{transaction.txid}:{transaction.end_lsn - len(transaction.changes) - 20}"
    end_id = f"{transaction.txid}:{transaction.end_lsn}"
    counts: dict[str, int] = defaultdict(int)
    records = [_marker(prefix, "BEGIN", begin_id, transaction)]
    for order, change in enumerate(transaction.changes, 1):
        counts[change.table] += 1
        records.append(row_record(prefix, transaction, change, order, counts[change.table]))
        if change.op == "d":
            records.append((f"{prefix}.{change.table}", _json(change.key), None))
    return [*records, _marker(prefix, "END", end_id, transaction, counts)]


def _marker(
    prefix: str, status: str, id_: str, transaction: Transaction, counts: dict[str, int] | None = None
) -> Record:
    value = {
        "status": status,
        "id": id_,
        "event_count": None if counts is None else len(transaction.changes),
        "data_collections": None
        if counts is None
        else [{"data_collection": table, "event_count": count} for table, count in counts.items()],
        "ts_ms": transaction.ts_us // 1000,
    }
    return f"{prefix}.transaction", _json({"id": id_}), _json(value)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def with_repeats(records: list[T], seed: int, *, every: int) -> list[T]:
    """What a capture that crashes about every so many records leaves: the tail before each crash once more."""
    chance = random.Random(seed)
    out: list[T] = []
    for index, record in enumerate(records):
        out.append(record)
        if chance.random() < 1 / every:
            out += records[max(0, index - chance.randint(0, 60)) : index + 1]
    return out


class TechnicalTopics:
    """Produces records so that partitions run ahead of each other: windows of records, partition by partition."""

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        seed: int = 0,
        *,
        partitions: int = 3,
        window: int = 40,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self._random = random.Random(seed)
        self._window = window
        self._partitions = partitions
        self.prefix = prefix
        self.bootstrap = bootstrap
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True}
        )
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(f"{prefix}.transaction", 1, 1)]
        topics += [NewTopic(f"{prefix}.{table}", partitions, 1) for table in set(KEYS) - without]
        for future in admin.create_topics(topics).values():
            future.result()

    def write(self, records: list[Record]) -> None:
        for start in range(0, len(records), self._window):
            groups: dict[tuple[str, int], list[Record]] = defaultdict(list)
            for record in records[start : start + self._window]:
                groups[record[0], self.partition_of(record)].append(record)
            order = list(groups)
            self._random.shuffle(order)
            for topic, partition in order:
                for _, key, value in groups[topic, partition]:
                    self._producer.produce(topic, value, key, partition)
                self._producer.poll(0)
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    def partition_of(self, record: Record) -> int:
        if record[0].endswith(".transaction"):
            return 0
        return sum(record[1] or b"") % self._partitions


@dataclass(frozen=True)
class Published:
    """A business event as a consumer sees it."""

    topic: str
    key: str
    event_id: str
    payload: dict[str, Any]
    headers: dict[str, bytes]


def read_committed(bootstrap: str, topics: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """(topic, message) for everything that a read_committed consumer sees up to now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        known = consumer.list_topics(timeout=10).topics
        places = [
            TopicPartition(topic, partition, OFFSET_BEGINNING)
            for topic in topics
            if topic in known
            for partition in known[topic].partitions
        ]
        if not places:
            return
        consumer.assign(places)
        open_places = {(p.topic, p.partition) for p in places}
        while open_places:
            for message in arrived(consumer, 1.0):
                error = message.error()
                if error is None:
                    yield message.topic(), message
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    open_places.discard((message.topic(), message.partition()))
    finally:
        consumer.close()


def read_events(bootstrap: str, contracts: dict[str, Any]) -> list[Published]:
    """The business events of the topics in `contracts` (topic to parsed Avro schema)."""
    events = []
    for topic, message in read_committed(bootstrap, contracts):
        headers = dict(message.headers())
        payload = fastavro.schemaless_reader(io.BytesIO(message.value()[5:]), contracts[topic], None)
        events.append(
            Published(topic, message.key().decode(), headers["ce_id"].decode(), dict(payload), headers)
        )
    return events
