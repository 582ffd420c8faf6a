"""SQL of an incremental snapshot's chunks: the next rows by key, and a table's largest key. Pure.

Keys come as the text that PostgreSQL wrote, and go back as literals whose type the compared column decides.
"""

from collections.abc import Sequence

from tidings_capture.cdc.incremental.state import Key
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.postgres.sql_text import quote


def literal(text: str) -> str:
    """A string literal that means the same whatever ``standard_conforming_strings`` is."""
    quoted = text.replace("'", "''")
    return f"E'{quoted.replace(chr(92), chr(92) * 2)}'" if "\\" in quoted else f"'{quoted}'"


def chunk_query(
    table: Table, columns: Sequence[Column], condition: str, after: Key | None, maximum: Key | None, rows: int
) -> str:
    """COPY of the next rows, at most `rows`, columns in the table's order."""
    conditions = [f"({condition})"] if condition else []
    if after is not None:
        conditions.append(_beyond(columns, after))
        if maximum is not None:
            conditions.append(f"NOT {_beyond(columns, maximum)}")
    names = ", ".join(quote(column.name) for column in table.columns)
    order = ", ".join(quote(column.name) for column in columns)
    return f"COPY (SELECT {names} FROM {_table(table)}{_where(conditions)} ORDER BY {order} LIMIT {rows}) TO STDOUT"  # noqa: S608


def maximum_query(table: Table, columns: Sequence[Column], condition: str) -> str:
    """COPY of the largest key: one line, none for an empty table."""
    names = ", ".join(quote(column.name) for column in columns)
    order = ", ".join(f"{quote(column.name)} DESC" for column in columns)
    where = _where([f"({condition})"] if condition else [])
    return f"COPY (SELECT {names} FROM {_table(table)}{where} ORDER BY {order} LIMIT 1) TO STDOUT"  # noqa: S608


def count_query(table: Table, condition: str) -> str:
    """How many rows there are to read."""
    return f"SELECT count(*) FROM {_table(table)}{_where([f'({condition})'] if condition else [])}"  # noqa: S608


def gone_query(table: Table, columns: Sequence[Column], types: Sequence[str], keys: Sequence[Key]) -> str:
    """The numbers of the keys that no row of the table has."""
    names = [f"k{place}" for place in range(len(columns))]
    lines = ", ".join(f"({number}, {', '.join(map(_nullable, key))})" for number, key in enumerate(keys))
    equal = " AND ".join(
        f"t.{quote(column.name)} = CAST(v.{name} AS {type_})"
        if column.not_null
        else f"t.{quote(column.name)} IS NOT DISTINCT FROM CAST(v.{name} AS {type_})"
        for column, name, type_ in zip(columns, names, types, strict=True)
    )
    source = f"{quote(table.schema)}.{quote(table.name)}"
    return (
        f"SELECT n FROM (VALUES {lines}) AS v(n, {', '.join(names)}) "  # noqa: S608
        f"WHERE NOT EXISTS (SELECT FROM {source} t WHERE {equal}) ORDER BY n"
    )


def look_up_query(table: Table, columns: Sequence[Column], types: Sequence[str], keys: Sequence[Key]) -> str:
    """COPY of a line a key: whether no row has it, the key's columns, and all columns of the row.

    Args:
        types: with their modifiers: a key that a type cuts is looked for as it is cut.
    """
    names = [f"k{place}" for place in range(len(columns))]
    raw = ", ".join(f"({', '.join(map(_nullable, key))})" for key in keys)
    cast = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in zip(names, types, strict=True))
    equal = " AND ".join(
        f"t.{quote(column.name)} {'=' if column.not_null else 'IS NOT DISTINCT FROM'} v.{name}"
        for column, name in zip(columns, names, strict=True)
    )
    shown = [*(f"v.{name}" for name in names), *(f"t.{quote(column.name)}" for column in table.columns)]
    return (
        f"COPY (SELECT t.tableoid IS NULL, {', '.join(shown)} "  # noqa: S608
        f"FROM (SELECT {cast} FROM (VALUES {raw}) AS raw({', '.join(names)})) AS v "
        f"LEFT JOIN {_table(table)} t ON {equal}) TO STDOUT"
    )


def _beyond(columns: Sequence[Column], key: Key) -> str:
    """Rows whose key is larger; nulls are larger than everything, as ORDER BY has them."""
    if all(column.not_null for column in columns):
        names = ", ".join(quote(column.name) for column in columns)
        return f"(({names}) > ({', '.join(literal(value or '') for value in key)}))"
    alternatives = []
    for place, column in enumerate(columns):
        value = key[place]
        if value is None:
            continue  # nothing is larger than null
        terms = [_equal(c, v) for c, v in zip(columns[:place], key[:place], strict=True)]
        larger = f"{quote(column.name)} > {literal(value)}"
        terms.append(larger if column.not_null else f"({larger} OR {quote(column.name)} IS NULL)")
        alternatives.append(f"({' AND '.join(terms)})")
    return f"({' OR '.join(alternatives) or 'false'})"


def _equal(column: Column, value: str | None) -> str:
    return f"{quote(column.name)} IS NULL" if value is None else f"{quote(column.name)} = {literal(value)}"


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _table(table: Table) -> str:
    return f"{quote(table.schema)}.{quote(table.name)}"


def _nullable(text: str | None) -> str:
    return "NULL" if text is None else literal(text)
