"""PostgreSQL's infinite dates and timestamps: Debezium's numbers for them, and by choice null with a mark beside it.

Debezium has a number or text that stands for an infinity (documentation, PostgreSQL connector, "Temporal types"). As a
time it is in the year 294247 (of a date 5877611), which sorts as it should, but which Python's ``datetime`` does not have. By
choice (``TIDINGS_LAKEHOUSE_INFINITE``) the column is null, and ``<column>__infinite`` says ``infinity`` or ``-infinity``. A
column of text for each column, and not one map for the row: readers skip files by it, every reader has the type, and a renamed column
takes its mark along. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.errors import TableConflictError
from tidings_lakehouse.formats.avro_nodes import Node
from tidings_lakehouse.tables.column_names import INFINITE

INFINITY, MINUS_INFINITY = "infinity", "-infinity"
MOST, LEAST = 2**63 - 1, -(2**63)
"""Microseconds and nanoseconds."""
MOST_DAYS, LEAST_DAYS = 2_146_033_979, -2_147_472_691
MOST_MILLIS, LEAST_MILLIS = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
_NUMBERS: Final[dict[str, tuple[int | str, int | str]]] = {
    "io.debezium.time.Date": (MOST_DAYS, LEAST_DAYS),
    "org.apache.kafka.connect.data.Date": (MOST_DAYS, LEAST_DAYS),
    "io.debezium.time.Timestamp": (MOST_MILLIS, LEAST_MILLIS),
    "org.apache.kafka.connect.data.Timestamp": (MOST_MILLIS, LEAST_MILLIS),
    "io.debezium.time.MicroTimestamp": (MOST, LEAST),
    "io.debezium.time.NanoTimestamp": (MOST, LEAST),
    "io.debezium.time.ZonedTimestamp": (INFINITY, MINUS_INFINITY),
}
"""What stands for the infinities, by the type's name."""


def infinity_of(node: Node, column: Column) -> Column | None:
    """``infinity``, ``-infinity`` or null of a value as the topic has it; None for types without infinities."""
    numbers = _NUMBERS.get(node.logical or "")
    if numbers is None:
        return None
    most, least = numbers
    return sf.when(column == most, INFINITY).when(column == least, MINUS_INFINITY)


def mark_of(name: str) -> str:
    """The field that says whether a field is infinite."""
    return f"{name}{INFINITE}"


def is_mark(name: str, fields: Iterable[str]) -> bool:
    """Whether a field is the mark of another."""
    return name.endswith(INFINITE) and name.removesuffix(INFINITE) in set(fields)


def marks(topic_row: Node, chosen: Iterable[str]) -> list[str]:
    """Fields of a row, among those chosen, that get a mark.

    Raises:
        TableConflictError: the row has a column that is called as the mark of another.
    """
    names = {name for name, _ in topic_row.fields}
    found = [
        name for name, node in topic_row.fields if name in set(chosen) and (node.logical or "") in _NUMBERS
    ]
    for name in found:
        if mark_of(name) in names:
            raise TableConflictError(
                f"TIDINGS_LAKEHOUSE_INFINITE: the mark of the column {name} would be called as the column {mark_of(name)} is",
                hint="leave the table out of the setting",
            )
    return found


def marked(value: Column, mark: Column, data_type: st.DataType, *, as_text: bool = False) -> Column:
    """A column's value, with what Debezium has for an infinity where its mark says so.

    Args:
        value: as Debezium has it.
        data_type: of the column in the lake.
        as_text: numbers are texts.
    """
    if isinstance(data_type, st.TimestampType):
        most, least = sf.lit(INFINITY), sf.lit(MINUS_INFINITY)
    else:
        is_date = isinstance(data_type, st.DateType)
        numbers = (MOST_DAYS, LEAST_DAYS) if is_date else (MOST, LEAST)
        most, least = (sf.lit(str(one) if as_text else one) for one in numbers)
    return sf.when(mark == INFINITY, most).when(mark == MINUS_INFINITY, least).otherwise(value)
