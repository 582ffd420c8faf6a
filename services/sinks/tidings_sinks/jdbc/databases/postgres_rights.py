"""What a sink's user may not do in PostgreSQL, and what the server itself does not."""

from collections.abc import Iterator, Sequence
from typing import Final

from tidings_connect.diagnosis import Diagnosis
from tidings_sinks.jdbc.database import TableName
from tidings_sinks.jdbc.databases.postgres import PostgresDatabase, quoted
from tidings_sinks.jdbc.settings import InsertMode, Settings

_OLDEST: Final = 120000
_UNIQUE: Final = """
SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
 WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid"""
_FAIL: Final = "the connector's tasks fail"


def postgres_rights(
    database: object, settings: Settings, tables: Sequence[TableName], missing: Sequence[TableName]
) -> Iterator[Diagnosis]:
    """What is wrong.

    Args:
        tables: those that are written and are there.
        missing: those that the sink would make.
    """
    assert isinstance(database, PostgresDatabase)
    ((version, standby, read_only, user),) = database.ask(
        "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),"
        " current_setting('default_transaction_read_only') = 'on', quote_ident(current_user)"
    )
    if version < _OLDEST:
        yield Diagnosis(
            "server-old", f"the server is PostgreSQL {version // 10000}: {_OLDEST // 10000} is the oldest that is written to", _FAIL, "upgrade it"
        )  # fmt: skip
    if standby or read_only:
        why = "a standby" if standby else "read-only (default_transaction_read_only)"
        yield Diagnosis(
            "read-only", f"the server is {why}", "nothing is written: partitions rest",
            "connection.url of the primary (targetServerType=primary), or a server that takes writes",
        )  # fmt: skip
    yield from _positions(database, settings, str(user))
    for table in tables:
        yield from _table(database, settings, table, str(user))
    for schema in sorted({table.schema or "" for table in missing}):
        yield from _schema(database, schema, str(user), "tables")


def _positions(database: PostgresDatabase, settings: Settings, user: str) -> Iterator[Diagnosis]:
    schema, _, name = settings.positions.rpartition(".")
    table = TableName(schema or None, name)
    if database.columns(table):
        yield from _lacking(database, table, ["SELECT", "INSERT", "UPDATE"], user)
    else:
        yield from _schema(database, schema, user, f"the table of positions ({settings.positions})")


def _schema(database: PostgresDatabase, schema: str, user: str, what: str) -> Iterator[Diagnosis]:
    """Whether tables can be made in a schema; an empty name: where the database looks first."""
    ((name, there),) = database.ask(
        "SELECT coalesce(nullif(%s, ''), current_schema()), to_regnamespace(quote_ident(coalesce(nullif(%s, ''), current_schema()))) IS NOT NULL",
        (schema, schema),
    )
    if name is None or not there:
        yield Diagnosis(
            "no-schema", f"there is no schema {name or 'in the search_path'} for {what}", _FAIL,
            f"CREATE SCHEMA {name or '...'} AUTHORIZATION {user}",
        )  # fmt: skip
        return
    ((allowed,),) = database.ask("SELECT has_schema_privilege(%s, 'CREATE')", (name,))
    if not allowed:
        yield Diagnosis(
            "no-right", f"the user may not make {what} in schema {name}", _FAIL,
            f"GRANT CREATE ON SCHEMA {name} TO {user}; or create them beforehand (docs/sinks.md)",
        )  # fmt: skip


def _table(
    database: PostgresDatabase, settings: Settings, table: TableName, user: str
) -> Iterator[Diagnosis]:
    wanted = ["SELECT", "INSERT", "UPDATE"]
    wanted += ["DELETE"] * settings.deletes + ["TRUNCATE"] * settings.truncates
    yield from _lacking(database, table, wanted, user)
    ((owns,),) = database.ask(
        "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%s)", (quoted(table),)
    )
    if settings.adds_columns and not owns:
        yield Diagnosis(
            "not-owner", f"the user does not own table {table}, and {settings.words.adds_columns} is set",
            "a new column ends the connector's tasks", f"ALTER TABLE {quoted(table)} OWNER TO {user}",
        )  # fmt: skip
    keys = {
        database.column_name(field, database.columns(table), quotes=settings.quotes)
        for field in settings.key_fields
    }
    if keys and settings.insert_mode is InsertMode.UPSERT:
        unique = [set(columns) for (columns,) in database.ask(_UNIQUE, (quoted(table),))]
        if keys not in unique:
            names = ", ".join(sorted(keys))
            yield Diagnosis(
                "no-key", f"table {table} has no primary key or unique index on {names}", "an upsert is refused",
                f"CREATE UNIQUE INDEX ON {quoted(table)} ({names})",
            )  # fmt: skip


def _lacking(
    database: PostgresDatabase, table: TableName, wanted: Sequence[str], user: str
) -> Iterator[Diagnosis]:
    lacking = [
        each
        for each in wanted
        if not database.ask("SELECT has_table_privilege(%s, %s)", (quoted(table), each))[0][0]
    ]
    if lacking:
        yield Diagnosis(
            "no-right", f"the user lacks {', '.join(lacking)} on {table}", _FAIL,
            f"GRANT {', '.join(lacking)} ON {quoted(table)} TO {user}",
        )  # fmt: skip
