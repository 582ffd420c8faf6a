"""MariaDB's statements, and MySQL's. Pure."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tidings_sinks.jdbc.database import Column, Mode, NewColumn, TableName, Write
from tidings_sinks.jdbc.databases.mariadb_servers import Server
from tidings_sinks.jdbc.databases.mariadb_values import type_of


class Statement(NamedTuple):
    """A statement for rows."""

    text: str
    order: tuple[int, ...] | None = None
    """Which values of a row it takes; None: all, in their order."""
    many: bool = False
    """Whether it takes many rows at once, in the place of its last parentheses."""


def identifier(name: str) -> str:
    """A quoted name; a percent sign in it is not a parameter."""
    doubled = name.replace("`", "``").replace("%", "%%")
    return f"`{doubled}`"


def quoted(table: TableName) -> str:
    """A table's quoted name."""
    name = identifier(table.name)
    return name if table.schema is None else f"{identifier(table.schema)}.{name}"


def create_table(server: Server, table: TableName, columns: Sequence[NewColumn], keys: int) -> str:
    """CREATE TABLE, with a primary key of the first columns."""
    parts = [definition(server, column, of_key=place < keys) for place, column in enumerate(columns)]
    if keys:
        parts.append(f"PRIMARY KEY ({', '.join(identifier(column.name) for column in columns[:keys])})")
    return (
        f"CREATE TABLE IF NOT EXISTS {quoted(table)} ({', '.join(parts)})"
        f" ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {server.collation}"
    )


def add_columns(server: Server, table: TableName, columns: Sequence[NewColumn]) -> str:
    """ALTER TABLE with new columns."""
    texts = (
        f"ADD COLUMN {server.if_missing}{definition(server, column, of_key=False)}" for column in columns
    )
    return f"ALTER TABLE {quoted(table)} {', '.join(texts)}"


def definition(server: Server, column: NewColumn, *, of_key: bool) -> str:
    """A column of a table that is made."""
    kind = type_of(column.kind, of_key=of_key)
    text = f"{identifier(column.name)} {server.types.get(kind, kind)}"
    if column.default is not None:
        default = _literal(column.default)
        text += f" DEFAULT {f'({default})' if kind in server.by_expression else default}"
    return text + (" NOT NULL" if column.required or of_key else " NULL")


def _literal(value: object) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, bool | int | float):
        return repr(value)
    escaped = str(value).replace("\\", "\\\\").replace("'", "''").replace("%", "%%")
    return f"'{escaped}'"


def create_positions(server: Server, table: str) -> str:
    """CREATE TABLE of the positions, by its quoted name."""
    return (
        f"CREATE TABLE IF NOT EXISTS {table} (consumer_group varchar(255), topic varchar(249), `partition` int,"  # noqa: S608 - quoted
        " next_offset bigint NULL, epoch bigint NOT NULL, changed timestamp NOT NULL DEFAULT current_timestamp()"
        " ON UPDATE current_timestamp(), PRIMARY KEY (consumer_group, topic, `partition`))"
        f" ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {server.collation}"
    )


@lru_cache(maxsize=1000)
def statements(form: Write, *, by_other_keys: bool) -> tuple[Statement, ...]:
    """The SQL of a form.

    Args:
        by_other_keys: the table has another unique key than the form's: ``ON DUPLICATE KEY`` would take a row that
            only has the same value there for the row with the key, and change it.
    """
    table, keys = quoted(form.table), form.keys
    names = [identifier(column.name) for column in form.columns]
    marks = f"({', '.join(['%s'] * len(names))})"
    insert = f"INSERT INTO {table} ({', '.join(names)})"
    of_key, rest = tuple(range(keys)), tuple(range(keys, len(names)))
    same = " AND ".join(f"{name} = %s" for name in names[:keys])
    if form.mode is Mode.INSERT:
        return (Statement(f"{insert} VALUES {marks}", many=True),)
    changes = ", ".join(f"{name} = %s" for name in names[keys:])
    update = Statement(f"UPDATE {table} SET {changes} WHERE {same}", rest + of_key)  # noqa: S608 - quoted
    if form.mode is Mode.UPDATE:
        return (update,) if rest else ()
    if form.mode is Mode.PATCH or by_other_keys:
        missing = Statement(
            f"{insert} SELECT {marks[1:-1]} FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same})",  # noqa: S608 - quoted
            (*of_key, *rest, *of_key),
        )
        return (update, missing) if rest else (missing,)
    taken = ", ".join(f"{name} = VALUES({name})" for name in names[keys:]) or f"{names[0]} = {names[0]}"
    return (Statement(f"{insert} VALUES {marks} ON DUPLICATE KEY UPDATE {taken}", many=True),)


def delete(table: TableName, keys: Sequence[Column], count: int) -> str:
    """DELETE of so many rows. Of a key with several columns each is spelled out: a list of rows would not use the index."""
    names = [identifier(column.name) for column in keys]
    if len(names) == 1:
        chosen = f"{names[0]} IN ({', '.join(['%s'] * count)})"
    else:
        chosen = " OR ".join([f"({' AND '.join(f'{name} = %s' for name in names)})"] * count)
    return f"DELETE FROM {quoted(table)} WHERE {chosen}"  # noqa: S608 - quoted
