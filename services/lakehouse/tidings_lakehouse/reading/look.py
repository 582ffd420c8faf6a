"""`tidings-lakehouse sql` and `tables` by DuckDB."""

from __future__ import annotations

import json

from tidings_lakehouse.errors import QueryError
from tidings_lakehouse.history.history_sql import DUCKDB
from tidings_lakehouse.reading.civil import moment_text
from tidings_lakehouse.reading.corrected import CORRECTED, corrected_queries
from tidings_lakehouse.reading.duck import DuckLake, duck_lake
from tidings_lakehouse.reading.moments import SourceTables
from tidings_lakehouse.reading.rows import Rows
from tidings_lakehouse.settings import HistorySettings, WarehouseSettings
from tidings_lakehouse.topics import HISTORY, SET_ASIDE_TABLE, TOPICS, log_of


def select(settings: WarehouseSettings, statement: str) -> Rows:
    """Run a statement that only reads.

    Raises:
        QueryError: it does more, or DuckDB refuses it.
    """
    with duck_lake(settings) as lake:
        return lake.answer(statement)


def select_as_of(settings: HistorySettings, statement: str, moment: str | None) -> Rows:
    """The same, with histories and with events as they were corrected, and with the tables as of a moment when there is one.

    Raises:
        MomentError: the moment is not complete in all tables.
    """
    with duck_lake(settings) as lake:
        named = lake.named(statement)
        corrected = corrected_queries(named, lake.tables, DUCKDB)
        for name in corrected:
            lake.view(name.removesuffix(CORRECTED))
        if moment is None:
            if not any(name.endswith(HISTORY) and name not in lake.tables for name in named):
                return lake.answer(statement, corrected)
            return lake.answer(statement, SourceTables(lake, settings.source).histories(named) | corrected)
        source = SourceTables(lake, settings.source)
        return lake.answer(statement, source.as_of(source.moment(moment), named) | corrected)


def list_tables(settings: WarehouseSettings) -> Rows:
    """Every table with its number of rows, null where it cannot be read, and why its topic is set aside, if it is."""
    with duck_lake(settings) as lake:
        troubles = _troubles(lake)
        return Rows(
            ("table", "rows", "set aside"),
            [(name, _count(lake, name), troubles.get(name, "")) for name in sorted(lake.tables)],
            (False, True, False),
        )


def _count(lake: DuckLake, name: str) -> int | None:
    try:
        metadata = json.loads(
            lake.execute("SELECT content FROM read_text(?)", [lake.tables[name].removeprefix("file:")])[0][0]
        )
        current = metadata.get("current-snapshot-id")
        if current in {None, -1}:
            return 0
        summary = next(one["summary"] for one in metadata["snapshots"] if one["snapshot-id"] == current)
        if not int(summary.get("total-delete-files") or 0):
            return int(summary["total-records"])
        # Delete files may name a row more than once, so their sum says nothing.
        return int(lake.execute(f"SELECT count(*) FROM {lake.view(name)}")[0][0])  # noqa: S608 - a table's name
    except (QueryError, KeyError, StopIteration):  # what cannot be read is why the list is looked at
        return None


def _troubles(lake: DuckLake) -> dict[str, str]:
    if SET_ASIDE_TABLE not in lake.tables or TOPICS not in lake.tables:
        return {}
    lake.view(SET_ASIDE_TABLE)
    lake.view(TOPICS)
    found = lake.execute(
        f"SELECT table_name, code, epoch_us(a.since) FROM {SET_ASIDE_TABLE} a"  # noqa: S608
        f" JOIN {TOPICS} t ON t.namespace = a.stream AND t.topic = a.topic"
    )
    return {
        table: f"{code} since {moment_text(since).partition('.')[0]}"
        for name, code, since in found
        for table in (name, log_of(name))
    }
