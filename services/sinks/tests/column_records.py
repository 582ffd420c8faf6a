"""What the tests share of batches that are written column by column: random ones, and which way they take."""

import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from tidings_connect.converters import avro_decoding
from tidings_connect.converters.encoding import AvroConverter
from tidings_connect.data.subscription import Consumed
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.sink import SinkRecord, SinkTask, TopicPartition
from tidings_connect.task.sink import records as runtime
from tidings_connect.task.sink.commit_time import OF_COMMIT
from tidings_connect.testing.memory_registry import MemoryRegistry
from tidings_envelope.schema import ConnectSchema, ConnectType, Field
from tidings_envelope.toast import UNAVAILABLE

AT = TopicPartition("shop.public.orders", 0)
Make = Callable[[random.Random], Any]


def schema(kind: ConnectType, name: str | None = None, **more: Any) -> ConnectSchema:
    return ConnectSchema(kind, name=name, optional=True, **more)


KINDS: dict[str, tuple[ConnectSchema, Make]] = {
    "n": (schema(ConnectType.INT32), lambda chance: chance.randrange(9)),
    "t": (schema(ConnectType.STRING), lambda chance: f"text {chance.randrange(9)}"),
    "amount": (
        schema(ConnectType.BYTES, "org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"}),
        lambda chance: Decimal(chance.randrange(999)).scaleb(-2),
    ),
    "at": (schema(ConnectType.INT64, "io.debezium.time.MicroTimestamp"), lambda chance: chance.randrange(10**15)),
    "zoned": (
        schema(ConnectType.STRING, "io.debezium.time.ZonedTimestamp"),
        lambda chance: f"2026-01-{chance.randrange(10, 29)}T01:02:03.5Z",
    ),
    "bits": (schema(ConnectType.BYTES), lambda chance: chance.randbytes(3)),
    "yes": (schema(ConnectType.BOOLEAN), lambda chance: chance.random() < 0.5),
    "list": (
        schema(ConnectType.ARRAY, items=schema(ConnectType.STRING)),
        lambda chance: [None, "x"][: chance.randrange(3)],
    ),
}  # fmt: skip


def struct(names: list[str], *, optional: bool = False) -> ConnectSchema:
    fields = tuple(Field(name, KINDS[name][0]) for name in names)
    return ConnectSchema(ConnectType.STRUCT, name="t.Row", fields=fields, optional=optional)


KEY = {
    1: ConnectSchema(
        ConnectType.STRUCT, name="t.Key", fields=(Field("id", ConnectSchema(ConnectType.INT32)),)
    ),
    2: ConnectSchema(
        ConnectType.STRUCT,
        name="t.Key",
        fields=tuple(Field(name, ConnectSchema(ConnectType.STRING)) for name in ("id", "part")),
    ),
}
TEXT = ConnectSchema(ConnectType.STRING)
SOURCE = ConnectSchema(ConnectType.STRUCT, name="t.Source", fields=(Field("table", TEXT),))


def enveloped(row: ConnectSchema) -> ConnectSchema:
    fields = (("before", row), ("after", row), ("source", SOURCE), ("op", TEXT))
    return ConnectSchema(ConnectType.STRUCT, name="t.Envelope", fields=tuple(Field(*each) for each in fields))


def spoil(chance: random.Random, row: dict[str, Any], key: dict[str, Any], name: str) -> None:
    if chance.random() < 0.5:
        row[name] = object()
    else:
        key["id"] = None


def stream(
    chance: random.Random,
    count: int,
    *,
    envelopes: bool,
    deletes: bool,
    spoils: bool = True,
    grows: bool = True,
) -> list[SinkRecord]:
    """Rows of few keys: written again, deleted, with new columns, and some that cannot be rows.

    Args:
        spoils: whether some may be what no converter makes.
        grows: whether columns come.
    """
    parts = chance.choice([1, 2])
    names = chance.sample(list(KINDS), 4)
    bad, unsent = spoils and chance.random() < 0.4, chance.random() < 0.4
    found = []
    row_schema = struct(names, optional=True)
    value_schema = enveloped(row_schema) if envelopes else row_schema
    for offset in range(count):
        number = chance.randrange(6)
        key: Any = {"id": number} if parts == 1 else {"id": f"{number}", "part": f"{number % 3}"}
        row = {name: None if chance.random() < 0.15 else KINDS[name][1](chance) for name in names}
        what = chance.random()
        if grows and what < 0.015 and len(names) < len(KINDS):
            names.append(next(name for name in KINDS if name not in names))
            row_schema = struct(names, optional=True)
            value_schema = enveloped(row_schema) if envelopes else row_schema
            row[names[-1]] = None
        elif bad and what < 0.04:
            spoil(chance, row, key, names[0])
        elif unsent and envelopes and what < 0.06 and "t" in row:
            row["t"] = UNAVAILABLE
        value: Any = row
        if envelopes:
            value = {"before": None, "after": row, "source": {"table": "orders"}, "op": chance.choice("cru")}
        schema_of_value: ConnectSchema | None = value_schema
        if deletes and chance.random() < 0.2:
            value = {**value, "op": "d", "after": None} if envelopes and chance.random() < 0.5 else None
            schema_of_value = value_schema if value is not None else None
        found.append(SinkRecord(AT.topic, 0, KEY[parts], key, schema_of_value, value, None, [], offset, AT))
    return found


class AvroTopic:
    """Records as they stand in a topic in Avro, and what a sink's loop gives its task of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        registry: Any = MemoryRegistry()
        nobody: Any = None
        monkeypatch.setattr(
            runtime, "make_converter", lambda _, is_key: AvroConverter(registry, is_key=is_key)
        )
        monkeypatch.setattr(avro_decoding, "_FEWEST", 1)
        self._key, self._value = (AvroConverter(registry, is_key=is_key) for is_key in (True, False))
        job = TaskJob(
            connector="sink", task=0, config={}, converters={}, client={}, producer={}, consumer={}, admin={},
            offset_topic="", offset_flush_ms=1000, topic_creation=False,
        )  # fmt: skip
        self._records = runtime.Records(job, nobody, nobody)
        self.taken: list[bool] = []

    def put(self, task: SinkTask, batch: list[SinkRecord]) -> None:
        """Offer a batch as columns, and give what is not taken as records."""
        read = [self._consumed(record) for record in batch]
        reads = None if task.reads is None else task.reads | OF_COMMIT
        columns = self._records.columns(read, reads)
        self.taken.append(columns is not None and task.put_columns(columns))
        if not self.taken[-1]:
            made = self._records.made(read, reads)
            task.put([record for record in made if isinstance(record, SinkRecord)])

    def read_again(self, read: Sequence[Consumed]) -> list[SinkRecord]:
        """See `SinkContext.read_again`."""
        return [record for record in self._records.made(read) if isinstance(record, SinkRecord)]

    def _consumed(self, record: SinkRecord) -> Consumed:
        assert record.key_schema is not None
        key = self._key.encoder(record.topic, record.key_schema)(record.key)
        value = None
        if record.value_schema is not None:
            value = self._value.encoder(record.topic, record.value_schema)(record.value)
        headers = [(header.key, header.encoded) for header in record.headers]
        return Consumed(*record.original, record.offset, key, value, headers, record.timestamp)


class Ways:
    """Counts the batches that a task's module writes column by column."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
        self._module, self._monkeypatch, self._by_columns = module, monkeypatch, module.by_columns
        self.taken: list[bool] = []
        monkeypatch.setattr(module, "by_columns", self._counted)

    def by_records(self) -> None:
        """From now on all are written record by record."""
        self._monkeypatch.setattr(self._module, "by_columns", lambda *_, **__: None)

    def _counted(self, *given: Any, **more: Any) -> Any:
        found = self._by_columns(*given, **more)
        self.taken.append(found is not None)
        return found
