"""The contract of source connectors, kept by query sources: on SQLite, in each mode that has a position."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tidings_capture.query.connector import ConfluentJdbcSource, JdbcSource
from tidings_connect.testing.contract import Case, SourceContract
from tidings_connect.testing.divided_contract import DividedCase, DividedContract

MODES = {
    "counted": {"mode": "incrementing"},
    "timestamp": {"mode": "timestamp", "timestamp.column.name": "changed"},
    "both": {
        "mode": "timestamp+incrementing",
        "incrementing.column.name": "number",
        "timestamp.column.name": "changed",
    },
    "query": {
        "mode": "incrementing",
        "incrementing.column.name": "number",
        "query": "SELECT * FROM things WHERE name <> '%s'",
    },
}


class TestQuerySource(SourceContract):
    @pytest.fixture(params=MODES)
    def case(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
        file = tmp_path / "source.db"
        first = datetime(2026, 1, 1, tzinfo=UTC)
        with closing(sqlite3.connect(file, isolation_level=None)) as source:
            source.execute(
                "CREATE TABLE things (number INTEGER PRIMARY KEY, name TEXT NOT NULL, changed TIMESTAMP NOT NULL)"
            )

            def produce(count: int) -> None:
                ((before,),) = source.execute("SELECT count(*) FROM things")
                for number in range(before + 1, before + count + 1):
                    moment = (first + timedelta(seconds=number)).strftime("%Y-%m-%d %H:%M:%S")
                    source.execute("INSERT INTO things VALUES (?, ?, ?)", (number, "thing", moment))

            topic = "source-" if request.param == "query" else "source-things"
            yield Case(
                connector=ConfluentJdbcSource() if request.param == "both" else JdbcSource(),
                config={
                    "connection.url": f"jdbc:sqlite:{file}",
                    "topic.prefix": "source-",
                    "poll.interval.ms": "20",
                    "batch.max.rows": "2",
                    **MODES[request.param],
                },
                produce=produce,
                numbers=lambda worker: [value["number"] for value in worker.values(topic)],
                changed={"batch.max.rows": "1"},
                wrong=("mode", "sometimes"),
            )


class TestSeveralTables(DividedContract):
    """A table for each of three tasks."""

    @pytest.fixture
    def case(self, tmp_path: Path) -> Iterator[DividedCase]:
        file = tmp_path / "source.db"
        tables = ["a", "b", "c"]
        with closing(sqlite3.connect(file, isolation_level=None)) as source:
            for table in tables:
                source.execute(f"CREATE TABLE {table} (number INTEGER PRIMARY KEY)")
            highest = 0

            def produce(count: int) -> None:
                nonlocal highest
                for number in range(highest + 1, highest + count + 1):
                    source.execute(f"INSERT INTO {tables[number % 3]} VALUES (?)", (number,))
                highest += count

            yield DividedCase(
                connector=JdbcSource(),
                config={
                    "connection.url": f"jdbc:sqlite:{file}",
                    "topic.prefix": "source-",
                    "table.whitelist": ",".join(tables),
                    "poll.interval.ms": "20",
                    "mode": "incrementing",
                    "incrementing.column.name": "number",
                },
                produce=produce,
                numbers=lambda worker: [
                    value["number"] for table in tables for value in worker.values(f"source-{table}")
                ],
            )
