"""Rows into DuckDB: our sink's task beside DuckDB's own bulk statement on Parquet that is there already.

Both upsert the same rows by key into an empty table, and then again, in batches of 50,000: ours gets decoded records, and makes keys,
types, Parquet and positions of them; DuckDB is given the finished files and runs the same
MERGE; and once makes them of the rows with Arrow's own call before.

`python -m tests.bench.sink.warehouse [ROWS]`
"""

import gc
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
from pyarrow import parquet
from tests.bench.sink.search import KEY_SCHEMA, ROW_SCHEMA, refused, rows

from tidings_connect.task.sink import SinkContext, SinkRecord, TopicPartition
from tidings_connect.task.sink.connector import GC_THRESHOLD
from tidings_sinks.warehouse.settings import read_settings
from tidings_sinks.warehouse.task import WarehouseTask

BATCH: Final = 50_000
POLL: Final = 500
ROUNDS: Final = 3


def records(found: list[dict[str, Any]], first_offset: int) -> list[SinkRecord]:
    at = TopicPartition("t", 0)
    return [
        SinkRecord("t", 0, KEY_SCHEMA, {"id": row["id"]}, ROW_SCHEMA, row, None, [], first_offset + place, at)
        for place, row in enumerate(found)
    ]


def ours(file: Path, given: list[SinkRecord]) -> None:
    config = {
        "connection.url": f"jdbc:duckdb:{file}", "insert.mode": "upsert", "pk.mode": "record_key", "schema.evolution": "basic",
        "batch.size": str(BATCH),
    }  # fmt: skip
    task = WarehouseTask(read_settings("bench", config), SinkContext("bench", 0, refused))
    task.open([TopicPartition("t", 0)])
    for first in range(0, len(given), POLL):
        task.put(given[first : first + POLL])
    task.flush({TopicPartition("t", 0): given[-1].offset + 1})
    task.stop()


def staged(directory: Path, found: list[dict[str, Any]]) -> list[Path]:
    schema = pa.schema(
        [
            ("id", pa.int64()), ("customer", pa.string()), ("quantity", pa.int32()), ("amount", pa.decimal128(38, 2)),
            ("placed_at", pa.timestamp("us")), ("day", pa.date32()), ("ratio", pa.float64()), ("yes", pa.bool_()),
            ("note", pa.string()), ("status", pa.string()),
        ]
    )  # fmt: skip
    files = []
    for first in range(0, len(found), BATCH):
        files.append(directory / f"{first}.parquet")
        parquet.write_table(pa.Table.from_pylist(found[first : first + BATCH], schema), files[-1])
    return files


def theirs(file: Path, files: list[Path]) -> None:
    with duckdb.connect(str(file), config={"threads": 2}) as connection:
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS t AS SELECT * FROM read_parquet('{files[0]}') LIMIT 0"
        )
        for each in files:
            connection.execute(
                f"MERGE INTO t USING read_parquet('{each}') AS s USING (id) WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
            )


def measured(act: Callable[[], None]) -> tuple[float, float]:
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return time.perf_counter() - wall, time.process_time() - cpu


def run(count: int) -> None:
    """Print what both do with so many rows; in turns, the fastest round counts."""
    gc.set_threshold(*GC_THRESHOLD)  # as `SinkConnector.run_task` does; for all sides
    found = rows(count)
    once, again = records(found, 0), records(found, count)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        files = staged(directory, found)
        best: dict[str, list[tuple[float, float]]] = {}
        for number in range(ROUNDS):
            sides: tuple[tuple[str, Callable[[], None]], ...] = (
                ("ours, new rows", lambda at=number: ours(directory / f"o{at}.duckdb", once)),  # type: ignore[misc]
                ("ours, changed rows", lambda at=number: ours(directory / f"o{at}.duckdb", again)),  # type: ignore[misc]
                (
                    "DuckDB's MERGE with Parquet made of the rows by Arrow, new rows",
                    lambda at=number: theirs(directory / f"p{at}.duckdb", staged(directory, found)),
                ),  # type: ignore[misc]
                ("DuckDB's MERGE, new rows", lambda at=number: theirs(directory / f"d{at}.duckdb", files)),  # type: ignore[misc]
                (
                    "DuckDB's MERGE, changed rows",
                    lambda at=number: theirs(directory / f"d{at}.duckdb", files),
                ),  # type: ignore[misc]
            )
            for side, act in sides:
                best.setdefault(side, []).append(measured(act))
    for side, taken in best.items():
        wall, cpu = min(taken)
        print(f"{side}: {count / wall:,.0f} rows/s, {count / cpu:,.0f} rows per CPU second")
    print(
        f"peak memory of the whole process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB"
    )


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
