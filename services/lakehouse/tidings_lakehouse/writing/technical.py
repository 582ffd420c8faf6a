"""Writes a batch of change events: logs, current states, quarantine, watermark; each step idempotent.

A crash behind any of them is followed by the same batch again (or, without a checkpoint, by all batches again):

0. the log of the transaction topic appends only offsets that it does not hold;
1. the log appends only offsets that it does not hold;
2. the current state takes a change only if its position is newer than the row's, and a late row is compared with the
   deletes in the log, so that it cannot bring a deleted row back;
3. the quarantine appends only offsets that it does not hold;
4. the watermark, written last, says only what is already in the tables.

What fails by one topic's own trouble sets that topic aside (`set_aside`): it is left out, and the watermark rests.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.choices import Choices
from tidings_lakehouse.decoding.batches import (
    Kept,
    TopicSurvey,
    committed_offsets,
    mark_commits,
    planned_offsets,
    surveyed,
    tune,
)
from tidings_lakehouse.decoding.poison import survey_one
from tidings_lakehouse.failpoints import Failpoint
from tidings_lakehouse.formats.json_schemas import JsonSchemas
from tidings_lakehouse.formats.registry import SchemaSource
from tidings_lakehouse.merge_rules import MergeRule
from tidings_lakehouse.phases import Phases
from tidings_lakehouse.spark.kafka import Brokers, Offsets
from tidings_lakehouse.spark.parallel import Workers
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.names import Names
from tidings_lakehouse.tables.system_tables import QuarantineTable, Watermark, WatermarkTable
from tidings_lakehouse.topics import TECHNICAL, TRANSACTION_LOG, transaction_topic
from tidings_lakehouse.watermark.source_watermark import SourceWatermark, countable
from tidings_lakehouse.watermark.transactions import Markers, TransactionLog
from tidings_lakehouse.writing.later import Later
from tidings_lakehouse.writing.quarantining import put_in_quarantine
from tidings_lakehouse.writing.renames import Renames
from tidings_lakehouse.writing.set_aside import Missed, SetAside, first_offsets
from tidings_lakehouse.writing.targets import Decoded, Target, held_rows
from tidings_lakehouse.writing.technical_rows import (
    statistics_of,
    statistics_of_all,
    tell_freshness,
    watermarks_of,
)
from tidings_lakehouse.writing.technical_tables import TablesWriter
from tidings_lakehouse.writing.topic_decoders import TopicDecoders
from tidings_lakehouse.writing.unordered import decoded_again, unordered
from tidings_lakehouse.writing.watermarks import WatermarkWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = "technical"


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
        local: LocalRows,
        *,
        source: str,
        pattern: str,
        checkpoint: str,
        deadline: float,
        position: Callable[[int | None], int | None],
        merges: Sequence[MergeRule] = (),
        given: Mapping[str, str] | None = None,
        choices: Choices | None = None,
    ) -> None:
        """
        Args:
            source: the topic prefix.
            pattern: of the topics that the query reads, as a whole.
            checkpoint: URI of the query's.
            deadline: seconds after which the watermark passes a commit without rows that do not come.
            position: asks for the commit up to which everything is on the topics, of the replication domain that is given;
                None when that is not known.
            merges: how often current states are merged.
            given: schemas of JSON that brings none; see `given_schemas`.
            choices: how values become columns.
        """
        self._session = session
        self._schemas = schemas = JsonSchemas(schemas, given)
        self._checkpoint = checkpoint
        self._transactions = TransactionLog(
            session,
            transaction_topic(source),
            schemas,
            lambda topic: re.fullmatch(pattern, topic) is not None,
            commits,
        )
        self._renames = Renames(session, source, schemas, commits)
        self._brokers = brokers
        self._failpoint = failpoint
        self._commits = commits
        self._names = names
        self._local = local
        self._decoders = TopicDecoders(
            session,
            schemas,
            commits,
            names,
            local,
            self._renames,
            self._transactions,
            choices=choices or Choices(),
            found=self._count_log,
        )
        self.phases = Phases(STREAM)
        self.newest: dict[str, dt.datetime] = {}
        """By topic, the time of its newest change that is readable."""
        self._tables = TablesWriter(session, failpoint, self._local, self.phases)
        self._workers = Workers(session)
        self.close = self._workers.close
        self._counting = threading.Lock()
        self._quarantine = QuarantineTable(session, STREAM, commits)
        self._watermark = WatermarkTable(session, STREAM, commits)
        self.aside = SetAside(session, STREAM, commits)
        self._complete = SourceWatermark(
            self._transactions,
            self._watermark,
            lambda: brokers.ends(pattern),
            deadline,
            is_paused=bool(self.aside),
        )
        self._later = Later(
            self._tables,
            local,
            merges,
            lambda: self._complete.reached,
            lambda: self._transactions.domain is not None,
        )
        self._marks = WatermarkWriter(
            self._complete,
            self._watermark,
            self._transactions,
            lambda: self._later.waiting,
            lambda: brokers.ends(pattern),
            position,
            source=source,
            failpoint=failpoint,
        )
        self._has_waiting = names.were_merged_later(are_now=self._later.is_used)
        self._batch_id = -1

    def write(self, batch: DataFrame, batch_id: int, query_id: str) -> list[str]:
        """Write one batch; gives the tables it changed.

        Raises:
            RegistryUnreachableError, KafkaUnreachableError: nothing of the batch is lost, it will be read again.
        """
        session = batch.sparkSession
        self.phases.begin()
        with surveyed(batch, self._local, self._schemas) as (kept, topics):
            self.phases.end("read")
            self._failpoint("survey")
            if not topics:
                return []
            self._batch_id = batch_id
            tune(session, sum(survey.records for survey in topics.values()))
            mark_commits(session, query_id=query_id, batch_id=batch_id, topics=topics)
            ids = self._brokers.topic_ids(topics)
            read = planned_offsets(self._session, self._checkpoint, batch_id)
            self._open_waiting(read, topics)
            markers = self._write_markers(kept.nearest, ids, topics)
            written = [] if markers is None else [TRANSACTION_LOG]
            renamed = self._read_renames(kept.nearest, topics)
            self._names.assign(TECHNICAL, topics)
            self._count_held(markers, read, topics)
            self._rename(renamed, read, topics)
            self.phases.end("markers")
            wanted = {topic: survey for topic, survey in topics.items() if topic not in self.aside}
            decoded = self._decode_all(kept, wanted, ids, read)
            self.phases.end("decode")
            try:
                tables, watermarks, found = self._write(session, decoded, ids, read)
                done = [one for one in decoded if one.target.topic not in self.aside]
                self._marks.write(read, self._batch_id, watermarks, (done, found, markers))
                self.phases.end("watermark")
                return written + tables
            finally:
                for one in decoded:
                    one.changes.unpersist()

    def write_missed(self, session: SparkSession, records: DataFrame, missed: Missed) -> None:
        """Write what a topic has missed that is set aside; raises what goes wrong, also by its own trouble."""
        topic, topic_id = missed.topic, missed.topic_id
        self._decoders.forget(topic)
        with surveyed(records, self._local, self._schemas) as (kept, topics):
            survey = topics.get(topic)
            if survey is None:
                return
            self._commits.mark(session)
            tune(session, survey.records)
            mark_commits(session, query_id="set-aside", batch_id=self._batch_id, topics=topics)
            one = self._decoders.decode(kept, topic, topic_id, survey)
            try:
                found = survey_one(one, statistics_of)
                for again, limits in unordered([one], found, self._transactions):
                    found |= decoded_again(again, limits)
                self._tables.begin()
                self._later.write(session, one, found.get(topic, []))
                put_in_quarantine(
                    self._quarantine, [one], self._tables.lacking, {topic: topic_id}, found, self._failpoint
                )
                self._tables.begin()
                read = {topic: dict(missed.stops)}
                self._watermark.take(watermarks_of(one, found.get(topic, []), read), self._batch_id)
            finally:
                one.changes.unpersist()

    def rejoined(self) -> None:
        """Topics have come to their end: the watermark goes on when no other is set aside any more."""
        self._marks.write_again()
        if self.aside:
            return
        self._complete.resume()
        self._decoders.forget_all()  # so that their logs are counted
        read = committed_offsets(self._session, self._checkpoint)
        if read:
            self._has_waiting = self._names.were_merged_later(are_now=self._later.is_used)
            self._open_waiting(read, {})
            self._count_held(None, read, {})
            self._marks.write(read, self._batch_id)

    def rest(self, *, is_last: bool) -> list[str]:
        """Nothing is left to be read: merge what has waited long enough, or waits if this `is_last`, and have the watermark follow the
        position that the source has stored. To be called while no batch is under way; gives the tables that were changed."""
        changed = self._settle(is_last=is_last)
        if self._complete.waits_for_position:
            self._marks.follow(committed_offsets(self._session, self._checkpoint), self._batch_id)
        return changed

    def _open_waiting(self, read: Offsets, topics: dict[str, TopicSurvey]) -> None:
        """Have the watermark know of changes that waited when the process before this one ended.

        Args:
            topics: of the batch under way, which is not written yet.
        """
        if self._has_waiting and read:
            self._has_waiting = False
            self._open(self._names.known(TECHNICAL).keys(), read, topics)

    def _settle(self, *, is_last: bool) -> list[str]:
        if not self._has_waiting and not self._later.due(is_last=is_last):
            return []
        read = committed_offsets(self._session, self._checkpoint)
        self._open_waiting(read, {})
        changed, watermarks = self._later.settle(
            self._session,
            read,
            lambda topic, action: self._attempt(topic, read, None, action),
            self._quarantine,
            is_last=is_last,
        )
        if watermarks:
            self._tables.begin()
            self._marks.write(read, self._batch_id, watermarks)
        return changed

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

    def _read_renames(self, records: DataFrame, topics: dict[str, TopicSurvey]) -> set[str]:
        survey = topics.pop(self._renames.topic, None)
        if survey is None:
            return set()
        told = records.where(sf.col("topic") == self._renames.topic)
        renamed = self._renames.read(told, survey.value_ids)
        self._failpoint("renames")
        return renamed

    def _rename(self, renamed: set[str], read: Offsets, topics: dict[str, TopicSurvey]) -> None:
        """Have tables that there are follow at once, also those that rest."""
        for topic in renamed & read.keys() - self.aside.offsets.keys():
            self._decoders.forget(topic)
        self._open(renamed, read, topics)

    def _open(self, wanted: Iterable[str], read: Offsets, topics: dict[str, TopicSurvey]) -> None:
        for topic in sorted(read.keys() & set(wanted)):
            if topic not in self.aside:
                self._attempt(
                    topic, read, topics.get(topic), lambda topic=topic: self._decoders.target(topic)
                )

    def _count_held(self, markers: Markers | None, read: Offsets, topics: dict[str, TopicSurvey]) -> None:
        """Have the logs counted, too, of tables that END markers name and that rest since this process began."""
        if not self.aside:
            named = {topic for end in (markers.ends if markers else ()) for topic in end.events}
            self._open(named | self._complete.awaited, read, topics)

    def _count_log(self, target: Target) -> None:
        """Have the watermark count the rows of a log that was there before this process began."""
        if not self._complete.is_new:
            with self._counting:
                self._complete.count(countable(held_rows(self._session, target.log), target.topic))
        self._later.found(target)

    def _attempt(self, topic: str, read: Offsets, survey: TopicSurvey | None, action: Any) -> Any:
        """Do something for a topic, which is set aside if that fails by its own trouble."""
        result = self.aside.attempt(
            topic,
            lambda: self._brokers.topic_ids([topic])[topic],
            lambda: first_offsets(survey, read.get(topic, {})),
            action,
        )
        if topic in self.aside:
            self._decoders.forget(topic)  # what is known of it may not be true any more
            self._later.forget(topic)
            with self._counting:
                self._complete.pause()
        return result

    def _decode_all(
        self, kept: Kept, topics: dict[str, TopicSurvey], ids: dict[str, str], read: Offsets
    ) -> list[Decoded]:
        def decode(topic: str) -> Decoded | None:
            survey = topics[topic]
            found: Decoded | None = self._attempt(
                topic, read, survey, lambda: self._decoders.decode(kept, topic, ids[topic], survey)
            )
            return found

        found = self._workers.each(kept.records.sparkSession, topics, decode)
        return [one for one in found if one is not None]

    def _write(
        self, session: SparkSession, decoded: list[Decoded], ids: dict[str, str], read: Offsets
    ) -> tuple[list[str], list[Watermark], dict[str, list[Any]]]:
        """Tables that were changed, their watermarks, and the rows' statistics."""
        found = statistics_of_all(
            decoded, lambda one, action: self._attempt(one.target.topic, read, one.survey, action)
        )
        for one, limits in unordered(decoded, found, self._transactions):
            again = functools.partial(decoded_again, one, limits)
            found |= self._attempt(one.target.topic, read, one.survey, again) or {}
        self.phases.end("statistics")
        written: list[str] = []
        watermarks: list[Watermark] = []
        self._tables.begin()

        def write(one: Decoded) -> list[str]:
            topic = one.target.topic
            if topic in self.aside:
                return []
            rows = found.get(topic, [])
            return self._attempt(topic, read, one.survey, lambda: self._later.write(session, one, rows)) or []

        done = []
        for one, tables in zip(decoded, self._workers.each(session, decoded, write), strict=True):
            topic, rows = one.target.topic, found.get(one.target.topic, [])
            if topic in self.aside:
                found.pop(topic, None)
                continue
            done.append(one)
            written += tables
            watermarks += watermarks_of(one, rows, read)
            if (newest := tell_freshness(one, rows)) is not None:
                self.newest[topic] = newest
        self.phases.end("tables")
        put_in_quarantine(self._quarantine, done, self._tables.lacking, ids, found, self._failpoint)
        self.phases.end("quarantine")
        self._tables.begin()
        return written, watermarks, found
