"""The contract of source connectors, kept by query sources: on SQLite, in each mode that has a position."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from tidings_capture.query.connector import ConfluentJdbcSource, JdbcSource
from tidings_connect.testing.contract import Case, SourceContract

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
    def case(self, request, tmp_path) -> Iterator[Case]:
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
