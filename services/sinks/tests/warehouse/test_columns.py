"""Batches that are written column by column leave what the same batches leave that are written record by record."""

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from warehouse_parts import ask

from tidings_connect.task.sink import SinkContext, SinkRecord, TopicPartition
from tidings_envelope.schema import ConnectSchema, ConnectType, Field
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.warehouse import task as module
from tidings_sinks.warehouse.settings import read_settings
from tidings_sinks.warehouse.task import WarehouseTask

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
    return ConnectSchema(ConnectType.STRUCT, fields=fields, optional=optional)


KEY = {
    1: ConnectSchema(ConnectType.STRUCT, fields=(Field("id", ConnectSchema(ConnectType.INT32)),)),
    2: ConnectSchema(
        ConnectType.STRUCT,
        fields=tuple(Field(name, ConnectSchema(ConnectType.STRING)) for name in ("id", "part")),
    ),
}
TEXT = ConnectSchema(ConnectType.STRING)
SOURCE = ConnectSchema(ConnectType.STRUCT, fields=(Field("table", TEXT),))


def enveloped(row: ConnectSchema) -> ConnectSchema:
    fields = (("before", row), ("after", row), ("source", SOURCE), ("op", TEXT))
    return ConnectSchema(ConnectType.STRUCT, fields=tuple(Field(*each) for each in fields))


def spoil(chance: random.Random, row: dict[str, Any], key: dict[str, Any], name: str) -> None:
    if chance.random() < 0.5:
        row[name] = object()
    else:
        key["id"] = None


def stream(chance: random.Random, count: int, *, envelopes: bool, deletes: bool) -> list[SinkRecord]:
    """Rows of few keys: written again, deleted, with new columns, and some that cannot be rows."""
    parts = chance.choice([1, 2])
    names = chance.sample(list(KINDS), 4)
    bad, unsent = chance.random() < 0.4, chance.random() < 0.4
    found = []
    row_schema = struct(names, optional=True)
    value_schema = enveloped(row_schema) if envelopes else row_schema
    for offset in range(count):
        number = chance.randrange(6)
        key: Any = {"id": number} if parts == 1 else {"id": f"{number}", "part": f"{number % 3}"}
        row = {name: None if chance.random() < 0.15 else KINDS[name][1](chance) for name in names}
        what = chance.random()
        if what < 0.015 and len(names) < len(KINDS):
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


def written(file: Path, config: dict[str, str], batches: list[list[SinkRecord]]) -> tuple[Any, list[int]]:
    """What is in the table in the end, and which records were refused."""
    refused: list[int] = []
    given = {
        "connection.url": f"jdbc:duckdb:{file}",
        "schema.evolution": "basic",
        "batch.size": "1000",
        **config,
    }
    task = WarehouseTask(
        read_settings("sink", given), SinkContext("sink", 0, lambda record, _: refused.append(record.offset))
    )
    task.open([AT])
    for batch in batches:
        task.put(batch)
        task.flush({AT: batch[-1].offset + 1})
    task.stop()
    columns = ask(file, "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'shop_public_orders' ORDER BY ALL")  # fmt: skip
    selected = ", ".join(f'"{name}"' for name, _ in columns)
    return (columns, ask(file, f"SELECT {selected} FROM shop_public_orders ORDER BY ALL")), sorted(refused)


class Ways:
    """Counts the batches that are written column by column."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch, self._by_columns = monkeypatch, module.by_columns
        self.taken: list[bool] = []
        monkeypatch.setattr(module, "by_columns", self._counted)

    def by_records(self) -> None:
        """From now on all are written record by record."""
        self._monkeypatch.setattr(module, "by_columns", lambda *_: None)

    def _counted(self, *given: Any) -> Any:
        found = self._by_columns(*given)
        self.taken.append(found is not None)
        return found


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_write_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    mode = chance.choice(["upsert"] * 4 + ["insert", "update"])
    key_mode = "none" if mode == "insert" and chance.random() < 0.5 else "record_key"
    deletes = key_mode == "record_key" and chance.random() < 0.7
    config = {"insert.mode": mode, "primary.key.mode": key_mode, "delete.enabled": str(deletes).lower()}
    records = stream(chance, 90, envelopes=chance.random() < 0.5, deletes=deletes)
    size = chance.choice([8, 20, 45])
    batches = [records[first : first + size] for first in range(0, len(records), size)]
    ways = Ways(monkeypatch)
    found = written(tmp_path / "columns.duckdb", config, batches)
    ways.by_records()
    assert found == written(tmp_path / "records.duckdb", config, batches), (config, size)
    print(f"{sum(ways.taken)} of {len(ways.taken)} batches by columns")


@pytest.mark.parametrize("envelopes", [True, False])
def test_rows_and_deletes_of_one_schema_are_written_by_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, envelopes: bool
) -> None:
    row = struct(["n", "list"], optional=True)
    schema_of_value = enveloped(row) if envelopes else row

    def record(offset: int, number: int, n: int | None) -> SinkRecord:
        value: Any = None if n is None else {"n": n, "list": ["x"]}
        if envelopes and n is not None:
            value = {"before": None, "after": value, "source": {"table": "orders"}, "op": "u"}
        of_value = None if value is None else schema_of_value
        return SinkRecord(AT.topic, 0, KEY[1], {"id": number}, of_value, value, None, [], offset, AT)

    changes = [(1, 1), (2, 1), (2, None), (3, 1), (1, 2), (3, None), (3, 3), (4, None)]
    ways = Ways(monkeypatch)
    config = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}
    records = [record(offset, *change) for offset, change in enumerate(changes)]
    (_, rows), refused = written(tmp_path / "one.duckdb", config, [records])
    assert (ways.taken, refused) == ([True], [])
    assert sorted((found[0], found[2]) for found in rows) == [(1, 2), (3, 3)]
