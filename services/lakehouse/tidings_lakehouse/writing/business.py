"""Writes a batch of business events: one row per event id, quarantine, watermark; each step idempotent.

An event whose id the table has is not written again, so a batch that is repeated after a crash, and an event that
stands on the topic twice, change nothing.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.decoding.batches import Kept, TopicSurvey, mark_commits, surveyed, tune, union
from tidings_lakehouse.decoding.events import (
    REASON,
    EventDecoder,
    check_event,
    event_schema,
    failed,
    first_by_id,
    of_times,
    payload_name,
    without_known,
)
from tidings_lakehouse.decoding.poison import survey_one
from tidings_lakehouse.decoding.schemas import Planner
from tidings_lakehouse.failpoints import Failpoint
from tidings_lakehouse.formats.registry import SchemaSource
from tidings_lakehouse.metrics import FRESHNESS, QUARANTINED, ROWS
from tidings_lakehouse.phases import Phases
from tidings_lakehouse.spark.kafka import Brokers
from tidings_lakehouse.spark.parallel import Workers
from tidings_lakehouse.spark.small import KeptPlan, LocalRows, is_local
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.erased import ERASED_PROPERTY, beyond_erased, offsets_of_text
from tidings_lakehouse.tables.names import Names
from tidings_lakehouse.tables.positions import PartitionId
from tidings_lakehouse.tables.system_tables import QuarantineTable, Watermark, WatermarkTable
from tidings_lakehouse.tables.tables import Table
from tidings_lakehouse.tables.troubles import trouble_of_topic
from tidings_lakehouse.topics import BUSINESS
from tidings_lakehouse.writing.new_events import NewEvents
from tidings_lakehouse.writing.set_aside import Missed, SetAside, first_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = "business"


@dataclass
class _Decoded:
    topic: str
    table: Table
    survey: TopicSurvey
    records: DataFrame
    decoder: EventDecoder
    events: DataFrame

    def keep(self, rows: DataFrame) -> None:
        """Have events instead of those that it has."""
        self.events.unpersist()
        self.events = rows.persist(StorageLevel.MEMORY_AND_DISK)


class BusinessWriter:
    """Writes batches of the business stream."""

    def __init__(
        self,
        session: SparkSession,
        schemas: SchemaSource,
        brokers: Brokers,
        failpoint: Failpoint,
        commits: Commits,
        names: Names,
        local: LocalRows,
    ) -> None:
        self._session = session
        self._plans = Planner(schemas, check_event)
        self._brokers = brokers
        self._failpoint = failpoint
        self._commits = commits
        self._names = names
        self._tables: dict[str, Table] = {}
        self._erased: dict[str, dict[PartitionId, int]] = {}
        self._decoders: dict[str, EventDecoder] = {}
        self._plans_kept: dict[str, KeptPlan] = {}
        self._local = local
        self._few = NewEvents(session, local)
        self._workers = Workers(session)
        self._quarantine = QuarantineTable(session, STREAM, commits)
        self._watermark = WatermarkTable(session, STREAM, commits)
        self.aside = SetAside(session, STREAM, commits)
        self.phases = Phases(STREAM)
        self.newest: dict[str, dt.datetime] = {}
        """By topic, the time of its newest event that is readable."""

    def write(self, batch: DataFrame, batch_id: int, query_id: str) -> list[str]:
        """Write one batch; gives the tables it changed. Errors as for `TechnicalWriter.write`."""
        self.phases.begin()
        with surveyed(batch, self._local) as (kept, topics):
            self.phases.end("read")
            self._failpoint("survey")
            if not topics:
                return []
            tune(batch.sparkSession, sum(survey.records for survey in topics.values()))
            mark_commits(batch.sparkSession, query_id=query_id, batch_id=batch_id, topics=topics)
            ids = self._brokers.topic_ids(topics)
            self._names.assign(BUSINESS, topics)
            decoded = []
            for topic, survey in topics.items():
                if topic in self.aside:
                    continue
                one = self._attempt(
                    survey,
                    topic,
                    lambda topic=topic, survey=survey: self._decode(kept, topic, ids[topic], survey),
                )
                if one is not None:
                    decoded.append(one)
            self.phases.end("decode")
            try:
                return self._write(batch.sparkSession, decoded, batch_id, ids)
            finally:
                for one in decoded:
                    one.events.unpersist()

    def write_missed(self, session: SparkSession, records: DataFrame, missed: Missed) -> None:
        """Write what a topic has missed that is set aside; raises what goes wrong, also by its own trouble."""
        self._tables.pop(missed.topic, None)
        with surveyed(records, self._local) as (kept, topics):
            survey = topics.get(missed.topic)
            if survey is None:
                return
            self._commits.mark(session)
            tune(session, survey.records)
            mark_commits(session, query_id="set-aside", batch_id=-1, topics=topics)
            one = self._decode(kept, missed.topic, missed.topic_id, survey)
            try:
                statistics = survey_one(one, _statistics)[one.topic]
                self._write_one(session, one, statistics)
                self._put_in_quarantine([one], {one.topic: statistics}, {one.topic: missed.topic_id})
            finally:
                one.events.unpersist()

    def rejoined(self) -> None:
        """Topics have come to their end: nothing else waits for them."""

    def close(self) -> None:
        """No batch comes any more."""
        self._workers.close()

    def rest(self, *, is_last: bool) -> list[str]:  # noqa: ARG002 - as the other stream's writer has it
        """Nothing is left to be read, and nothing waits for that."""
        return []

    def _attempt(self, survey: TopicSurvey, topic: str, action: Any) -> Any:
        """Do something for a topic, which is set aside if that fails by its own trouble."""
        result = self.aside.attempt(
            topic,
            lambda: self._brokers.topic_ids([topic])[topic],
            lambda: first_offsets(survey, {}),
            action,
        )
        if topic in self.aside:
            self._tables.pop(topic, None)
        return result

    def _decode(self, kept: Kept, topic: str, topic_id: str, survey: TopicSurvey) -> _Decoded:
        plan = self._plans.plan(f"{topic}-value", survey.value_ids)
        table = self._tables.get(topic)
        if table is None:
            table = self._tables[topic] = Table(
                self._session, self._names.of(BUSINESS, topic), topic, self._commits
            )
            self._erased[topic] = offsets_of_text(table.property(ERASED_PROPERTY) if table.exists else "")
        schema = table.ensure(event_schema(plan), partitioned_by=["days(__timestamp)"])
        if (told := plan.describing(survey.value_ids)) is not None:
            table.comment(told.by_column(payload_name))
        decoder = self._decoders.get(topic)
        if decoder is None or decoder.made_for != (topic_id, plan, schema):
            decoder = self._decoders[topic] = EventDecoder(topic_id, plan, schema)
            self._plans_kept.pop(topic, None)
        own = kept.records.where(sf.col("topic") == topic)
        events = self._decoded_here(topic, decoder, kept.here)
        if events is None:
            events = decoder.decode(own).persist(StorageLevel.MEMORY_AND_DISK)
        return _Decoded(topic, table, survey, own, decoder, events)

    def _decoded_here(self, topic: str, decoder: EventDecoder, records: DataFrame | None) -> DataFrame | None:
        """A topic's part of a small batch; None when the batch is not, or a record ends the decoder."""
        if records is None:
            return None
        try:
            plan = self._plans_kept.get(topic)
            if plan is None:
                plan = self._plans_kept[topic] = self._local.plan(
                    records, lambda rows: decoder.decode(rows.where(sf.col("topic") == topic))
                )
            return plan.of(records)
        except (PySparkException, Py4JJavaError) as error:
            if trouble_of_topic(error) is None:
                raise
            return None  # a job finds the record

    def _write(
        self, session: SparkSession, decoded: list[_Decoded], batch_id: int, ids: dict[str, str]
    ) -> list[str]:
        found = self._survey_rows(decoded)
        self.phases.end("statistics")
        written: list[str] = []
        watermarks = []
        done = []

        def write(one: _Decoded) -> list[str]:
            if one.topic in self.aside:
                return []
            return (
                self._attempt(one.survey, one.topic, lambda: self._write_one(session, one, found[one.topic]))
                or []
            )

        for one, tables in zip(decoded, self._workers.each(session, decoded, write), strict=True):
            if one.topic in self.aside:
                continue
            statistics = found[one.topic]
            done.append(one)
            written += tables
            watermarks.append(Watermark(one.table.name, one.topic, None, None, None, statistics["newest"]))
            if statistics["newest"] is not None:
                self.newest[one.topic] = statistics["newest"]
        self.phases.end("tables")
        self._put_in_quarantine(done, found, ids)
        self.phases.end("quarantine")
        self._watermark.take(watermarks, batch_id)
        self._watermark.write()
        self.phases.end("watermark")
        self._failpoint("watermark")
        return written

    def _survey_rows(self, decoded: list[_Decoded]) -> dict[str, Any]:
        """The rows' statistics; where what all topics have in common fails, those of one topic after the other."""
        if not decoded:
            return {}
        try:
            return _statistics(decoded)
        except Exception as error:
            if trouble_of_topic(error) is None:
                raise
        found: dict[str, Any] = {}
        for one in decoded:
            found |= self._attempt(one.survey, one.topic, lambda one=one: survey_one(one, _statistics)) or {}
        return found

    def _write_one(self, session: SparkSession, one: _Decoded, statistics: Any) -> list[str]:
        written = []
        if statistics["good"] and one.table.schema is not None:
            with self.phases.of_table(one.table.name):
                one.table.append(self._new_events(session, one, statistics))
            ROWS.labels(one.table.name).inc(statistics["good"])
            self._failpoint(f"event:{one.table.name}")
            written.append(one.table.name)
        if statistics["newest"] is not None:
            age = (dt.datetime.now() - statistics["newest"]).total_seconds()  # noqa: DTZ005 - Spark gives local times
            FRESHNESS.labels(one.table.name).set(max(0.0, age))
        return written

    def _new_events(self, session: SparkSession, one: _Decoded, statistics: Any) -> DataFrame:
        """The events of a topic's part of a batch that the table lacks."""
        is_here, erased, schema = is_local(one.events), self._erased.get(one.topic), one.table.schema
        if is_here and not erased and (few := self._few.of(one.table, one.events, statistics)) is not None:
            return few
        events = one.events.coalesce(1) if is_here else one.events
        if erased:
            events = beyond_erased(events, erased, one.decoder.made_for[0])
        known = session.table(one.table.name).where(
            of_times(statistics["oldest"], statistics["newest"], has_timeless=bool(statistics["timeless"]))
        )
        new = without_known(first_by_id(events, [] if schema is None else schema.names), known).coalesce(1)
        return self._local.collected(new) if is_here else new

    def _put_in_quarantine(self, decoded: list[_Decoded], found: dict[str, Any], ids: dict[str, str]) -> None:
        broken = [one for one in decoded if found[one.topic]["failed"]]
        if not broken:
            return
        offsets: dict[PartitionId, int] = {}
        for one in broken:
            offsets |= one.survey.last_offsets(ids[one.topic])
        self._quarantine.append(
            union([self._quarantine.rows(failed(one.events), one.topic, ids[one.topic]) for one in broken]),
            offsets,
        )
        for one in broken:
            QUARANTINED.labels(one.topic).inc(found[one.topic]["failed"])
        self._failpoint("quarantine")


def _statistics(decoded: list[_Decoded]) -> dict[str, Any]:
    """Counts of every topic, in one job, which also decodes and keeps the rows of all topics."""
    frames = [
        one.events.select(sf.lit(one.topic).alias("topic"), sf.col(REASON).alias("reason"), "ce_time")
        for one in decoded
    ]
    whole = union(frames)
    if all(is_local(one.events) for one in decoded):
        whole = whole.coalesce(1)
    rows = (
        whole.groupBy("topic")
        .agg(
            sf.count_if(sf.col("reason").isNull()).alias("good"),
            sf.count_if(sf.col("reason").isNotNull()).alias("failed"),
            sf.max("ce_time").alias("newest"),
            sf.min("ce_time").alias("oldest"),
            sf.count_if(sf.col("reason").isNull() & sf.col("ce_time").isNull()).alias("timeless"),
        )
        .collect()
    )
    return {row["topic"]: row for row in rows}
