"""Business events: from records of one business topic to rows of its table. No I/O.

CloudEvents' attributes are headers ``ce_...`` (CloudEvents, "Kafka Protocol Binding", binary content mode) and become
columns of the same names; further ones are in `ce_extensions`. `ce_id` identifies the event.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.columns import column_type, shaped_value
from tidings_lakehouse.decoding.poison import Poison, is_among, why
from tidings_lakehouse.decoding.schemas import DecodingPlan
from tidings_lakehouse.formats.avro_nodes import Node
from tidings_lakehouse.formats.records import ReaderGroup, failure
from tidings_lakehouse.tables.tables import quoted, safe_name, target_name

_ATTRIBUTES = ("ce_id", "ce_source", "ce_type", "ce_subject", "ce_time", "ce_specversion", "ce_dataschema")
_METADATA = (
    st.StructField("ce_id", st.StringType()),
    st.StructField("ce_source", st.StringType()),
    st.StructField("ce_type", st.StringType()),
    st.StructField("ce_subject", st.StringType()),
    st.StructField("ce_time", st.TimestampType()),
    st.StructField("ce_specversion", st.StringType()),
    st.StructField("ce_dataschema", st.StringType()),
    st.StructField("ce_extensions", st.MapType(st.StringType(), st.StringType())),
    st.StructField("__topic_id", st.StringType()),
    st.StructField("__partition_no", st.IntegerType()),
    st.StructField("__offset", st.LongType()),
    st.StructField("__timestamp", st.TimestampType()),
    st.StructField("__schema_id", st.LongType()),
)
REASON = "__reason"
_METADATA_NAMES = frozenset(field.name for field in _METADATA)


def check_event(node: Node) -> str | None:
    """Why a schema is not that of an event, or None."""
    return None if node.kind == "record" and node.fields else "is not a record"


def payload_name(name: str) -> str:
    """The column of a payload's field; one that has a metadata column's name gives way."""
    return f"{name}_column" if name in _METADATA_NAMES else safe_name(name)


def event_schema(plan: DecodingPlan) -> st.StructType:
    """What the table needs to hold for these schemas."""
    payload = [
        st.StructField(payload_name(name), column_type(node).sql)
        for group in plan.groups
        for name, node in group.reader.fields
    ]
    return st.StructType([*_METADATA, *payload])


class EventDecoder:
    """Decodes the records of one topic by the schemas it was made for; made once, used for every batch."""

    def __init__(self, topic_id: str, plan: DecodingPlan, table: st.StructType) -> None:
        self.made_for = (topic_id, plan, table)
        groups = [(group, f"v{number}") for number, group in enumerate(plan.groups)]
        self._decoded = [
            sf.expr("transform(headers, h -> lower(h.key))").alias("header_names"),
            *[group.decode("value", "value_id").alias(name) for group, name in groups],
        ]
        columns = _attributes(topic_id) | _payload(groups, table)
        reason = sf.coalesce(
            sf.when(sf.col("value").isNull(), sf.lit("value: none; an event has one")),
            failure("value", "value_id", groups, plan.refused),
            sf.when(columns["ce_id"].isNull(), sf.lit("headers: no ce_id, which identifies the event")),
        )
        self._columns = [
            *[columns.get(f.name, sf.lit(None)).cast(f.dataType).alias(f.name) for f in table.fields],
            reason.alias(REASON),
            _record(topic_id),
        ]
        self._last = [
            *[sf.col(quoted(field.name)) for field in table.fields],
            sf.col(REASON),
            sf.when(sf.col(REASON).isNotNull(), sf.col("__record")).alias("__record"),
        ]

    def decode(self, records: DataFrame, poison: Sequence[Poison] = ()) -> DataFrame:
        """Rows of the table, and of what could not be decoded; `poison` is not tried.

        Ends in the table's columns, then `REASON` (why it could not be decoded, else null) and `__record`, see `failed`.
        """
        if poison:
            good = self.decode(records.where(~is_among(poison)))
            return good.unionAll(self._put_aside(records.where(is_among(poison)), poison))
        return records.select("*", *self._decoded).select(*self._columns).select(*self._last)

    def _put_aside(self, records: DataFrame, poison: Sequence[Poison]) -> DataFrame:
        topic_id, _, table = self.made_for
        return records.select(
            *[sf.lit(None).cast(field.dataType).alias(field.name) for field in table.fields],
            why(poison).alias(REASON),
            _record(topic_id),
        )


def failed(events: DataFrame) -> DataFrame:
    """The records among decoded ones that could not be, as the quarantine takes them."""
    return events.where(sf.col(REASON).isNotNull()).select("__record.*", sf.col(REASON).alias("reason"))


def _record(topic_id: str) -> Column:
    """A record as the quarantine keeps it."""
    return sf.struct(
        sf.lit(topic_id).alias("topic_id"),
        "partition",
        "offset",
        "timestamp",
        "headers",
        sf.col("key").alias("raw_key"),
        sf.col("value").alias("raw_value"),
    ).alias("__record")


def _attributes(topic_id: str) -> dict[str, Column]:
    attributes = {name: _header(name) for name in _ATTRIBUTES}
    return {
        **attributes,
        "ce_time": attributes["ce_time"].try_cast("timestamp"),
        "ce_extensions": sf.expr(
            "map_from_entries(transform(filter(headers, (h, i) -> startswith(lower(h.key), 'ce_') AND lower(h.key) "
            f"NOT IN ({', '.join(repr(name) for name in _ATTRIBUTES)}) AND array_position(header_names, lower(h.key)) "
            "= i + 1), h -> struct(substring(lower(h.key), 4) AS k, decode(h.value, 'UTF-8') AS v)))"
        ),
        "__topic_id": sf.lit(topic_id),
        "__partition_no": sf.col("partition"),
        "__offset": sf.col("offset"),
        "__timestamp": sf.col("timestamp"),
        "__schema_id": sf.col("value_id"),
    }


def _payload(groups: Sequence[tuple[ReaderGroup, str]], table: st.StructType) -> dict[str, Column]:
    fields = {field.name: field.dataType for field in table.fields}
    values: dict[str, list[Column]] = {}
    for group, alias in groups:
        for name, node in group.reader.fields:
            type_ = column_type(node)
            target = target_name(fields, payload_name(name), type_.sql)
            value = shaped_value(type_.apply(sf.col(alias)[name]), type_.sql, fields[target])
            values.setdefault(target, []).append(value)
    return {name: found[0] if len(found) == 1 else sf.coalesce(*found) for name, found in values.items()}


def _header(name: str) -> Column:
    return sf.expr(
        f"decode(try_element_at(headers, cast(nullif(array_position(header_names, '{name}'), 0) AS int)).value, 'UTF-8')"
    )


def first_by_id(events: DataFrame, columns: list[str]) -> DataFrame:
    """One row per event id: the first on the topic."""
    row = sf.struct(*[sf.col(quoted(name)) for name in columns])
    return (
        events.where(sf.col(REASON).isNull())
        .groupBy("ce_id")
        .agg(sf.min_by(row, sf.struct("__partition_no", "__offset")).alias("row"))
        .select("row.*")
    )


def of_times(oldest: dt.datetime | None, newest: dt.datetime | None, *, has_timeless: bool) -> Column:
    """The condition on rows of the table that may be repetitions of a batch's events: an event's time is part of it, so
    what has the same id has the same time. Files of other times are not read.

    Args:
        oldest, newest: times of the batch's events, None when none has one.
        has_timeless: whether one of them has none.
    """
    time = sf.col("ce_time")
    found = sf.lit(False)
    if oldest is not None and newest is not None:
        # Spark gives moments without a zone, in this process's.
        least, greatest = (sf.lit(one.astimezone(dt.UTC)) for one in (oldest, newest))
        found = (time >= least) & (time <= greatest)
    return found | time.isNull() if has_timeless else found


def without_known(events: DataFrame, table: DataFrame) -> DataFrame:
    """Drops events whose id the table has; reads only ids, and only once."""
    ids = events.select(sf.col("ce_id").alias("id"))
    known = table.select("ce_id").join(sf.broadcast(ids), sf.col("ce_id") == sf.col("id"), "left_semi")
    known = known.select(sf.col("ce_id").alias("known_id"))
    return events.join(sf.broadcast(known), sf.col("ce_id") == sf.col("known_id"), "left_anti")
