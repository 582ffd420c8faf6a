"""Batches that are written column by column leave what the same batches leave that are written record by record."""

import random
from pathlib import Path
from typing import Any

import pytest
from column_records import AT, KEY, Ways, enveloped, stream, struct
from warehouse_parts import ask

from tidings_connect.task.sink import SinkContext, SinkRecord
from tidings_sinks.warehouse import task as module
from tidings_sinks.warehouse.settings import read_settings
from tidings_sinks.warehouse.task import WarehouseTask


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
    ways = Ways(monkeypatch, module)
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
    ways = Ways(monkeypatch, module)
    config = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}
    records = [record(offset, *change) for offset, change in enumerate(changes)]
    (_, rows), refused = written(tmp_path / "one.duckdb", config, [records])
    assert (ways.taken, refused) == ([True], [])
    assert sorted((found[0], found[2]) for found in rows) == [(1, 2), (3, 3)]
