"""Synthetic topics, as capture and the translator write them."""

from __future__ import annotations

import io
import json
import secrets
import struct
import time
import urllib.request
from http.client import RemoteDisconnected
from typing import Any

import fastavro
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lakelab.schemas import ORDERS, envelope_schema, key_schema, marker_schema
from tidings_stack.registry import set_compatibility
from tidings_stack.waiting import wait_for


class Topics:
    """Writes records to real topics; every value's schema is registered as the converters do."""

    def __init__(self, bootstrap: str, registry: str) -> None:
        self.bootstrap, self.registry = bootstrap, registry
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.parsed: dict[int, Any] = {}
        self.timestamp_ms = 0
        """Of the records that are written next, since the Unix epoch; 0: now."""

    def create(self, topic: str, partitions: int = 1) -> None:
        for future in self.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(20)

    def delete(self, topic: str) -> None:
        for future in self.admin.delete_topics([topic]).values():
            future.result(20)

    def recreate(self, topic: str) -> None:
        """Make a deleted topic again, as soon as the broker is done with the old one."""
        deadline = time.monotonic() + 30
        while True:
            try:
                return self.create(topic)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise
                self.admin.poll(0.1)

    def table(
        self, topic: str, fields: list[dict[str, Any]] | None = None, partitions: int = 1
    ) -> TableTopic:
        return TableTopic(self, topic, fields, partitions)

    def transactional(self) -> Producer:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": secrets.token_hex(4)})
        producer.init_transactions(20)
        return producer

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        request = urllib.request.Request(
            f"{self.registry}/subjects/{subject}/versions",
            json.dumps({"schema": json.dumps(schema)}).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )

        def ask() -> int | None:
            try:
                with urllib.request.urlopen(request, timeout=20) as response:
                    return int(json.load(response)["id"])
            except RemoteDisconnected:  # a busy registry has closed the connection without an answer
                return None

        schema_id: int = wait_for("the registry's answer", ask)
        self.parsed[schema_id] = fastavro.parse_schema(schema)
        return schema_id

    def allow_any(self, subject: str) -> None:
        """Have the registry take any schema from now on."""
        set_compatibility(self.registry, "NONE", subject)

    def encode(self, schema_id: int, value: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, self.parsed[schema_id], value)
        return struct.pack(">bI", 0, schema_id) + buffer.getvalue()

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Any = None, partition: int = 0
    ) -> None:
        self.producer.produce(
            topic, key=key, value=value, headers=headers, partition=partition, timestamp=self.timestamp_ms
        )
        self.producer.poll(0)

    def flush(self) -> None:
        assert self.producer.flush(20) == 0


class TableTopic:
    """One technical topic: `insert`, `update`, `delete`, `snapshot` with explicit positions."""

    def __init__(
        self, topics: Topics, topic: str, fields: list[dict[str, Any]] | None = None, partitions: int = 1
    ) -> None:
        self.topics, self.topic = topics, topic
        self.table = f"technical.{topic.rpartition('.')[2]}"
        self.transaction: tuple[int, int] | None = None
        """Id and `total_order` of what is written next, where a transaction has more than one change."""
        topics.create(topic, partitions)
        self.use(ORDERS if fields is None else fields)

    def use(self, fields: list[dict[str, Any]], comment: str | None = None) -> None:
        """Write with these fields, and the table's comment, from now on."""
        self.fields = fields
        schema = envelope_schema(self.topic, fields)
        if comment is not None:
            schema["fields"][0]["type"][1]["connect.doc"] = comment
        self.value_id = self.topics.register(f"{self.topic}-value", schema)
        self.key_id = self.topics.register(f"{self.topic}-key", key_schema(self.topic, fields))

    def change(
        self,
        op: str,
        row: dict[str, Any],
        commit: int | None,
        lsn: int,
        *,
        snapshot: str = "false",
        before: dict[str, Any] | None = None,
        partition: int = 0,
    ) -> None:
        key, value = self.encoded(row, commit, lsn, op=op, snapshot=snapshot, before=before)
        self.topics.produce(self.topic, key, value, partition=partition)
        if op == "d":
            self.topics.produce(self.topic, key, None, partition=partition)

    def read_again(self, row: dict[str, Any], commit: int | None, lsn: int, *, partition: int = 0) -> None:
        """A row of an incremental snapshot: it has no LSN, but the stream's place in its sequence."""
        self.change("r", row, commit, lsn, snapshot="incremental", partition=partition)

    def found_gone(self, row: dict[str, Any], commit: int | None, lsn: int, *, partition: int = 0) -> None:
        """The delete of a row that an incremental snapshot found gone: no transaction tells of it."""
        self.change("d", row, commit, lsn, snapshot="incremental", partition=partition)

    def truncate(self, commit: int, lsn: int, *, partition: int = 0) -> None:
        value = {**self._envelope("t", commit, lsn, "false"), "before": None, "after": None}
        self.topics.produce(self.topic, None, self.topics.encode(self.value_id, value), partition=partition)

    def encoded(
        self,
        row: dict[str, Any],
        commit: int | None,
        lsn: int,
        *,
        op: str = "c",
        snapshot: str = "false",
        before: dict[str, Any] | None = None,
    ) -> tuple[bytes, bytes]:
        """Key and value of a change."""
        rows = {"before": row if op == "d" else before, "after": None if op == "d" else row}
        key = self.topics.encode(self.key_id, {name: row[name] for name in [self.fields[0]["name"]]})
        return key, self.topics.encode(self.value_id, {**self._envelope(op, commit, lsn, snapshot), **rows})

    def _envelope(self, op: str, commit: int | None, lsn: int, snapshot: str) -> dict[str, Any]:
        tx_id, total_order = self.transaction or (lsn, 1)
        return {
            "source": {
                "version": "3.7.0.Final",
                "connector": "postgresql",
                "name": "shop",
                "ts_ms": 1_700_000_000_000 + lsn,
                "snapshot": snapshot,
                "db": "shop",
                "sequence": json.dumps([None if commit is None else str(commit), str(lsn)]),
                "ts_us": (1_700_000_000_000 + lsn) * 1000,
                "ts_ns": None,
                "schema": "public",
                "table": "orders",
                "txId": None if snapshot == "incremental" else tx_id,
                "lsn": None if snapshot == "incremental" else lsn,
                "xmin": None,
            },
            "transaction": None
            if op == "r" or snapshot == "incremental"
            else {"id": f"{tx_id}:{lsn}", "total_order": total_order, "data_collection_order": 1},
            "op": op,
            "ts_ms": 1,
            "ts_us": 1,
            "ts_ns": 1,
        }


class MarkerTopic:
    """The transaction topic of a source."""

    def __init__(self, topics: Topics, source: str) -> None:
        self.topics, self.topic = topics, f"{source}.transaction"
        topics.create(self.topic)
        self.value_id = topics.register(f"{self.topic}-value", marker_schema())

    def mariadb(self, *gtids: str) -> None:
        """Ends of transactions of a MariaDB, with an event of a table that nobody reads."""
        for gtid in gtids:
            value = {"status": "END", "id": gtid, "ts_ms": 1, "event_count": 1, "data_collections": None}
            self.topics.produce(self.topic, None, self.topics.encode(self.value_id, value))

    def end(self, tx_id: int, commit_lsn: int, left_out: Any = None, **events: int) -> None:
        """BEGIN and END of a transaction with events of tables of schema public, some of which capture has left out."""
        counts = [{"data_collection": f"public.{name}", "event_count": n} for name, n in events.items()]
        for status, lsn, total in (
            ("BEGIN", commit_lsn - 1, None),
            ("END", commit_lsn, sum(events.values())),
        ):
            value = {
                "status": status,
                "id": f"{tx_id}:{lsn}",
                "ts_ms": 1,
                "event_count": total,
                "data_collections": counts if counts and status == "END" else None,
            }
            headers = [("tidings.left.out", json.dumps(left_out).encode())] if left_out and counts else None
            self.topics.produce(self.topic, None, self.topics.encode(self.value_id, value), headers)
