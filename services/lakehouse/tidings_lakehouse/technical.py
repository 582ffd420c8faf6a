"""Writes a batch of change events: logs, current states, quarantine, watermark; each step idempotent.

A crash behind any of them is followed by the same batch again (or, without a checkpoint, by all batches again):

0. the log of the transaction topic appends only offsets that it does not hold;
1. the log appends only offsets that it does not hold;
2. the current state takes a change only if its position is newer than the row's, and a late row is compared with the
   deletes in the log, so that it cannot bring a deleted row back;
3. the quarantine appends only offsets that it does not hold;
4. the watermark, written last, says only what is already in the tables.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.batches import TopicSurvey, mark_commits, surveyed, tune, union
from tidings_lakehouse.changes import (
    POSITION_FIELDS,
    SOURCE_FIELDS,
    ChangeDecoder,
    CurrentShape,
    check_envelope,
    check_key,
    current_shape,
    log_schema,
    merge_statement,
    newest_changes,
    newest_truncate,
    since,
    truncate_statement,
    with_position,
    without_deleted,
)
from tidings_lakehouse.columns import column_type
from tidings_lakehouse.commits import Commits
from tidings_lakehouse.failpoints import Failpoint
from tidings_lakehouse.fills import default_value, fill_statement, literal
from tidings_lakehouse.kafka import Brokers
from tidings_lakehouse.metrics import FRESHNESS, POSSIBLE_RENAMES, QUARANTINED, ROWS
from tidings_lakehouse.names import Names
from tidings_lakehouse.positions import Progress, beyond, spans_of, statistics
from tidings_lakehouse.registry import SchemaSource
from tidings_lakehouse.schemas import DecodingPlan, Planner
from tidings_lakehouse.system_tables import QuarantineTable, Watermark, WatermarkTable
from tidings_lakehouse.tables import Table, ddl, safe_name
from tidings_lakehouse.topics import TECHNICAL, log_of
from tidings_lakehouse.transactions import TransactionLog
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = "technical"
_LOG = get_logger("tidings_lakehouse.technical")
_FILLED = "tidings.filled"
"""Property of a table: columns whose defaults all rows have, see `fills`."""


@dataclass
class _Target:
    """The tables of one topic."""

    topic: str
    log: Table
    current: Table
    progress: Progress = field(default_factory=Progress)
    decoder: ChangeDecoder | None = None
    filled: set[str] | None = None
    """Columns whose defaults all rows have; None: not asked yet."""


@dataclass(frozen=True)
class _Decoded:
    """One topic's part of a batch."""

    target: _Target
    survey: TopicSurvey
    changes: DataFrame


class TechnicalWriter:
    """Writes batches of the technical stream; keeps what it knows of the tables between them."""

    def __init__(
        self,
        session: SparkSession,
        schemas: SchemaSource,
        brokers: Brokers,
        failpoint: Failpoint,
        commits: Commits,
        names: Names,
        *,
        transactions: str,
    ) -> None:
        self._session = session
        self._transactions = TransactionLog(session, transactions, commits)
        self._values = Planner(schemas, check_envelope, keep={"source": SOURCE_FIELDS})
        self._keys = Planner(schemas, check_key)
        self._brokers = brokers
        self._failpoint = failpoint
        self._commits = commits
        self._names = names
        self._targets: dict[str, _Target] = {}
        self._quarantine = QuarantineTable(session, STREAM, commits)
        self._watermark = WatermarkTable(session, STREAM, commits)

    def write(self, batch: DataFrame, batch_id: int, query_id: str) -> list[str]:
        """Write one batch; gives the tables it changed.

        Raises:
            RegistryUnreachableError, KafkaUnreachableError: nothing of the batch is lost, it will be read again.
            TableConflictError: two topics claim one table.
        """
        with surveyed(batch) as (records, topics):
            self._failpoint("survey")
            if not topics:
                return []
            tune(batch.sparkSession, sum(survey.records for survey in topics.values()))
            mark_commits(batch.sparkSession, query_id=query_id, batch_id=batch_id, topics=topics)
            ids = self._brokers.topic_ids(topics)
            written = self._write_markers(records, ids, topics)
            self._names.assign(TECHNICAL, topics)
            decoded = [self._decode(records, topic, ids[topic], survey) for topic, survey in topics.items()]
            if not decoded:
                return written
            try:
                return written + self._write(batch.sparkSession, decoded, batch_id, ids)
            finally:
                for one in decoded:
                    one.changes.unpersist()

    def _write_markers(
        self, records: DataFrame, ids: dict[str, str], topics: dict[str, TopicSurvey]
    ) -> list[str]:
        log = self._transactions
        survey = topics.pop(log.topic, None)
        if survey is None:
            return []
        name = log.append(records, ids[log.topic], survey)
        self._failpoint("transactions")
        return [name]

    def _decode(self, records: DataFrame, topic: str, topic_id: str, survey: TopicSurvey) -> _Decoded:
        values = self._values.plan(f"{topic}-value", survey.value_ids)
        keys = self._keys.plan(f"{topic}-key", survey.key_ids)
        target = self._target(topic)
        schema = target.log.ensure(log_schema(values, keys))
        if target.decoder is None or target.decoder.made_for != (topic_id, values, keys, schema):
            target.decoder = ChangeDecoder(topic_id, values, keys, schema)
        changes = target.decoder.decode(records.where(sf.col("topic") == topic))
        return _Decoded(target, survey, changes.persist(StorageLevel.MEMORY_AND_DISK))

    def _target(self, topic: str) -> _Target:
        target = self._targets.get(topic)
        if target is None:
            name = self._names.of(TECHNICAL, topic)
            log = Table(self._session, log_of(name), topic, self._commits)
            target = _Target(topic, log, Table(self._session, name, topic, self._commits))
            if log.exists:
                held = self._session.table(log.name).withColumn("reason", sf.lit(None).cast("string"))
                rows = held.groupBy("topic_id", "partition").agg(*statistics()).collect()
                target.progress.advance(spans_of(rows))
            self._targets[topic] = target
        return target

    def _write(
        self, session: SparkSession, decoded: list[_Decoded], batch_id: int, ids: dict[str, str]
    ) -> list[str]:
        found = _statistics(decoded)
        written: list[str] = []
        watermarks: list[Watermark] = []
        for one in decoded:
            rows = found.get(one.target.topic, [])
            written += self._append(one, rows)
            written += self._merge(session, one, rows)
            one.target.progress.advance(spans_of(rows))
            watermarks += _watermarks(one, rows)
            _tell_freshness(one, rows)
        self._set_aside(decoded, ids, found)
        self._watermark.write(watermarks, batch_id)
        self._failpoint("watermark")
        return written

    def _append(self, one: _Decoded, rows: list[Any]) -> list[str]:
        log, progress = one.target.log, one.target.progress
        count = sum(row["records"] - row["failed"] for row in rows)
        if not count or log.schema is None:
            return []
        new = one.changes.where("reason IS NULL")
        spans = spans_of(rows)
        topic_id = next(iter(spans)).topic_id
        if any(span.first_offset <= progress.offsets.get(key, -1) for key, span in spans.items()):
            condition = beyond(progress.offsets, topic_id)
            new = new if condition is None else new.where(condition)
            if all(span.last_offset <= progress.offsets.get(key, -1) for key, span in spans.items()):
                return []
        log.append(new.select(*log.schema.names))
        ROWS.labels(log.name).inc(count)
        self._failpoint(f"log:{log.name}")
        return [log.name]

    def _merge(self, session: SparkSession, one: _Decoded, rows: list[Any]) -> list[str]:
        target = one.target
        shape = None if target.log.schema is None else current_shape(target.log.schema)
        if shape is None or not sum(row["records"] - row["failed"] for row in rows):
            return []
        is_new = not target.current.exists
        _tell_rename(one, shape)
        target.current.ensure(shape.schema)
        spans = spans_of(rows)
        snapshot_lsn = target.progress.snapshot_with(spans)
        missing = sorted({name for row in rows for name in row["unavailable"]})
        newest = newest_changes(with_position(one.changes, snapshot_lsn), shape, missing)
        truncated = None
        if target.progress.is_late(spans):
            log = session.table(target.log.name)
            newest = without_deleted(newest, log, shape, snapshot_lsn)
            truncated = newest_truncate(log, snapshot_lsn)
        elif any(row["truncates"] for row in rows):
            truncated = newest_truncate(one.changes.where("reason IS NULL"), snapshot_lsn)
        if truncated is not None:
            newest = since(newest, truncated)
        view = f"newest_{target.current.name.rpartition('.')[2]}"
        newest.createOrReplaceTempView(view)
        fills = self._fills(one, shape, is_new=is_new)
        with target.current.staged() as name:
            if truncated is not None:
                session.sql(truncate_statement(name, truncated))
            session.sql(merge_statement(name, view, shape, _columns(shape, missing)))
            if fills:
                session.sql(fill_statement(name, fills))
        self._note_fills(target)
        ROWS.labels(target.current.name).inc(sum(row["records"] - row["failed"] for row in rows))
        self._failpoint(f"current:{target.current.name}")
        return [target.current.name]

    def _fills(self, one: _Decoded, shape: CurrentShape, *, is_new: bool) -> dict[str, str]:
        """By column, the default that rows from before the column have, where some may lack it."""
        decoder, target = one.target.decoder, one.target
        if decoder is None or not decoder.made_for[1].defaults:
            return {}
        if target.filled is None:
            target.filled = set(filter(None, target.current.property(_FILLED).split(",")))
        plan, found = decoder.made_for[1], {}
        types = {field.name: field.dataType for field in shape.schema.fields}
        for name, default in plan.defaults.items():
            column = safe_name(name)
            lacking = any(name not in plan.rows.get(id_, {name}) for id_ in one.survey.value_ids)
            if column not in types or (not lacking and (is_new or column in target.filled)):
                continue
            value = _default(plan, name, default, types[column])
            if value is None:
                _LOG.warning(
                    "rows from before a column was added may lack its default, which cannot be read",
                    table=target.current.name,
                    column=column,
                )
                continue
            text = self._session.range(1, numPartitions=1).select(value.cast("string")).collect()[0][0]
            found[column] = literal(text, ddl(types[column]))
        return found

    def _note_fills(self, target: _Target) -> None:
        decoder = target.decoder
        if decoder is None or target.filled is None:
            return
        filled = {safe_name(name) for name in decoder.made_for[1].defaults}
        if not filled <= target.filled:
            target.filled |= filled
            target.current.set_property(_FILLED, ",".join(sorted(filter(_is_plain, target.filled))))

    def _set_aside(self, decoded: list[_Decoded], ids: dict[str, str], found: dict[str, list[Any]]) -> None:
        counts = {topic: sum(row["failed"] for row in rows) for topic, rows in found.items()}
        failed = [one for one in decoded if counts.get(one.target.topic)]
        if not failed:
            return
        self._quarantine.append(
            union(
                [
                    self._quarantine.rows(one.changes, one.target.topic, ids[one.target.topic])
                    for one in failed
                ]
            )
        )
        for one in failed:
            QUARANTINED.labels(one.target.topic).inc(counts[one.target.topic])
        self._failpoint("quarantine")


def _tell_rename(one: _Decoded, shape: CurrentShape) -> None:
    """Say so when a column comes as another goes: a RENAME COLUMN looks like that, and is not in the log."""
    held, decoder = one.target.current.schema, one.target.decoder
    if held is None or decoder is None or not decoder.made_for[1].rows:
        return
    rows = decoder.made_for[1].rows
    newest = {safe_name(name) for name in rows[max(rows)]}
    positions = {field.name for field in POSITION_FIELDS}
    came = sorted(newest & set(shape.columns) - set(held.names))
    gone = sorted(set(held.names) - newest - positions)
    if came and gone:
        POSSIBLE_RENAMES.labels(one.target.current.name).inc()
        _LOG.warning(
            "a column came as another one went: if it was renamed, older rows have their values under the former name",
            table=one.target.current.name,
            came=came,
            gone=gone,
        )


def _default(plan: DecodingPlan, name: str, default: Any, wanted: st.DataType) -> Column | None:
    """The default of a row's field, if it is of the type that its column has."""
    for group in plan.groups:
        row = group.reader.field("after")
        node = None if row is None else row.field(name)
        if node is not None and column_type(node).sql == wanted:
            return default_value(node, default)
    return None


def _is_plain(name: str) -> bool:
    """Whether a property can hold the name in a list; the column of another is filled again at each start."""
    return not set(name) & {",", "'", "\\"}


def _columns(shape: CurrentShape, fields: list[str]) -> list[str]:
    return [column for column, name in shape.columns.items() if name in fields and column not in shape.keys]


def _statistics(decoded: list[_Decoded]) -> dict[str, list[Any]]:
    """Statistics of every topic and partition, in one job, which also decodes and keeps the rows of all topics."""
    frames = [
        one.changes.select(
            sf.lit(one.target.topic).alias("topic"),
            "topic_id",
            "partition",
            "offset",
            "op",
            "snapshot",
            "last_commit_lsn",
            "lsn",
            "changed_at",
            "reason",
            "unavailable",
        )
        for one in decoded
    ]
    rows = (
        union(frames)
        .groupBy("topic", "topic_id", "partition")
        .agg(*statistics(), sf.array_distinct(sf.flatten(sf.collect_set("unavailable"))).alias("unavailable"))
        .collect()
    )
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row["topic"], []).append(row)
    return found


def _tell_freshness(one: _Decoded, rows: list[Any]) -> None:
    newest = _newest(rows)
    if newest is not None:
        seconds = max(0.0, (dt.datetime.now() - newest).total_seconds())  # noqa: DTZ005 - Spark gives local times
        for table in (one.target.current, one.target.log):
            FRESHNESS.labels(table.name).set(seconds)


def _newest(rows: list[Any]) -> dt.datetime | None:
    return max((row["changed_at"] for row in rows if row["changed_at"] is not None), default=None)


def _watermarks(one: _Decoded, rows: list[Any]) -> list[Watermark]:
    progress = one.target.progress
    newest = progress.newest_position
    return [
        Watermark(
            table.name,
            one.target.topic,
            progress.complete_lsn,
            None if newest is None else newest.commit_lsn,
            None if newest is None else newest.lsn,
            _newest(rows),
        )
        for table in (one.target.current, one.target.log)
        if table.exists
    ]
