"""What the database held at one commit position, and whether the lake shows the same as of it.

PostgreSQL makes the two agree: a slot that exports a snapshot has a consistent point, and the snapshot sees what was committed
before it and nothing else. So nothing here relies on how Tidings orders changes.
"""

import random
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg

from lakehouselab.store import Store
from tidings_envelope.position import lsn_from_text
from tidings_lakehouse.history.history_sql import DUCKDB, SPARK
from tidings_lakehouse.reading.duck import duck_lake
from tidings_lakehouse.reading.moments import SourceTables
from tidings_lakehouse.settings import LakehouseSettings

_UTC = "-c timezone=UTC"
_IS_WHOLE = "SELECT relfilenode = pg_relation_filenode(oid) FROM pg_class WHERE oid = %s::regclass"
Rows = set[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Moment:
    """The rows of some tables as of the last commit at or before a position."""

    position: int
    """A WAL position in bytes, as the lake is asked for it."""
    rows: dict[str, Rows]


def take_moment(store: Store, tables: Iterable[str]) -> Moment:
    """What these tables hold now, and the position of that. It waits for the transactions that are open.

    A table that is truncated meanwhile is left out.

    Raises:
        psycopg.OperationalError: the server is away, or took too long.
    """
    name = f"moment_{secrets.token_hex(4)}".encode()
    with (
        psycopg.connect(store.url, replication="database", autocommit=True) as walsender,
        psycopg.connect(store.url, options=_UTC) as reader,
    ):
        made = walsender.pgconn.exec_(
            b"CREATE_REPLICATION_SLOT " + name + b" TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
        )
        point, snapshot = made.get_value(0, 1), made.get_value(0, 2)
        if point is None or snapshot is None:
            raise psycopg.OperationalError(f"no slot for a moment: {made.error_message.decode()}")
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute(f"SET TRANSACTION SNAPSHOT '{snapshot.decode()}'")
        rows = {}
        for table in tables:
            found = set(reader.execute(f"SELECT {store.past(table)} FROM {table}").fetchall())
            # TRUNCATE is seen by snapshots from before it, too: then the catalog, which is not, has another file.
            if reader.execute(_IS_WHOLE, (table,)).fetchone() == (True,):
                rows[table] = found
    # A commit record at the consistent point itself is not in the snapshot.
    return Moment(lsn_from_text(point.decode()) - 1, rows)


def differences(
    settings: LakehouseSettings,
    columns: Callable[[str], str],
    moments: Iterable[Moment],
    ask_spark: Callable[[str], list[tuple[Any, ...]]],
    chance: random.Random,
) -> list[str]:
    """Where the lake shows other rows as of a moment, by DuckDB for all tables and by Spark for one.

    Args:
        columns: what is compared of a table, in SQL of both.
    """
    found = []
    with duck_lake(settings) as lake:
        source = SourceTables(lake, settings.source)
        for one in moments:
            moment = source.moment(str(one.position))
            by_spark = chance.choice(sorted(one.rows)) if one.rows else None
            for table, rows in one.rows.items():
                name, select = f"technical.{table}", f"SELECT {columns(table)}"
                answers: dict[str, list[tuple[Any, ...]]] = {}
                if name not in source.tables:
                    answers["the lake, without such a table,"] = []
                else:
                    answers["DuckDB"] = lake.execute(
                        f"{select} FROM ({source.statement(name, moment, DUCKDB)})"
                    )
                    if table == by_spark:
                        answers["Spark"] = ask_spark(
                            f"{select} FROM ({source.statement(name, moment, SPARK)})"
                        )
                found += [
                    f"as of {one.position} {reader} has {len(answer)} rows of {table} and not {len(rows)}:"
                    f" {apart(rows, set(map(tuple, answer)))}"
                    for reader, answer in answers.items()
                    if sorted(map(tuple, answer), key=repr) != sorted(rows, key=repr)
                ]
    return found


def apart(rows: Rows, held: Rows) -> str:
    """How what the lake holds differs from the rows of the database."""
    lacking, extra = sorted(rows - held, key=repr), sorted(held - rows, key=repr)
    return f"{len(lacking)} rows are missing, such as {lacking[:2]}, and {len(extra)} too much, such as {extra[:2]}"
