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
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.batches import TopicSurvey, mark_commits, planned_offsets, surveyed, tune, union
from tidings_lakehouse.changes import (
    HEADERS,
    PLACE,
    POSITION_FIELDS,
    SOURCE_FIELDS,
    ChangeDecoder,
    CurrentShape,
    check_envelope,
    check_key,
    current_shape,
    incomplete,
    is_incremental,
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
from tidings_lakehouse.kafka import Brokers, Offsets
from tidings_lakehouse.metrics import FRESHNESS, POSSIBLE_RENAMES, QUARANTINED, ROWS
from tidings_lakehouse.names import Names
from tidings_lakehouse.positions import PartitionId, Progress, Span, beyond, spans_of, statistics
from tidings_lakehouse.registry import SchemaSource
from tidings_lakehouse.schemas import DecodingPlan, Planner
from tidings_lakehouse.source_watermark import SourceWatermark, countable
from tidings_lakehouse.system_tables import QuarantineTable, Watermark, WatermarkTable
from tidings_lakehouse.tables import Table, ddl, safe_name
from tidings_lakehouse.topics import TECHNICAL, TRANSACTION_LOG, log_of, transaction_topic
from tidings_lakehouse.transactions import Markers, TransactionLog
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
        source: str,
        pattern: str,
        checkpoint: str,
        deadline: float,
    ) -> None:
        """
        Args:
            source: the topic prefix.
            pattern: of the topics that the query reads, as a whole.
            checkpoint: URI of the query's.
            deadline: seconds after which the watermark passes a commit without rows that do not come.
        """
        self._session = session
        self._source = source
        self._checkpoint = checkpoint
        self._transactions = TransactionLog(
            session,
            transaction_topic(source),
            schemas,
            lambda topic: re.fullmatch(pattern, topic) is not None,
            commits,
        )
        self._values = Planner(schemas, check_envelope, keep={"source": SOURCE_FIELDS})
        self._keys = Planner(schemas, check_key)
        self._brokers = brokers
        self._failpoint = failpoint
        self._commits = commits
        self._names = names
        self._targets: dict[str, _Target] = {}
        self._quarantine = QuarantineTable(session, STREAM, commits)
        self._watermark = WatermarkTable(session, STREAM, commits)
        self._complete = SourceWatermark(
            self._transactions, self._watermark, lambda: brokers.ends(pattern), deadline
        )
        self._lacking: dict[str, DataFrame] = {}
        """By topic, changes of the present batch that lack values: see `incomplete`."""

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
            read = planned_offsets(self._session, self._checkpoint, batch_id)
            markers = self._write_markers(records, ids, topics)
            self._count_held(markers, read)
            written = [] if markers is None else [TRANSACTION_LOG]
            self._names.assign(TECHNICAL, topics)
            decoded = [self._decode(records, topic, ids[topic], survey) for topic, survey in topics.items()]
            try:
                tables, watermarks, found = self._write(batch.sparkSession, decoded, ids, read)
                self._write_watermarks(decoded, watermarks, found, markers, read, batch_id)
                return written + tables
            finally:
                for one in decoded:
                    one.changes.unpersist()

    def _write_markers(
        self, records: DataFrame, ids: dict[str, str], topics: dict[str, TopicSurvey]
    ) -> Markers | None:
        log = self._transactions
        survey = topics.pop(log.topic, None)
        if survey is None:
            return None
        markers = log.append(records, ids[log.topic], survey)
        self._failpoint("transactions")
        return markers

    def _count_held(self, markers: Markers | None, read: Offsets) -> None:
        """Have the logs counted, too, of tables that END markers name and that rest since this process began."""
        named = {topic for end in (markers.ends if markers else ()) for topic in end.events}
        for topic in sorted((named | self._complete.awaited) & read.keys()):
            self._target(topic)

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
                held = self._held(log).withColumn("reason", sf.lit(None).cast("string"))
                rows = held.groupBy("topic_id", "partition").agg(*statistics()).collect()
                target.progress.advance(spans_of(rows))
                if not self._complete.is_new:
                    self._complete.count(countable(held, topic))
                if any(row["truncates"] for row in rows):
                    placed = with_position(held, {}, windowed=target.progress.has_first)
                    target.progress.note_truncate(newest_truncate(placed))
            self._targets[topic] = target
        return target

    def _held(self, log: Table) -> DataFrame:
        """What a log holds; one of a former release does not say what an incremental snapshot has read."""
        held = self._session.table(log.name)
        if "incremental" not in held.columns:
            held = held.withColumn("incremental", sf.lit(None).cast("boolean"))
        return held

    def _write(
        self, session: SparkSession, decoded: list[_Decoded], ids: dict[str, str], read: Offsets
    ) -> tuple[list[str], list[Watermark], dict[str, list[Any]]]:
        """Tables that were changed, their watermarks, and the rows' statistics."""
        found = _statistics(decoded) if decoded else {}
        written: list[str] = []
        watermarks: list[Watermark] = []
        self._lacking = {}
        for one in decoded:
            rows = found.get(one.target.topic, [])
            written += self._append(one, rows)
            written += self._merge(session, one, rows)
            one.target.progress.advance(spans_of(rows))
            watermarks += _watermarks(one, rows, read)
            _tell_freshness(one, rows)
        self._set_aside(decoded, ids, found)
        for lacking in self._lacking.values():
            lacking.unpersist()
        return written, watermarks, found

    def _write_watermarks(
        self,
        decoded: list[_Decoded],
        watermarks: list[Watermark],
        found: dict[str, list[Any]],
        markers: Markers | None,
        read: Offsets,
        batch_id: int,
    ) -> None:
        complete = self._complete
        if decoded and self._transactions.topic in read:
            frames = [countable(one.changes.where("reason IS NULL"), one.target.topic) for one in decoded]
            complete.count(union(frames))
        complete.read(markers, found)
        watermarks += complete.advance(read)
        self._watermark.take(watermarks, batch_id)
        if complete.has_markers:
            self._watermark.complete(self._source, complete.commit_lsn)
        self._watermark.write()
        self._failpoint("watermark")

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
        missing = _columns(shape, sorted({name for row in rows for name in row["unavailable"]}))
        changes = with_position(
            one.changes,
            self._snapshots_before(target, spans),
            windowed=any(span.first_lsns and span.snapshot_lsns for span in spans.values()),
        )
        newest = newest_changes(changes, shape, missing)
        if target.progress.is_late(spans):
            deletes = with_position(self._held(target.log), {}, windowed=target.progress.has_first)
            newest = without_deleted(newest, deletes, shape)
        truncated = None
        if any(row["truncates"] for row in rows):
            truncated = newest_truncate(changes.where("reason IS NULL"))
            target.progress.note_truncate(truncated)
        if target.progress.truncated is not None and target.progress.is_older_than_truncate(spans):
            newest = since(newest, target.progress.truncated)
        view = f"newest_{target.current.name.rpartition('.')[2]}"
        newest.createOrReplaceTempView(view)
        fills = self._fills(one, shape, is_new=is_new)
        with target.current.staged() as name:
            if truncated is not None:
                session.sql(truncate_statement(name, truncated))
            session.sql(merge_statement(name, view, shape, missing))
            if fills:
                session.sql(fill_statement(name, fills))
        self._note_fills(target)
        ROWS.labels(target.current.name).inc(sum(row["records"] - row["failed"] for row in rows))
        self._failpoint(f"current:{target.current.name}")
        if missing:
            lacking = incomplete(newest, session.table(target.current.name), shape, missing).persist()
            if not lacking.isEmpty():
                self._lacking[target.topic] = lacking
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

    def _snapshots_before(self, target: _Target, spans: Mapping[PartitionId, Span]) -> dict[PartitionId, int]:
        """LSN of the newest snapshot in each partition before a batch, which may be read again."""
        progress = target.progress
        found = dict(progress.snapshots)
        for partition, span in spans.items():
            again = span.first_offset <= progress.offsets.get(partition, -1)
            if span.first_lsns and again and partition in found:
                before = self._held(target.log).where(
                    (sf.col("topic_id") == partition.topic_id)
                    & (sf.col("partition") == partition.partition)
                    & (sf.col("offset") < span.first_offset)
                    & sf.col("snapshot")
                    & ~is_incremental()
                    & sf.col("last_commit_lsn").isNull()
                )
                found[partition] = before.agg(sf.coalesce(sf.max("lsn"), sf.lit(0))).collect()[0][0]
        return found

    def _set_aside(self, decoded: list[_Decoded], ids: dict[str, str], found: dict[str, list[Any]]) -> None:
        frames = []
        for one in decoded:
            topic, name = one.target.topic, one.target.current.name
            if count := sum(row["failed"] for row in found.get(topic, [])):
                frames.append(self._quarantine.rows(one.changes, topic, ids[topic]))
                QUARANTINED.labels(topic).inc(count)
            if (lacking := self._lacking.get(topic)) is not None:
                frames.append(self._quarantine.rows(_without_values(lacking, name), topic, ids[topic]))
                QUARANTINED.labels(topic).inc(lacking.count())
        if frames:
            # In one commit: what it holds is known by its largest offset.
            self._quarantine.append(union(frames))
            self._failpoint("quarantine")


def _without_values(lacking: DataFrame, table: str) -> DataFrame:
    """Changes that `incomplete` gives, as the quarantine takes them: the record itself is in the log."""
    names = sf.transform("unknown", lambda name: sf.concat(sf.lit("after."), name))
    why = sf.concat(
        sf.concat_ws(", ", names),
        sf.lit(
            f": PostgreSQL did not log it, and {table} has no row with this key; the record is in the log"
        ),
    )
    return lacking.select(
        *PLACE,
        why.alias("reason"),
        sf.lit(None).cast("binary").alias("raw_key"),
        sf.lit(None).cast("binary").alias("raw_value"),
        sf.lit(None).cast(HEADERS).alias("headers"),
    )


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
            "incremental",
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


def _watermarks(one: _Decoded, rows: list[Any], read: Offsets) -> list[Watermark]:
    progress = one.target.progress
    newest = progress.newest_position
    return [
        Watermark(
            table.name,
            one.target.topic,
            progress.complete_lsn(map(int, read.get(one.target.topic, {}))),
            None if newest is None else newest.commit_lsn,
            None if newest is None else newest.lsn,
            _newest(rows),
        )
        for table in (one.target.current, one.target.log)
        if table.exists
    ]
