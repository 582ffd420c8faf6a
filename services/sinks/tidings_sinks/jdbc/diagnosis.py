"""What is wrong with a database that rows would be written to."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tidings_connect.diagnosis import Diagnosis
from tidings_connect.errors import ConnectError
from tidings_sinks.diagnosis import of_error, of_file
from tidings_sinks.jdbc.changes import Changes
from tidings_sinks.jdbc.database import Database, TableName
from tidings_sinks.jdbc.databases.mariadb_rights import mariadb_rights
from tidings_sinks.jdbc.databases.postgres_rights import postgres_rights
from tidings_sinks.jdbc.open_database import open_database
from tidings_sinks.jdbc.settings import Settings

_WHERE: Final = "connection.url, the user and connection.password"


def diagnose(settings: Settings, topics: Sequence[str]) -> Iterator[Diagnosis]:
    """See `SinkConnector.diagnose`."""
    if settings.address.dialect == "sqlite":
        # Whoever opens a file of SQLite that is not there makes it.
        file = Path(settings.address.parameters["file"])
        yield from of_file(file, "connection.url")
        if not file.exists():
            return
    try:
        database = open_database(settings)
    except ConnectError as error:
        yield of_error(error, _WHERE)
        return
    try:
        yield from _of_database(database, settings, topics)
    except ConnectError as error:
        yield of_error(error, _WHERE)
    finally:
        database.close()


def _of_database(database: Database, settings: Settings, topics: Sequence[str]) -> Iterator[Diagnosis]:
    changes = Changes(settings)
    named = {parts for topic in topics if (parts := changes.table_of(topic)) is not None}
    tables = {name: bool(database.columns(name)) for name in (database.name(parts, quotes=settings.quotes) for parts in sorted(named))}  # fmt: skip
    there = [name for name, is_there in tables.items() if is_there]
    missing = [name for name, is_there in tables.items() if not is_there]
    if missing and not settings.makes_tables:
        yield Diagnosis(
            "no-table",
            f"there is no table {', '.join(map(str, missing))}, and {settings.words.makes_tables} is not set",
            "the connector's tasks fail at the first record",
            f"create it, or set {settings.words.makes_tables}",
        )
    yield from _keys(database, settings, there)
    makes = bool(missing or not topics) and settings.makes_tables
    if settings.address.dialect == "postgresql":
        yield from postgres_rights(database, settings, there, missing if makes else [])
    elif settings.address.dialect == "mariadb":
        yield from mariadb_rights(database, settings, there, makes=makes)


def _keys(database: Database, settings: Settings, tables: Sequence[TableName]) -> Iterator[Diagnosis]:
    """Columns of the key that a table lacks, where the configuration names them."""
    for table in tables if settings.key_fields else ():
        known = database.columns(table)
        lacking = [
            field
            for field in settings.key_fields
            if database.column_name(field, known, quotes=settings.quotes) not in known
        ]
        if lacking and not settings.adds_columns:
            yield Diagnosis(
                "no-column",
                f"table {table} has no column {', '.join(lacking)}, which {settings.words.key_fields} names",
                "the connector's tasks fail at the first record",
                f"ALTER TABLE {table} ADD COLUMN ..., or correct {settings.words.key_fields}",
            )
