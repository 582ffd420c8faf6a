"""What the tests of the warehouse sink share: statements on a file of DuckDB, between the turns of those that have it open."""

import time
from pathlib import Path
from typing import Any

import duckdb

from tidings_sinks.warehouse.lock import locked

_DEADLINE_SECONDS = 30.0


def ask(file: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements, and give the last one's rows."""
    until = time.monotonic() + _DEADLINE_SECONDS
    while True:
        try:
            with locked(file), duckdb.connect(str(file)) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                for statement in statements:
                    connection.execute(statement)
                return connection.fetchall()
        except duckdb.IOException:  # another process has it
            if time.monotonic() > until:
                raise
