"""Replaces rows of a current state without shuffling it: those that are there go by a semi join, the new ones are appended.

So a row that the table holds twice, which it should not, is there once when a change of it has come. MERGE is an outer join, for which all rows of the table are shuffled and sorted, so that it costs what is there. A semi join
with the changes broadcast reads the table's keys where they are, and costs what changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.changes import COMMIT_LSN, IS_READ, LSN, OP, CurrentShape, logged_at
from tidings_lakehouse.spark.apart import apart
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.tables.tables import Table, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORTH_SPREADING = 50_000
"""Rows from which on more than one task writes them."""
_WORTH_PRUNING = 500_000
"""Rows of a table from which on the files that cannot have a batch's keys are looked for."""
_HELD = "__held"
_NUMBERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)


def replace_rows(
    session: SparkSession,
    table: str,
    newest: DataFrame,
    shape: CurrentShape,
    *,
    rows_held: int,
    is_newer: bool,
    most: int,
    missing: Sequence[str] = (),
    local: tuple[LocalRows, Table] | None = None,
    buckets: tuple[str, int] | None = None,
) -> None:
    """Write `newest_changes` to a table: newer positions win, deletes delete.

    Idempotent: the same or an older position changes nothing, but for what was read (`IS_READ`), which wins over the change
    at its own place. A row that the table lacks is written only if all its values are known (`incomplete`).

    Args:
        table: the name to write under.
        newest: kept in memory by the caller.
        rows_held: rows that the table has.
        is_newer: every change is known to be newer than all that the table holds.
        most: there are no more changes than that.
        missing: columns that some changes did not log: their values are those of the rows that are there.
        local: the table, where the changes are in this process's JVM.
        buckets: the column of the key by whose buckets the table is partitioned, and their number.
    """
    kept: list[DataFrame] = []
    is_empty = not rows_held

    def keep(frame: DataFrame) -> tuple[DataFrame, int]:
        if local is not None:
            found = local[0].collected(frame)
            return found, local[0].count(found)
        kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame, frame.count()

    try:
        # To leave files of a small table out costs more than to read them.
        is_small = most < _WORTH_SPREADING and rows_held < _WORTH_PRUNING
        count, condition = (most, "true") if is_small else _counted(newest, shape, buckets)
        rows, held = newest, None
        if not is_empty and (missing or not is_newer):
            found_rows = _held(session.table(table), newest, shape, condition, missing)
            if missing and local is None:  # the values are wanted when the rows are deleted
                found_rows = apart(session, found_rows)
            found_rows, found = keep(found_rows)
            held = found_rows if found else None
            is_empty = not found  # of these keys
        if missing:
            rows = _with_values(rows, held, shape, missing, is_here=local is not None)
        if held is not None and not is_newer:
            rows = _newer(rows, held, shape)
        if rows is not newest:
            rows, count = keep(rows)
        if not count:
            return
        if not is_empty:
            view = f"replaced_{table.rpartition('.')[0].rpartition('.')[2]}"
            rows.select(*map(quoted, shape.keys)).createOrReplaceTempView(view)
            on = " AND ".join(f"s.{quoted(key)} = t.{quoted(key)}" for key in shape.keys)
            session.sql(
                f"DELETE FROM {table} t WHERE {condition} AND EXISTS (SELECT 1 FROM {view} s WHERE {on})"  # noqa: S608
            )
        new = rows.where(f"{OP} <> 'd'").select(*map(quoted, shape.schema.names))
        if local is not None:
            local[1].add(table, local[1].ordered(new))
            return
        (new.coalesce(1) if count < _WORTH_SPREADING else new).writeTo(table).append()
    finally:
        for frame in kept:
            frame.unpersist()


def _counted(
    newest: DataFrame, shape: CurrentShape, buckets: tuple[str, int] | None = None
) -> tuple[int, str]:
    """How many changes there are, and a condition that every row of the table with one of their keys meets."""
    key = next(iter(shape.keys))
    is_number = isinstance(next(f.dataType for f in shape.schema.fields if f.name == key), _NUMBERS)
    ends = [sf.min(quoted(key)), sf.max(quoted(key))] if is_number else [sf.lit(None), sf.lit(None)]
    bucket = "" if buckets is None else f"system.bucket({buckets[1]}, {{}}{quoted(buckets[0])})"
    own = sf.collect_set(sf.expr(bucket.format(""))) if bucket else sf.lit(None)
    count, least, greatest, hit = newest.agg(sf.count(sf.lit(1)), *ends, own).collect()[0]
    found = [] if least is None else [f"t.{quoted(key)} BETWEEN {least} AND {greatest}"]
    if buckets is not None and 0 < len(hit) < buckets[1]:
        # Iceberg leaves the other buckets' files out.
        found.append(f"{bucket.format('t.')} IN ({', '.join(map(str, sorted(hit)))})")
    return count, " AND ".join(found) or "true"


def _held(
    table: DataFrame, newest: DataFrame, shape: CurrentShape, condition: str, values: Sequence[str]
) -> DataFrame:
    """Keys and positions of the table's rows that have a key among the changes', and some of their values."""
    keys = newest.select(*[sf.col(quoted(key)).alias(f"{_HELD}{n}") for n, key in enumerate(shape.keys)])
    rows = table.alias("t").where(condition)
    rows = rows.select(*map(quoted, [*shape.keys, *values]), COMMIT_LSN, LSN)
    return rows.join(sf.broadcast(keys), _is_of_key(shape), "left_semi").select(
        *[sf.col(quoted(key)).alias(f"{_HELD}{n}") for n, key in enumerate(shape.keys)],
        sf.struct(COMMIT_LSN, LSN).alias(f"{_HELD}_at"),
        sf.struct(*[sf.col(quoted(name)).alias(name) for name in values]).alias(_HELD)
        if values
        else sf.lit(None).alias(_HELD),
    )


def _is_of_key(shape: CurrentShape) -> Column:
    """Whether a row has the key of another, whose columns `_held` has named."""
    same = sf.lit(True)
    for number, key in enumerate(shape.keys):
        same = same & (sf.col(quoted(key)) == sf.col(f"{_HELD}{number}"))
    return same


def _with_values(
    newest: DataFrame, held: DataFrame | None, shape: CurrentShape, missing: Sequence[str], *, is_here: bool
) -> DataFrame:
    """The changes with the values that they did not log, without those whose values nobody knows.

    Args:
        held: the table's rows; where it holds a key twice, the newer row counts.
    """
    seen = {name: sf.col(quoted(logged_at(name))) for name in missing}
    is_known = sf.lit(True)
    for at in seen.values():
        is_known = is_known & at.isNotNull()
    columns = {name: sf.col(quoted(name)) for name in shape.schema.names}
    rows = newest
    if held is not None:
        keys = [f"{_HELD}{number}" for number in range(len(shape.keys))]
        at, value = sf.col(f"{_HELD}_at"), sf.col(_HELD)
        one = held.groupBy(*keys).agg(sf.max_by(_HELD, at).alias(_HELD), sf.max(at).alias(f"{_HELD}_at"))
        # Values that are kept out of line are large: those of many rows are not sent to every task.
        rows = newest.join(sf.broadcast(one) if is_here else one, _is_of_key(shape), "left")
        is_known = is_known | at.isNotNull()
        for name, logged in seen.items():
            is_newest = logged.isNotNull() & (at.isNull() | (logged >= at))
            columns[name] = sf.when(is_newest, sf.col(quoted(name))).otherwise(value[name])
    return rows.where((sf.col(OP) == "d") | is_known).select(
        OP, IS_READ, *[column.alias(name) for name, column in columns.items()]
    )


def _newer(newest: DataFrame, held: DataFrame, shape: CurrentShape) -> DataFrame:
    """The changes that are newer than the row that the table holds, or read at its place.

    Where the table holds a key twice, which it should not, a change stays one: the rows that hold a change off are joined.
    """
    own, at = sf.struct(COMMIT_LSN, LSN), sf.col(f"{_HELD}_at")
    loses = (own < at) | ((own == at) & ~sf.col(IS_READ))
    return newest.join(sf.broadcast(held), _is_of_key(shape) & loses, "left_anti")
