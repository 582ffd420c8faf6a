"""Change events: from rows of a log to the newest rows of its table. No I/O.

A row's position is (commit LSN, LSN), by which changes of one key are ordered whatever their order on the topic; the rule is
`tidings_envelope.position.place_in_stream`, here in Spark's words (`with_position`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.text_records import VALUE_TEXT
from tidings_lakehouse.tables.positions import PartitionId, Position
from tidings_lakehouse.tables.tables import quoted, safe_name, target_name

COMMIT_LSN, LSN, CHANGED_AT = "__commit_lsn", "__lsn", "__changed_at"
OP = "__op"
"""A change's operation, beside the columns of its row: those may have any name that does not begin so (`safe_name`)."""
_UNAVAILABLE = "__unavailable"
IS_READ = "__is_read"
"""Whether a change tells what the database had at its place: of two at one place it counts, and a later one more than an earlier."""
PLACE = ("topic_id", "partition", "offset", "timestamp")
"""Where a change stands on its topic."""
_BESIDE = {name: f"__{name}" for name in PLACE}
"""What these are called beside the columns of its row."""
OFFSET = _BESIDE["offset"]
POSITION_FIELDS = (
    st.StructField(COMMIT_LSN, st.LongType()),
    st.StructField(LSN, st.LongType()),
    st.StructField(CHANGED_AT, st.TimestampType()),
)


@dataclass(frozen=True)
class CurrentShape:
    """The columns of a current-state table, from its log's."""

    keys: Mapping[str, str]
    """Column of the table -> field of `key`."""
    columns: Mapping[str, str]
    """Column of the table -> field of `after`."""
    schema: st.StructType


def current_shape(log: st.StructType) -> CurrentShape | None:
    """The current-state table of a log; None when the topic has no key, or one that is not part of the row, or when some of its
    records are kept as text, which no row can follow."""
    fields = {field.name: field.dataType for field in log.fields}
    if VALUE_TEXT in fields:
        return None
    key, row = fields.get("key"), fields.get("after")
    if not isinstance(key, st.StructType) or not isinstance(row, st.StructType):
        return None
    have = {field.name: field.dataType for field in row.fields}
    keys = {target_name(have, field.name, field.dataType): field.name for field in key.fields}
    if not keys.keys() <= have.keys():
        return None
    columns = {safe_name(name): name for name in have}
    schema = st.StructType(
        [st.StructField(column, have[name]) for column, name in columns.items()] + list(POSITION_FIELDS)
    )
    return CurrentShape({safe_name(column): name for column, name in keys.items()}, columns, schema)


def is_incremental() -> Column:
    """Whether a row of a log was read by an incremental snapshot; logs of former releases do not say it."""
    return sf.coalesce("incremental", sf.col("snapshot") & sf.col("lsn").isNull())


def with_position(changes: DataFrame, snapshots: Mapping[PartitionId, int], *, windowed: bool) -> DataFrame:
    """Adds `COMMIT_LSN` and `LSN`: see `place_in_stream`.

    Args:
        changes: rows of a log, or of a batch.
        snapshots: LSN of the newest snapshot in each partition before these rows.
        windowed: whether snapshots among the rows themselves have to be found, too, by offset.
    """
    lsn, last_commit = sf.coalesce("lsn", sf.lit(0)), sf.col("last_commit_lsn")
    is_read = sf.col("snapshot") & ~is_incremental()
    before = sf.lit(0).cast("bigint")
    if snapshots:
        known = sf.create_map(
            *[sf.lit(one) for place, at in sorted(snapshots.items()) for one in (_place_text(place), at)]
        )
        place = sf.concat_ws("/", "topic_id", sf.col("partition").cast("string"))
        before = sf.coalesce(sf.try_element_at(known, place), before)
    if windowed:
        rows = Window.partitionBy("topic_id", "partition").orderBy("offset")
        found = sf.last(sf.when(is_read & last_commit.isNull(), lsn), ignorenulls=True)
        before = sf.coalesce(found.over(rows), before)
    return changes.select(
        "*",
        sf.coalesce(last_commit, sf.when(is_read, lsn).otherwise(sf.greatest(before, lsn)))
        .cast("bigint")
        .alias(COMMIT_LSN),
        sf.when(is_read, sf.lit(0)).otherwise(lsn).cast("bigint").alias(LSN),
    )


def _place_text(place: PartitionId) -> str:
    return f"{place.topic_id}/{place.partition}"


def change_rows(changes: DataFrame, shape: CurrentShape) -> DataFrame:
    """Changes of rows in the columns of the current-state table, with `OP`, `IS_READ`, the fields that were not logged, and their place.

    Args:
        changes: as `with_position` gives them.
    """
    row = sf.coalesce("after", "before")
    key_of = dict(shape.keys)
    columns = [
        (sf.col("key")[key_of[column]] if column in key_of else row[name]).alias(column)
        for column, name in shape.columns.items()
    ]
    return changes.where("reason IS NULL AND key IS NOT NULL AND op IN ('c', 'u', 'r', 'd')").select(
        sf.col("op").alias(OP),
        # Not the operation alone: an incremental snapshot deletes what it finds gone.
        ((sf.col("op") == "r") | sf.coalesce(is_incremental(), sf.lit(False))).alias(IS_READ),
        sf.col("unavailable").alias(_UNAVAILABLE),
        *columns,
        sf.col(COMMIT_LSN),
        sf.col(LSN),
        sf.col("changed_at").alias(CHANGED_AT),
        *[sf.col(name).alias(beside) for name, beside in _BESIDE.items()],
    )


def newest_changes(changes: DataFrame, shape: CurrentShape, unavailable: Sequence[str]) -> DataFrame:
    """One row per key: the newest change of a batch, in the columns of the current-state table, `OP` and `IS_READ`.

    For every column in `unavailable` (which some change of the batch did not log) there is one more, `logged_at`: (commit LSN,
    LSN) of the newest change that did log it, null if none did, in which case the table has the value. Then there is the
    change's place, too.
    """
    position = sf.struct(sf.col(COMMIT_LSN), sf.col(LSN))
    order = sf.struct(COMMIT_LSN, LSN, IS_READ, OFFSET)
    missing = [
        column for column, name in shape.columns.items() if name in unavailable and column not in shape.keys
    ]
    rows = change_rows(changes, shape)
    names = [field.name for field in shape.schema.fields]
    place = _BESIDE.values() if missing else ()
    newest = [
        sf.max_by(sf.struct(OP, IS_READ, *map(quoted, names), *place), order).alias("newest"),
        *[
            sf.max_by(
                sf.struct(position.alias("at"), sf.col(quoted(column)).alias("value")),
                sf.when(~sf.array_contains(_UNAVAILABLE, shape.columns[column]), order),
            ).alias(_seen(column))
            for column in missing
        ],
    ]
    reduced = rows.groupBy(
        *[sf.col(quoted(column)).alias(f"__key{n}") for n, column in enumerate(shape.keys)]
    ).agg(*newest)
    return reduced.select(
        sf.col("newest")[OP].alias(OP),
        sf.col("newest")[IS_READ].alias(IS_READ),
        *[
            (sf.col(quoted(_seen(name)))["value"] if name in missing else sf.col("newest")[name]).alias(name)
            for name in names
        ],
        *[sf.col(quoted(_seen(column)))["at"].alias(logged_at(column)) for column in missing],
        *[sf.col("newest")[name].alias(name) for name in place],
    )


def logged_at(column: str) -> str:
    """The column that says when another was logged; see `newest_changes`."""
    return f"__at_{column}"


def _seen(column: str) -> str:
    return f"__seen_{column}"


def incomplete(
    newest: DataFrame, current: DataFrame, shape: CurrentShape, missing: Sequence[str]
) -> DataFrame:
    """Changes of rows that the table lacks, some values of which were not logged: their `PLACE` and the fields' names (`unknown`)."""
    unknown = sf.array_compact(
        sf.array(
            *[
                sf.when(sf.col(quoted(logged_at(column))).isNull(), sf.lit(shape.columns[column]))
                for column in missing
            ]
        )
    )
    keys = [quoted(column) for column in shape.keys]
    rows = newest.where(f"{OP} <> 'd'").withColumn("__unknown", unknown).where(sf.size("__unknown") > 0)
    return rows.join(current.select(*keys), list(shape.keys), "left_anti").select(
        *[sf.col(beside).alias(name) for name, beside in _BESIDE.items()],
        sf.col("__unknown").alias("unknown"),
    )


def without_deleted(newest: DataFrame, deletes: DataFrame, shape: CurrentShape) -> DataFrame:
    """Drops changes older than a delete of their key; `deletes` have their position. Only late rows can be older."""
    deleted = (
        deletes.where("op = 'd' AND key IS NOT NULL")
        .groupBy(*[sf.col("key")[field].alias(f"__key{n}") for n, field in enumerate(shape.keys.values())])
        .agg(sf.max(sf.struct(COMMIT_LSN, LSN)).alias("__deleted"))
    )
    condition = sf.struct(sf.col(COMMIT_LSN), sf.col(LSN)) < sf.col("__deleted")
    for number, column in enumerate(shape.keys):
        condition = condition & (sf.col(quoted(column)) == sf.col(f"__key{number}"))
    return newest.join(deleted, condition, "left_anti")


def newest_truncate(changes: DataFrame) -> Position | None:
    """The position of the newest TRUNCATE among rows that have theirs; everything older is gone."""
    found = changes.where("op = 't'").agg(sf.max(sf.struct(COMMIT_LSN, LSN))).collect()[0][0]
    return None if found is None else Position(*found)


def truncate_statement(table: str, position: Position) -> str:
    """DELETE of all rows older than a TRUNCATE; idempotent."""
    commit_lsn, lsn = position
    older = f"{COMMIT_LSN} < {commit_lsn} OR ({COMMIT_LSN} = {commit_lsn} AND {LSN} < {lsn})"
    return f"DELETE FROM {table} WHERE {older}"  # noqa: S608 - numbers and a name of our own


def since(newest: DataFrame, position: Position) -> DataFrame:
    """Changes newer than a TRUNCATE at a position."""
    at = sf.struct(*[sf.lit(part).cast("bigint") for part in position])
    own = sf.struct(sf.col(COMMIT_LSN), sf.col(LSN))
    return newest.where((own > at) | ((own == at) & sf.col(IS_READ)))
