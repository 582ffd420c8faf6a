"""The streaming job: one query for each kind of topic, watched until told to stop.

A batch that has begun is ended before the job stops, so a SIGTERM costs no repeated work. What ends a query ends the
job, with one message: an orchestrator starts it again, and it goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import json
import re
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame

from tidings_lakehouse.decoding.given_schemas import given_schemas
from tidings_lakehouse.errors import DataLossError, KafkaUnreachableError, LakehouseError
from tidings_lakehouse.failpoints import Failpoint, failpoint_from
from tidings_lakehouse.formats.registry import SchemaSource
from tidings_lakehouse.maintaining.maintenance import Maintenance
from tidings_lakehouse.metrics import BATCH_SECONDS, BATCHES, COMMIT_LAG, LAG, begin
from tidings_lakehouse.progress_bar import Backlog
from tidings_lakehouse.settings import LakehouseSettings
from tidings_lakehouse.spark.kafka import Brokers, Offsets, explained, lags, read_topics
from tidings_lakehouse.spark.kafka_login import KafkaLogin
from tidings_lakehouse.spark.session import use_in_thread
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.names import Names
from tidings_lakehouse.tables.table_counts import TableCounts
from tidings_lakehouse.tables.troubles import is_data_loss
from tidings_lakehouse.topics import WATERMARK, transaction_topic
from tidings_lakehouse.watermark.stored_position import stored_position
from tidings_lakehouse.writing import business, technical
from tidings_lakehouse.writing.set_aside import CatchUp
from tidings_service import Health, TidingsError, get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = get_logger("tidings_lakehouse.job")
_POLL_SECONDS = 0.5
_LAG_SECONDS = 2.0
_REST_SECONDS = 10.0
"""How often a source's stored position is looked at when its watermark waits for one."""
_NOTE_DEADLINE_SECONDS = 2.0
_LOSS_REASON = re.compile(r"^Reason: (.+?)\.?$", re.MULTILINE)


class _StoppedError(Exception):
    """A batch begins although the job is stopping."""


@dataclass(frozen=True)
class _Stream:
    name: str
    pattern: str
    writer: technical.TechnicalWriter | business.BusinessWriter
    catch_up: CatchUp


class Job:
    """Both queries and what watches them."""

    def __init__(
        self,
        session: SparkSession,
        settings: LakehouseSettings,
        schemas: SchemaSource,
        health: Health,
        *,
        streams: Collection[str] = (technical.STREAM, business.STREAM),
        failpoint: Failpoint | None = None,
        login: KafkaLogin | None = None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._wanted = streams
        self._health = health
        self._schemas = schemas
        self._login = login or KafkaLogin(settings.kafka_access, local=False)
        self._brokers = Brokers(session, self._login)
        self._failpoint = failpoint or failpoint_from(settings.failpoint)
        self.counts = TableCounts(session)
        self._commits = Commits(session, settings.layouts)
        self._maintenance = Maintenance(
            session,
            self._commits,
            commits=settings.lakehouse_compact_commits,
            join_commits=settings.lakehouse_join_commits,
            keep_snapshots=settings.lakehouse_keep_snapshots,
            keep_seconds=settings.lakehouse_keep_seconds,
            retention=settings.retention,
        )
        self._streams: list[_Stream] = []
        self._queries: dict[str, StreamingQuery] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._errors: dict[str, BaseException] = {}
        self._written: dict[str, int] = {}
        self._stopping = threading.Event()
        self._read: Offsets = {}
        self._measured_at = 0.0
        self._rested_at: dict[str, float] = {}
        self._backlog = Backlog(None)

    def start(self, *, available_now: bool = False) -> None:
        """See that the brokers answer, prepare the tables, start the queries; `wait` is for the same thread.

        Raises:
            KafkaUnreachableError: they do not.
            KafkaRefusedError: they do not let this user see the source's topics.
        """
        use_in_thread(self._session)
        self._backlog = Backlog.of_process(is_short=available_now)
        self._health.set("kafka", ok=False, detail="connecting")
        self._brokers.check()
        self._refuse_blindness()
        self._health.set("kafka", ok=True)
        settings = self._settings
        names = Names(self._session, self._commits)
        local = LocalRows(self._session, settings.lakehouse_small_records)
        make_technical = functools.partial(
            technical.TechnicalWriter,
            source=settings.source,
            pattern=settings.technical_pattern,
            checkpoint=f"{settings.checkpoint_uri}/{technical.STREAM}",
            deadline=settings.lakehouse_transaction_deadline_seconds,
            position=self._stored_position,
            merges=settings.merges,
            given=given_schemas(settings),
            choices=settings.choices,
        )
        for name, pattern, writer in (
            (technical.STREAM, settings.technical_pattern, make_technical),
            (business.STREAM, settings.business_pattern, business.BusinessWriter),
        ):
            if name not in self._wanted:
                continue
            begin(name)
            made = writer(
                self._session, self._schemas, self._brokers, self._failpoint, self._commits, names, local
            )
            catch_up = CatchUp(
                self._session, made.aside, self._brokers, self._login, settings.lakehouse_max_records
            )
            self._streams.append(_Stream(name, pattern, made, catch_up))
        if not available_now:  # a short run counts what it writes
            self.counts.refresh_all()
        for stream in self._streams:
            self._locks[stream.name] = threading.Lock()
            self._rested_at[stream.name] = time.monotonic()
            while available_now and stream.writer.aside.due():
                self._catch_up(stream)
            self._queries[stream.name] = self._start_query(stream, available_now=available_now)
            _LOG.info("query started", stream=stream.name, pattern=stream.pattern)
        if not available_now:
            self._maintenance.start()

    def _refuse_blindness(self) -> None:
        """A query that may see no topic would wait for ever without a word."""
        if technical.STREAM in self._wanted and not self._brokers.sees(self._settings.technical_pattern):
            self._refuse_lost_rights([transaction_topic(self._settings.source)])

    def _start_query(self, stream: _Stream, *, available_now: bool) -> StreamingQuery:
        reader = read_topics(self._session, self._login, stream.pattern, self._settings.lakehouse_max_records)
        writer = (
            reader.load()
            .writeStream.queryName(stream.name)
            .option("checkpointLocation", f"{self._settings.checkpoint_uri}/{stream.name}")
            .foreachBatch(self._batch_function(stream))
        )
        if available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(
            processingTime=f"{round(self._settings.lakehouse_trigger_seconds * 1000)} milliseconds"
        ).start()

    def _batch_function(self, stream: _Stream) -> Any:
        context = self._session.sparkContext

        def write(batch: DataFrame, batch_id: int) -> None:
            with self._locks[stream.name]:
                if self._stopping.is_set():
                    raise _StoppedError
                began = time.monotonic()
                try:
                    query_id = context.getLocalProperty("sql.streaming.queryId") or ""
                    self._commits.mark(batch.sparkSession)
                    tables = stream.writer.write(batch, batch_id, query_id)
                    self._maintenance.after([*tables, WATERMARK])
                    self.counts.refresh(tables)
                except BaseException as error:
                    self._errors[stream.name] = error
                    raise
                stream.writer.phases.end("counts")
                seconds = time.monotonic() - began
                BATCHES.labels(stream.name).inc()
                BATCH_SECONDS.labels(stream.name).observe(seconds)
                self._failpoint(f"batch:{stream.name}")
                self._written[stream.name] = batch_id
                _LOG.info(
                    "batch written",
                    stream=stream.name,
                    batch=batch_id,
                    tables=len(tables),
                    seconds=round(seconds, 3),
                )
                self._tell_slow(stream, batch_id, seconds)

        return write

    def _tell_slow(self, stream: _Stream, batch_id: int, seconds: float) -> None:
        """Say where the time of a slow batch went."""
        limit = self._settings.lakehouse_slow_batch_seconds
        if limit and seconds >= limit:
            told = stream.writer.phases.told()
            _LOG.warning("slow batch", stream=stream.name, batch=batch_id, seconds=round(seconds, 3), **told)

    def wait(self, stop: threading.Event) -> None:
        """Watch the queries until `stop` is set, or all have drained their topics (available-now).

        Raises:
            TidingsError: what ended a query.
        """
        while not stop.wait(_POLL_SECONDS):
            active = False
            for name, query in self._queries.items():
                if query.isActive:
                    active = True
                else:
                    self._raise_failure(name, query)
                self._report(query)
            for stream in self._streams:
                self._catch_up(stream)
            self._measure_lag()
            for stream in self._streams:
                if not active or time.monotonic() - self._rested_at[stream.name] > _REST_SECONDS:
                    self._rest(stream, is_last=not active)
            if not active:
                self._maintenance.run_due()
                return

    def _catch_up(self, stream: _Stream) -> None:
        """Read a part of what topics have missed that are set aside and due, between two batches of their stream."""
        if not stream.writer.aside.due():
            return
        with self._between_batches(stream) as is_between:
            if not is_between:
                return
            try:
                if stream.catch_up.step(stream.writer.write_missed):
                    stream.writer.rejoined()
            except (PySparkException, Py4JError) as error:
                raise LakehouseError(
                    f"what is set aside of the {stream.name} topics cannot be read: {_first_line(error)}"
                ) from error
            self._failpoint("caught up")

    def _rest(self, stream: _Stream, *, is_last: bool) -> None:
        with self._between_batches(stream) as is_between:
            if not is_between:
                return
            self._rested_at[stream.name] = time.monotonic()
            try:
                self._maintenance.after(stream.writer.rest(is_last=is_last))
            except (PySparkException, Py4JError) as error:
                raise LakehouseError(f"the stored offsets cannot be read: {_first_line(error)}") from error

    @contextlib.contextmanager
    def _between_batches(self, stream: _Stream) -> Iterator[bool]:
        """Keep the stream from a batch; false where one is under way and goes on: who watches the job has more to see to."""
        lock = self._locks[stream.name]
        is_between = lock.acquire(timeout=_LAG_SECONDS)
        try:
            yield is_between
        finally:
            if is_between:
                lock.release()

    def _stored_position(self, domain: int | None) -> int | None:
        topic, settings = self._settings.lakehouse_offsets_topic, self._settings
        if not topic or not self._brokers.has(topic):
            return None
        return stored_position(self._session, self._login, topic, settings.source, domain)

    def stop(self) -> None:
        """End the batches that have begun, then the queries."""
        self._health.set("streams", ok=False, detail="stopping")
        self._stopping.set()
        self._backlog.close()
        for name, query in self._queries.items():
            with self._locks[name]:
                pass  # a batch that has begun is written; the next one will be refused
            deadline = time.monotonic() + _NOTE_DEADLINE_SECONDS
            while query.isActive and not self._is_noted(name, query) and time.monotonic() < deadline:
                time.sleep(0.02)
            query.stop()
        self._maintenance.stop()
        for stream in self._streams:
            stream.writer.close()
        self._schemas.close()

    def _is_noted(self, name: str, query: StreamingQuery) -> bool:
        """Whether Spark has noted in the checkpoint that the last batch is done; if not, it would be read again."""
        progress = query.lastProgress
        return name not in self._written or (
            progress is not None and progress["batchId"] >= self._written[name]
        )

    def _report(self, query: StreamingQuery) -> None:
        self._health.set(
            "streams", ok=all(query.isActive for query in self._queries.values()), detail="consuming"
        )
        progress = query.lastProgress
        for source in [] if progress is None else json.loads(progress.json)["sources"]:
            self._read |= _offsets(source.get("endOffset"))

    def _measure_lag(self) -> None:
        """Compare with the topics' present ends: a query's own progress knows them only as of its last batch."""
        if time.monotonic() - self._measured_at < _LAG_SECONDS:
            return
        self._measured_at = time.monotonic()
        seen: set[str] = set()
        left = 0
        try:
            for stream in self._streams:
                read = self._read | stream.writer.aside.offsets
                ends = self._brokers.ends(stream.pattern)
                seen |= ends.keys()
                for topic, lag in lags(read, ends).items():
                    LAG.labels(topic).set(lag)
                    self._tell_commit_lag(topic, lag, stream.writer.newest.get(topic))
                    left += lag
            self._backlog.left(left)
            self._refuse_lost_rights(self._read.keys() - seen)
        except (DataLossError, KafkaUnreachableError) as error:  # the queries say what it means for them
            self._health.set("kafka", ok=False, detail=str(error))
        else:
            self._health.set("kafka", ok=True)

    @staticmethod
    def _tell_commit_lag(topic: str, lag: int, newest: dt.datetime | None) -> None:
        """Args:
        newest: the newest change that is readable, as far as this process has written one.
        """
        if not lag:
            COMMIT_LAG.labels(topic).set(0)
        elif newest is not None:
            COMMIT_LAG.labels(topic).set(max(0.0, (dt.datetime.now() - newest).total_seconds()))  # noqa: DTZ005 - Spark gives local times

    def _refuse_lost_rights(self, gone: Collection[str]) -> None:
        """A query does not notice that it may not see its topics any more before a batch wants their records."""
        refused = self._brokers.refusal(sorted(gone)) if gone else None
        if refused is not None:
            raise refused

    def _raise_failure(self, name: str, query: StreamingQuery) -> None:
        failure = query.exception()
        if failure is None:
            return
        self._health.fail(f"the {name} query failed")
        raise self._explain(name, failure) from self._errors.get(name, failure)

    def _explain(self, name: str, failure: StreamingQueryException) -> TidingsError:
        error = self._errors.get(name)
        if isinstance(error, DataLossError):
            return self._data_loss(name, str(error))
        if isinstance(error, TidingsError):
            return error
        text = str(failure)
        if (told := explained(self._login.kafka, text)) is not None:
            return told
        if is_data_loss(text):
            reason = _LOSS_REASON.search(text)
            return self._data_loss(name, reason[1] if reason else "")
        return LakehouseError(f"the {name} query failed: {_first_line(error or failure)}")

    def _data_loss(self, name: str, reason: str) -> TidingsError:
        # Topics that this user may not see any more are missing, too.
        topics = [transaction_topic(self._settings.source), *sorted(self._read)]
        try:
            refused = self._brokers.refusal(topics)
        except TidingsError as error:  # then all that is known is the loss
            _LOG.warning("it cannot be asked whether a right is missing", reason=str(error))
            refused = None
        if refused is not None:
            return refused
        checkpoint = f"{self._settings.checkpoint_uri}/{name}"
        return DataLossError(
            f"the checkpoint {checkpoint} names offsets that the {name} query's topics do not have any more"
            + (f": {reason}" if reason else ""),
            hint="a topic was deleted or made again, its retention removed what was not read yet, or the settings "
            f"leave it out now; to go on with what there is, delete {checkpoint}: the tables keep what they "
            "hold, and nothing they hold is written again",
        )


def _offsets(value: Any) -> Offsets:
    return value if isinstance(value, dict) else {}


def _first_line(error: BaseException) -> str:
    if isinstance(error, PySparkException | Py4JError):
        text = str(error).strip().splitlines()
        return text[0] if text else type(error).__name__
    return type(error).__name__
