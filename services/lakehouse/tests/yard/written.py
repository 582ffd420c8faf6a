"""A history of the yard's tables on topics, as a connector writes it, and what the live service makes of the same records."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakelab.schemas import binlog_envelope_schema, envelope_schema
from lakelab.topics import MarkerTopic

from tidings_domain.aggregate.rows import time_columns
from tidings_domain.loading.domain import Domain
from tidings_envelope.commit_number import commit_position
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.gtid import Gtid
from tidings_envelope.headers.left_out import HEADER as LEFT_OUT
from tidings_envelope.registry import RegistryClient
from tidings_translator.base.records import Output, Partition
from tidings_translator.generations.from_lake import history as written_history
from tidings_translator.generations.from_replay.directory import Event, Remembered, ReplayDirectory, State
from tidings_translator.sequencer.assembly.progress import Progress
from yard import rental
from yard.history import FIELDS, End, TableRecord, qualified
from yard.live import Begun, Live, Record

if TYPE_CHECKING:
    from lakelab.topics import Topics

_FIRST = 11
"""The number of the first transaction behind the snapshot."""
_OF_THE_SECOND = range(40, 90)
"""Numbers of MariaDB's that a second server gives; the first one is promoted again behind them."""
_SERVER = "94e446b5-e927-11f1-9ee7-02fc00000001"
_MILLIS = ["null", {"type": "long", "connect.name": "io.debezium.time.Timestamp", "connect.version": 1}]


class Yard:
    """The topics of a history, and the same records in lists, as PostgreSQL's connector writes them."""

    connector = "postgresql"

    def __init__(self, topics: Topics, source: str) -> None:
        self.topics, self.source = topics, source
        self.markers = MarkerTopic(topics, source)
        self.records: dict[Partition, list[Record]] = defaultdict(list)
        self.records[Partition(self.markers.topic, 0)] = []
        self.ids = {}
        self.keys = rental.all_keys()
        for table, fields in {**FIELDS, **rental.FIELDS}.items():
            topic = f"{source}.{qualified(table)}"
            topics.create(topic, 2)
            own = [field for field in fields if field["name"] in self.keys[table]]
            key = {"type": "record", "name": "Key", "namespace": topic, "fields": own}
            self.ids[table] = (
                topics.register(f"{topic}-key", key),
                topics.register(f"{topic}-value", self._envelope(topic, fields)),
            )
            for number in range(2):
                self.records[Partition(topic, number)] = []

    def write(self, records: list[TableRecord | End]) -> None:
        for one in records:
            if isinstance(one, End):
                self._end(one)
            else:
                self._told(one)
        self.topics.flush()

    def _put(self, partition: Partition, record: Record) -> None:
        self.records[partition].append(record)
        key, value, headers = record
        self.topics.produce(partition.topic, key, value, headers, partition.partition)

    def _end(self, end: End) -> None:
        filtered = (
            dict(end.counts) if end.tx_id % 5 == 0 else {}
        )  # as many again were left out by a transform
        counts = [
            {"data_collection": table, "event_count": count + filtered.get(table, 0)}
            for table, count in end.counts.items()
        ]
        value = {
            "status": "END",
            "id": self._id(end.tx_id, end.commit),
            "ts_ms": 1,
            "event_count": sum(one["event_count"] for one in counts),
            "data_collections": counts or None,
        }
        headers = self._headers(end.tx_id)
        if filtered:
            headers.append((LEFT_OUT, json.dumps({"filtered": filtered}).encode()))
        encoded = self.topics.encode(self.markers.value_id, value)
        self._put(Partition(self.markers.topic, 0), (None, encoded, headers))

    def _told(self, told: TableRecord) -> None:
        key_id, value_id = self.ids[told.table]
        row = told.after if told.after is not None else told.before
        key = (
            None
            if row is None
            else self.topics.encode(key_id, {name: row[name] for name in self.keys[told.table]})
        )
        is_read = told.tx_id is None
        value = {
            "before": told.before,
            "after": told.after,
            "source": self._source(told),
            "transaction": None
            if is_read
            else {
                "id": self._id(told.tx_id, told.lsn),
                "total_order": told.order,
                "data_collection_order": 1,
            },
            "op": told.op,
            "ts_ms": told.ts_us // 1000,
        }
        headers = self._headers(told.tx_id)
        if told.traceparent is not None:
            headers.append(("traceparent", told.traceparent))
        partition = Partition(f"{self.source}.{qualified(told.table)}", sum(key or b"") % 2)
        self._put(partition, (key, self.topics.encode(value_id, value), headers))
        if told.op == "d":
            self._put(partition, (key, None, []))

    def _envelope(self, topic: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
        return envelope_schema(topic, fields)

    def _id(self, tx_id: int | None, lsn: int) -> str:
        return f"{tx_id}:{lsn}"

    def _headers(self, tx_id: int | None) -> list[tuple[str, bytes]]:
        return []

    def _common(self, told: TableRecord) -> dict[str, Any]:
        """What the source blocks of all databases have, but for `db`."""
        return {
            "version": "3.7.0.Final",
            "connector": self.connector,
            "name": self.source,
            "ts_ms": told.ts_us // 1000,
            "ts_us": told.ts_us,
            "snapshot": told.snapshot,
            "table": qualified(told.table).partition(".")[2],
        }

    def _source(self, told: TableRecord) -> dict[str, Any]:
        last = None if told.last_commit is None else str(told.last_commit)
        return {
            **self._common(told),
            "db": "yard",
            "schema": qualified(told.table).partition(".")[0],
            "sequence": json.dumps([last, str(told.lsn)]),
            "txId": told.tx_id,
            "lsn": None if told.snapshot == "incremental" else told.lsn,
        }

    def live(self, registry: str, chance: random.Random, domain: Domain) -> list[Output]:
        """What the live service publishes: it reads the topics of the domain's tables."""
        return self._live(self.records, registry, chance, domain)

    def from_lake(
        self, directory: Path, registry: str, chance: random.Random, domain: Domain
    ) -> list[Output]:
        """What a generation publishes that reads what ``tidings-lakehouse history`` has written."""
        lake = written_history.Lake(directory, self.source, time_columns(domain.aggregates.values()))
        records = {
            one: [
                (record.key, record.value, list(record.headers))
                for record in (lake.open(one, 0).next(1 << 30) if one in lake.spans else ())
            ]
            for one in self.records
        }
        return self._live(records, registry, chance, domain)

    def from_replay(
        self, directory: Path, registry: str, chance: random.Random, domain: Domain
    ) -> list[Output]:
        """What a generation says that begins with what ``tidings-lakehouse replay --generation`` has written, and reads the topics
        behind it."""
        begun, told = self.begun(directory, domain)
        return told + self._live(self.records, registry, chance, domain, begun)

    def begun(self, directory: Path, domain: Domain) -> tuple[Begun, list[Output]]:
        """What such a generation begins with, and the events that are told by then."""
        found = ReplayDirectory(directory, self.source, domain)
        lines = [one for number in range(len(found.files)) for one in found.lines(number, 0)]
        memory = [one for one in lines if isinstance(one, Remembered)]
        assert len({one.key for one in memory}) == len(memory), "two shares remember one row"
        states = {one.key: one.value for one in lines if isinstance(one, State)}
        told = [Output(one.topic, one.key, one.body, one.headers) for one in lines if isinstance(one, Event)]
        remembered = {one.key: one.value for one in memory}
        return Begun(remembered, found.progress(), states, found.needed), told

    def sequencer_before(
        self, begun: Begun, registry: str, chance: random.Random, domain: Domain
    ) -> tuple[Progress, dict[bytes, bytes]]:
        """How far a sequencer is that has read what such a generation does not read, and what it remembers of rows."""
        read = {one: found[: begun.next_offsets.get(one, 0)] for one, found in self.records.items()}
        live = self._service(read, registry, domain)
        live.events(chance)
        return live.progress, live.remembered()

    def _live(
        self,
        records: dict[Partition, list[Record]],
        registry: str,
        chance: random.Random,
        domain: Domain,
        begun: Begun | None = None,
    ) -> list[Output]:
        return self._service(records, registry, domain, begun).events(chance)

    def _service(
        self,
        records: dict[Partition, list[Record]],
        registry: str,
        domain: Domain,
        begun: Begun | None = None,
    ) -> Live:
        decoder = EnvelopeDecoder(RegistryClient(registry), times=time_columns(domain.aggregates.values()))
        tables: dict[str, str | None] = {f"{self.source}.{name}": name for name in domain.tables}
        tables[self.markers.topic] = None
        records = {one: found for one, found in records.items() if one.topic in tables}
        return Live(domain, decoder, records, tables, begun)


class BinlogYard(Yard):
    """The same of MariaDB or MySQL: transactions have ids of their own, and a snapshot's rows say as of which they were read.

    Moments are milliseconds, where PostgreSQL's are microseconds, and those with a zone have six digits.
    """

    def __init__(self, topics: Topics, source: str, connector: str) -> None:
        self.connector = connector
        self._numbers: dict[int, int] = {}
        """Of transactions, by their ids in the history."""
        super().__init__(topics, source)

    def number(self, tx_id: int) -> int:
        """Of a transaction: a sequence number, or that of MySQL's commits."""
        return self._numbers.setdefault(tx_id, _FIRST + len(self._numbers))

    def position(self, tx_id: int) -> int:
        """Where a transaction was committed."""
        return self._position(self.number(tx_id))

    def _position(self, number: int) -> int:
        return commit_position(number) if self.connector == "mysql" else Gtid(0, 1, number).commit_position

    def _told(self, told: TableRecord) -> None:
        rows = {"before": _of_binlog(told.before), "after": _of_binlog(told.after)}
        super()._told(replace(told, **rows))

    def _envelope(self, topic: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
        own = [{**field, "type": _MILLIS} if field["name"] == "made_at" else field for field in fields]
        return binlog_envelope_schema(topic, own, self.connector)

    def _gtid(self, number: int) -> str:
        if self.connector == "mysql":
            return f"{_SERVER}:{number}"
        return f"0-{2 if number in _OF_THE_SECOND else 1}-{number}"

    def _id(self, tx_id: int | None, lsn: int) -> str:
        assert tx_id is not None
        return self._gtid(self.number(tx_id))

    def _headers(self, tx_id: int | None) -> list[tuple[str, bytes]]:
        if tx_id is None:
            return [("tidings.as.of", b"%d" % self._position(_FIRST - 1))]
        return [("tidings.commit", b"%d" % self.number(tx_id))] if self.connector == "mysql" else []

    def _source(self, told: TableRecord) -> dict[str, Any]:
        return {
            **self._common(told),
            "db": qualified(told.table).partition(".")[0],
            "server_id": 1,
            "gtid": None if told.tx_id is None else self._gtid(self.number(told.tx_id)),
            "file": "binlog.000001",
            "pos": told.lsn,
            "row": 0,
        }


def _of_binlog(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    found = dict(row)
    if found.get("made_at") is not None:
        found["made_at"] //= 1000
    for name in ("deleted_at", "returned_at"):
        if found.get(name) is not None:
            whole, _, part = found[name].removesuffix("Z").partition(".")
            found[name] = f"{whole}.{part:0<6}Z"
    return found
