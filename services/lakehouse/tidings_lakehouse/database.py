"""PostgreSQL, as the lakehouse's readers need it: the catalog's database, and the source that the audit compares with.

The only module of the lakehouse that imports psycopg.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, LiteralString
from urllib.parse import parse_qsl, unquote, urlsplit

import psycopg
from psycopg import sql

from tidings_lakehouse.errors import DatabaseError

_CONNECT_SECONDS = 10
_JDBC_OPTIONS = {"sslmode": "sslmode", "user": "user", "password": "password", "sslrootcert": "sslrootcert"}
"""Options of PostgreSQL's JDBC driver that libpq has, too, by the name that it has there."""

Connection = psycopg.Connection[Any]
Statement = LiteralString | sql.SQL


def of_jdbc(uri: str, user: str | None, password: str | None) -> dict[str, Any]:
    """Connection parameters of a JDBC URI, ``jdbc:postgresql://host:port/database?options``."""
    parts = urlsplit(uri.removeprefix("jdbc:"))
    found: dict[str, Any] = {
        "host": parts.hostname,
        "port": parts.port,
        "dbname": unquote(parts.path.lstrip("/")) or None,
        "user": user,
        "password": password,
    }
    found |= {_JDBC_OPTIONS[key]: value for key, value in parse_qsl(parts.query) if key in _JDBC_OPTIONS}
    return {key: value for key, value in found.items() if value is not None}


@contextmanager
def connected(setting: str, conninfo: str = "", **parameters: Any) -> Iterator[Connection]:
    """A connection for reading that commits by itself.

    Args:
        setting: the variable that names the database, for messages.
        conninfo: libpq's connection string or URL.

    Raises:
        DatabaseError: the database does not answer or refuses a statement; holds no value of a row.
    """
    try:
        with psycopg.connect(
            conninfo,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            application_name="tidings-lakehouse",
            **parameters,
        ) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # of a transaction block
            yield connection
    except psycopg.Error as error:
        # A message of the server's may hold a value; its first line names a table or a column at most.
        state = f" ({error.sqlstate})" if error.sqlstate else ""
        raise DatabaseError(
            f"{setting}: {str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}{state}",
            hint="see that the database is there, and that the user may read",
        ) from error


def rows(connection: Connection, statement: Statement, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """What a statement gives."""
    return list(connection.execute(statement, values).fetchall())


def hold(connection: Connection, table: str) -> None:
    """See that nobody alters a table until the transaction block ends. Who may read some of its columns alone may not ask for that.

    Args:
        table: as a statement names it.
    """
    with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
        connection.execute(sql_text(f"LOCK TABLE {table} IN ACCESS SHARE MODE"))


def identifier(name: str) -> str:
    """A name as a statement of PostgreSQL's has it."""
    return sql.Identifier(name).as_string()


def literal(value: object) -> str:
    """A value as a statement of PostgreSQL's has it."""
    return sql.Literal(value).as_string()


def sql_text(statement: str) -> sql.SQL:
    """A statement that was put together from quoted names and literals."""
    return sql.SQL(statement.replace("%", "%%"))
