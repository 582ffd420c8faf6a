"""Writes what the logs hold as the records they came from, for ``tidings-translator generations start --from-lake``.

A directory for each partition of each topic, ``topic=<topic>/partition=<n>``, with gzipped JSON, one record a line, by offset:

    {"offset": 7, "key": {...}, "value": {...}, "headers": [...]}     a row of a log: Debezium's JSON without a schema
    {"offset": 8, "raw_key": "...", "raw_value": "...", "headers": [...]}     base64: a transaction marker, a text, or a
                                                                      quarantined record

and ``history.json``: by topic its id in Kafka and, by partition, the first and the last offset. Values have Debezium's
default representation: dates as days, times with a date as microseconds since 1970, with a zone as ISO 8601; numeric as text,
times of day as ``hh:mm:ss.ffffff``, bytes as base64. So have those of MariaDB and MySQL, but for times with a date, which are text
in ISO 8601; they have PostgreSQL's source block, whose ``lsn`` and ``txId`` are the numbers that the log has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.batches import union
from tidings_lakehouse.decoding.changes import is_incremental
from tidings_lakehouse.decoding.columns import INFINITY_MICROSECONDS, MINUS_INFINITY_MICROSECONDS
from tidings_lakehouse.decoding.infinite import is_mark, mark_of, marked
from tidings_lakehouse.decoding.text_records import KEY_TEXT, VALUE_TEXT
from tidings_lakehouse.errors import HistoryError
from tidings_lakehouse.retention_rules import RETAINED_PROPERTY
from tidings_lakehouse.tables.names import known_names
from tidings_lakehouse.tables.tables import TOPIC_PROPERTY, target_name
from tidings_lakehouse.topics import QUARANTINE, TECHNICAL, TRANSACTION_LOG, log_of, transaction_topic
from tidings_lakehouse.watermark.transactions import header_columns, is_of_a_binlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFEST = "history.json"
_WRITTEN = ("topic", "partition", "offset", "line")


def write_history(session: SparkSession, source: str, directory: Path) -> dict[str, Any]:
    """Write all topics of a source; gives what `MANIFEST` says.

    Args:
        session: of the lakehouse.
        source: the topic prefix.
        directory: must not exist.

    Raises:
        HistoryError: there is nothing, or a log cannot be told apart into the records it came from, or has
            moments in a key of a MariaDB or a MySQL.
    """
    if directory.exists():
        raise HistoryError(f"{directory} exists", hint="name a new directory")
    logs = logs_of_source(session, source)
    lines = _lines_of_binlog if is_of_a_binlog(session, source) else _lines
    frames, spans = [], []
    for name, topic in sorted(logs.items()):
        log = session.table(name)
        if VALUE_TEXT in log.columns:
            is_text = sf.coalesce(KEY_TEXT, VALUE_TEXT).isNotNull()
            frames.append(_raw_lines(_texts(log.where(is_text), topic)))
            frames.append(lines(log.where(~is_text), topic))
        else:
            frames.append(lines(log, topic))
        spans.append(log.select(sf.lit(topic).alias("topic"), "topic_id", "partition", "offset"))
    if not frames:
        raise HistoryError(
            f"the lakehouse has no log of a table of source {source}",
            hint="set TIDINGS_SOURCE to the connector's topic.prefix",
        )
    check_whole(session, logs)
    topics = [transaction_topic(source), *logs.values()]
    for table, condition, headers in (
        (TRANSACTION_LOG, sf.lit(True), header_columns(session, source)),
        (QUARANTINE, sf.col("stream") == "technical", sf.col("headers")),
    ):
        if session.catalog.tableExists(table):
            raw = session.table(table).where(condition & sf.col("topic").isin(topics))
            frames.append(_raw_lines(raw.withColumn("headers", headers)))
            spans.append(raw.select("topic", "topic_id", "partition", "offset"))
    found = _manifest(union(spans), source)
    (
        union(frames)
        .repartition("topic", "partition")
        .sortWithinPartitions("topic", "partition", "offset")
        .drop("offset")
        .write.partitionBy("topic", "partition")
        .option("compression", "gzip")
        .text(directory.absolute().as_uri())
    )
    (directory / MANIFEST).write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    return found


def logs_of_source(session: SparkSession, source: str) -> dict[str, str]:
    """Log table to topic, of one source."""
    names = known_names(session)
    found = {}
    for row in session.sql(f"SHOW TABLES IN {TECHNICAL}").collect():
        name = f"{TECHNICAL}.{row['tableName']}"
        topic = session.sql(f"SHOW TBLPROPERTIES {name} ('{TOPIC_PROPERTY}')").collect()[0]["value"]
        if (
            name.endswith("_log")
            and topic.startswith(f"{source}.")
            and log_of(names.get((TECHNICAL, topic), name.removesuffix("_log"))) == name
            and "total_order" in session.table(name).columns
        ):
            found[name] = topic
    return found


def check_whole(session: SparkSession, logs: Iterable[str]) -> None:
    """See that nothing of these logs, and of the quarantine, has been let go.

    Raises:
        HistoryError: old rows of one are not there any more.
    """
    held = [QUARANTINE] if session.catalog.tableExists(QUARANTINE) else []
    for name in [*sorted(logs), *held]:
        properties = {row["key"]: row["value"] for row in session.sql(f"SHOW TBLPROPERTIES {name}").collect()}
        if first := properties.get(RETAINED_PROPERTY):
            raise HistoryError(
                f"{name} has no rows of records before {first}, by TIDINGS_LAKEHOUSE_RETENTION, so history is not whole",
                hint="begin from the topics if they hold all of it, or from a new snapshot under another topic.prefix",
            )


def _manifest(places: DataFrame, source: str) -> dict[str, Any]:
    rows = (
        places.groupBy("topic", "topic_id", "partition")
        .agg(sf.min("offset").alias("first"), sf.max("offset").alias("last"))
        .collect()
    )
    topics: dict[str, Any] = {}
    for row in sorted(rows):
        topic = topics.setdefault(row["topic"], {"id": row["topic_id"], "partitions": {}})
        if topic["id"] != row["topic_id"]:
            raise HistoryError(
                f"the topic {row['topic']} was deleted and made again while it was logged, so offsets do not tell where"
                " its history goes on",
                hint="start the generation from a new snapshot under another topic.prefix",
            )
        topic["partitions"][str(row["partition"])] = {"first": row["first"], "last": row["last"]}
    return {"source": source, "topics": topics}


# --- records


def _lines_of_binlog(log: DataFrame, topic: str) -> DataFrame:
    """Of a MariaDB or a MySQL, whose records count moments in the unit of the column, which the log does not tell: so they are text.

    Raises:
        HistoryError: one is part of a key, whose text has to be what it is on the topic.
    """
    key = log.schema["key"].dataType if "key" in log.columns else None
    for field in key.fields if isinstance(key, st.StructType) else ():
        if isinstance(field.dataType, st.TimestampNTZType | st.TimestampType):
            raise HistoryError(
                f"{topic}: column {field.name} of the key has moments, of which the log does not tell in which unit or with how many"
                " digits the records have them",
                hint="start the generation from the topics, which have to hold all of it: retention.ms=-1",
            )
    return _lines(log, topic, as_text=True)


def _lines(log: DataFrame, topic: str, *, as_text: bool = False) -> DataFrame:
    log = with_incremental(log)
    fields = {field.name: field.dataType for field in log.schema.fields}
    for part in ("before", "after", "key"):
        check_columns(topic, fields.get(part))
    before, after = (_part(name, fields, as_text=as_text) for name in ("before", "after"))
    value = sf.when(sf.col("op").isNotNull(), change_of(topic, before, after))
    record = sf.struct(
        sf.col("offset"), _part("key", fields).alias("key"), value.alias("value"), sf.col("headers")
    )
    return log.select(
        sf.lit(topic).alias("topic"),
        "partition",
        "offset",
        sf.to_json(record, {"ignoreNullFields": "false"}).alias("line"),
    )


def with_incremental(log: DataFrame) -> DataFrame:
    """A log with the column that those of former releases lack."""
    if "incremental" in log.columns:
        return log
    return log.withColumn("incremental", sf.lit(None).cast("boolean"))


def change_of(topic: str, before: Column, after: Column) -> Column:
    """The change event that a row of a log came from, as Debezium's JSON has it.

    Args:
        topic: of the log.
        before: the row before, as `plain` gives it.
        after: the row after.
    """
    schema, table = topic.split(".")[-2:]
    micros = sf.unix_micros("changed_at")
    lsn = sf.coalesce(sf.col("lsn").cast("string"), sf.lit("0"))
    last = sf.col("last_commit_lsn").cast("string")
    sequence = sf.concat(
        sf.lit("["),
        sf.coalesce(sf.concat(sf.lit('"'), last, sf.lit('"')), sf.lit("null")),
        sf.lit(',"'),
        lsn,
        sf.lit('"]'),
    )
    source = sf.struct(
        sf.lit(topic.partition(".")[0]).alias("name"),
        sf.lit("").alias("db"),
        sf.lit(schema).alias("schema"),
        sf.lit(table).alias("table"),
        sf.floor(micros / 1000).cast("long").alias("ts_ms"),
        micros.alias("ts_us"),
        sf.when(is_incremental(), "incremental")
        .when(sf.col("snapshot"), "true")
        .otherwise("false")
        .alias("snapshot"),
        sequence.alias("sequence"),
        sf.col("tx_id").alias("txId"),
        sf.when(~is_incremental(), sf.col("lsn")).alias("lsn"),
    )
    transaction = sf.when(
        sf.col("total_order").isNotNull(),
        sf.struct(
            sf.concat(sf.col("tx_id").cast("string"), sf.lit(":"), lsn).alias("id"),
            sf.col("total_order").alias("total_order"),
            sf.lit(1).alias("data_collection_order"),
        ),
    )
    return sf.struct(
        sf.col("op").alias("op"),
        source.alias("source"),
        before.alias("before"),
        after.alias("after"),
        transaction.alias("transaction"),
    )


def _texts(log: DataFrame, topic: str) -> DataFrame:
    """Records that a log has kept as text."""
    key, value = (sf.col(name).cast("binary") for name in (KEY_TEXT, VALUE_TEXT))
    return log.select(
        sf.lit(topic).alias("topic"), "partition", "offset", key.alias("key"), value.alias("value"), "headers"
    )


def _raw_lines(records: DataFrame) -> DataFrame:
    record = sf.struct(
        "offset", _base64_line("key").alias("raw_key"), _base64_line("value").alias("raw_value"), "headers"
    )
    return records.select("topic", "partition", "offset", sf.to_json(record).alias("line"))


def _part(name: str, fields: dict[str, st.DataType], *, as_text: bool = False) -> Column:
    return plain(sf.col(name), fields[name], as_text=as_text) if name in fields else sf.lit(None)


def plain(column: Column, data_type: st.DataType, *, as_text: bool = False) -> Column:
    """A value of a log as Debezium's JSON has it.

    Args:
        as_text: times with a date, without a zone, as text whose unit nobody can mistake, in place of microseconds.
    """
    if isinstance(data_type, st.StructType):
        names = data_type.names
        own = [field for field in data_type.fields if not is_mark(field.name, names)]
        parts = [plain_field(column, field, names, as_text=as_text).alias(field.name) for field in own]
        return sf.when(column.isNotNull(), sf.struct(*parts))
    if isinstance(data_type, st.ArrayType):
        element = data_type.elementType
        return sf.transform(column, lambda one: plain(one, element, as_text=as_text))
    if isinstance(data_type, st.MapType):
        inner = data_type.valueType
        return sf.transform_values(column, lambda _, one: plain(one, inner, as_text=as_text))
    if isinstance(data_type, st.DateType):
        return sf.unix_date(column)
    if isinstance(data_type, st.TimestampNTZType):
        return _moment_text(column) if as_text else sf.unix_micros(column.cast("timestamp"))
    if isinstance(data_type, st.TimestampType):
        return _zoned(column)
    if isinstance(data_type, st.DecimalType):
        return column.cast("string")
    return column


def plain_field(row: Column, field: st.StructField, names: Sequence[str], *, as_text: bool = False) -> Column:
    """A field of a row as Debezium's JSON has it, an infinity included that is null with a mark.

    Args:
        names: of the row's fields.
        as_text: see `plain`.
    """
    value = plain(row[field.name], field.dataType, as_text=as_text)
    is_marked = isinstance(field.dataType, st.DateType | st.TimestampNTZType | st.TimestampType)
    mark = mark_of(field.name)
    if not (is_marked and mark in names):
        return value
    return marked(value, row[mark], field.dataType, as_text=as_text)


def _moment_text(column: Column) -> Column:
    """A timestamp whose unit nobody can mistake; what is outside of the calendar (infinity) stays a number, which no field takes."""
    inside = (sf.year(column) >= 1) & (sf.year(column) <= 9999)
    text = sf.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    return sf.when(inside, text).otherwise(sf.unix_micros(column.cast("timestamp")).cast("string"))


def _zoned(column: Column) -> Column:
    """As Java's ISO_OFFSET_DATE_TIME: no more digits of a second than there are."""
    text = sf.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")
    text = sf.regexp_replace(sf.regexp_replace(text, "0+$", ""), r"\.$", "")
    micros = sf.unix_micros(column)
    return (
        sf.when(micros == INFINITY_MICROSECONDS, "infinity")
        .when(micros == MINUS_INFINITY_MICROSECONDS, "-infinity")
        .otherwise(sf.concat(text, sf.lit("Z")))
    )


def _base64_line(name: str) -> Column:
    return sf.regexp_replace(sf.base64(name), r"\s", "")


def check_columns(topic: str, data_type: st.DataType | None) -> None:
    """Refuse a log with columns that have changed their type: which of two columns a record had is not told any more."""
    if not isinstance(data_type, st.StructType):
        return
    fields = {field.name: field.dataType for field in data_type.fields}
    for name, wanted in fields.items():
        base = name.partition("__")[0]
        if base != name and base in fields and target_name({base: fields[base]}, base, wanted) == name:
            raise HistoryError(
                f"{topic}: column {base} has changed its type, and its log has two columns for it, {base} and {name}",
                hint="this history cannot be read from the lakehouse; keep the topics, or take a new snapshot under another"
                " topic.prefix",
            )
