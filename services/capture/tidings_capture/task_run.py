"""One run of a connector task: prepare, snapshot when asked for, then stream until told to stop.

A plain synchronous loop: read what has arrived, convert it, queue it for Kafka, and a few times a second look at the
clock. `Supervision` is what connects it with the process around it. Every error leaves `TaskRun.run`; whoever runs it
decides whether to try again.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from tidings_capture.catalog import Catalog
from tidings_capture.checkpoint import Checkpoints
from tidings_capture.connector_config import ConnectorConfig
from tidings_capture.converters import make_converter
from tidings_capture.errors import BrokerError, PostgresError, SlotError
from tidings_capture.kafka import AcknowledgedProducer, RecordProducer, TopicAdmin, read_compacted
from tidings_capture.plan_markers import compile_markers
from tidings_capture.postgres import Replication, Session
from tidings_capture.preparation import (
    SlotState,
    captured_tables,
    check_server,
    check_slot,
    create_slot,
    ensure_publication,
    read_slot,
    server_lsn,
    start_streaming,
)
from tidings_capture.routes import Routes
from tidings_capture.snapshot import SnapshotPoint, SnapshotRows, begin_snapshot, copy_table, end_snapshot
from tidings_capture.source_offset import SourceOffset, decode_offset, offset_key
from tidings_capture.stream import Stream
from tidings_capture.task_channel import Report, TaskJob
from tidings_envelope.position import lsn_from_text, lsn_to_text
from tidings_service import get_logger

_BATCH: Final = 2000
_IDLE_ADVANCE_SECONDS: Final = 5.0
"""How often an idle slot moves on; each time costs one record in the offsets topic."""
_STOP_FLUSH_SECONDS: Final = 8.0
_REPORT_SECONDS: Final = 0.5

_log = get_logger(__name__)


class StopRequested(Exception):  # noqa: N818 - not an error
    """The supervisor asked the task to stop."""


class Supervision(Protocol):
    """The process around a run."""

    descriptor: int
    """Readable when there may be something to hear."""

    def stop_requested(self) -> bool: ...

    def report(self, report: Report) -> None: ...


@dataclass(slots=True)
class _Progress:
    """What the reports tell."""

    state: str = "starting"
    snapshot_rows: int = 0
    tables_left: int = 0
    connected: bool = False


class TaskRun:
    """One task's work, from its configuration."""

    def __init__(self, job: TaskJob, config: ConnectorConfig, supervision: Supervision) -> None:
        self._job = job
        self._config = config
        self._supervision = supervision
        self._progress = _Progress()
        self._replication: Replication | None = None
        self._stream: Stream | None = None
        self._session: Session | None = None
        self._deadline: float | None = None
        self._next_report = 0.0
        self._next_status = 0.0
        self._told_lsn = 0
        client = dict(job.client)
        self._admin = TopicAdmin(client)
        self._topics: set[str] = set()
        overrides = {**job.producer, **config.producer}
        self._producer = RecordProducer({**client, **overrides}, on_wait=self._breathe)
        self._checkpoints = Checkpoints(
            self._producer,
            AcknowledgedProducer(client),
            job.offset_topic,
            offset_key(job.connector, config.topic_prefix),
            interval_seconds=min(job.offset_flush_ms / 1000, 1.0),
            on_wait=self._breathe,
        )
        key = make_converter(config.converters, is_key=True)
        value = make_converter(config.converters, is_key=False)
        self._converters = (key, value)
        self._markers = compile_markers(config.conversion, key, value)
        self._routes = Routes(config, self._catalog, self._converters, self._ensure_topic)

    def run(self) -> None:
        """Work until stopped.

        Raises:
            CaptureError: and its like, with `retry` and `hint`.
        """
        self._report()
        try:
            resume = self._prepare()
            if resume is None:
                self._progress.state = "idle"
                self._idle()
            else:
                self._run_stream(resume)
        except StopRequested:
            _log.info("stopped", connector=self._job.connector)
        finally:
            self._close()

    # Preparation

    def _prepare(self) -> SourceOffset | None:
        """Where to stream from; None when there is nothing to stream."""
        config = self._config
        session = self._open_session()
        check_server(session)
        tables = captured_tables(session, config)
        ensure_publication(session, config, tables)
        stored = self._stored_offset()
        slot = read_slot(session, config)
        if stored is not None:
            self._checkpoints.start_from(stored)
            if config.snapshot_mode == "initial_only":
                return None
            if config.snapshot_mode != "always" and self._can_resume(session, slot, stored):
                _log.info("resuming", connector=config.name, lsn=lsn_to_text(stored.done_lsn))
                return stored
        elif config.snapshot_mode == "no_data":
            return self._start_without_data(slot)
        return self._snapshot(session, slot, tables)

    def _stored_offset(self) -> SourceOffset | None:
        settings = {**self._job.client, **self._job.consumer}
        key = offset_key(self._job.connector, self._config.topic_prefix)
        stored = read_compacted(settings, self._job.offset_topic).get(key)
        return None if stored is None else decode_offset(stored)

    def _can_resume(self, session: Session, slot: SlotState | None, stored: SourceOffset) -> bool:
        try:
            check_slot(slot, stored, self._config, server_lsn(session))
        except SlotError as error:
            if self._config.snapshot_mode != "when_needed":
                raise
            _log.warning("a new snapshot is needed", connector=self._config.name, reason=str(error))
            return False
        return True

    def _start_without_data(self, slot: SlotState | None) -> SourceOffset:
        if slot is None:
            with contextlib.closing(Replication(self._config.endpoint)) as replication:
                lsn = create_slot(replication, self._config)
        else:
            lsn = slot.confirmed_lsn
        start = SourceOffset(done_lsn=lsn, lsn=lsn)
        # Stored at once: a slot that is dropped before the first record must be noticed, too.
        self._checkpoints.take_and_wait(start)
        return start

    def _snapshot(
        self, session: Session, slot: SlotState | None, tables: list[tuple[str, str]]
    ) -> SourceOffset | None:
        config = self._config
        self._progress.state = "snapshot"
        self._progress.tables_left = len(tables)
        only = config.snapshot_mode == "initial_only"
        with contextlib.closing(Replication(config.endpoint)) as replication:
            if slot is not None and slot.wal_status == "lost":
                replication.drop_slot(config.slot)
                slot = None
            # A slot that exists stays where it is, behind the snapshot; a temporary one gives the snapshot.
            temporary = only or slot is not None
            name = f"{config.slot[:50]}_snapshot" if temporary else config.slot
            created = replication.create_slot(
                name, temporary=temporary, export=True, failover=config.slot_failover and not temporary
            )
            lsn = lsn_from_text(created.consistent_lsn)
            tx_id = session.value("SELECT CASE WHEN pg_is_in_recovery() THEN 0 ELSE txid_current() END")
            point = SnapshotPoint(created.snapshot or "", lsn, tx_id, time.time_ns() // 1000)
            began, rows = time.monotonic(), self._copy_tables(session, point, tables)
        end = SourceOffset(done_lsn=lsn, lsn=lsn, tx_id=tx_id, ts_us=point.ts_us, snapshot="INITIAL")
        self._checkpoints.take_and_wait(end)
        _log.info(
            "snapshot finished",
            connector=config.name,
            tables=len(tables),
            rows=rows,
            lsn=created.consistent_lsn,
            seconds=round(time.monotonic() - began, 3),
        )
        return None if only else end

    def _copy_tables(self, session: Session, point: SnapshotPoint, tables: list[tuple[str, str]]) -> int:
        rows = SnapshotRows(point, self._producer.send)
        begin_snapshot(session, point)
        catalog = Catalog(session, self._config.columns)
        for schema, name in tables:
            route = self._routes.add_table(catalog.table_by_name(schema, name, self._config.publication))
            count = rows.table(route, self._watched(copy_table(session, route.table), rows))
            self._progress.tables_left -= 1
            _log.info("table read", connector=self._config.name, table=f"{schema}.{name}", rows=count)
        rows.finish()
        end_snapshot(session)
        return rows.rows

    def _watched(self, batches: Iterator[list[bytes]], rows: SnapshotRows) -> Iterator[list[bytes]]:
        for batch in batches:
            yield batch
            self._progress.snapshot_rows = rows.rows
            self._checkpoints.poll()
            self._breathe()

    # Streaming

    def _run_stream(self, resume: SourceOffset) -> None:
        config = self._config
        if config.conversion.provide_transaction_metadata:
            self._ensure_topic(self._markers.transaction_topic)
        if config.heartbeat_seconds:
            self._ensure_topic(self._markers.heartbeat_topic)
        replication = Replication(config.endpoint)
        self._replication = None
        try:
            start_streaming(replication, config, resume.done_lsn, self._pause)
        except BaseException:
            replication.close()
            raise
        self._replication = replication
        self._stream = Stream(config, self._routes, self._markers, resume, self._producer.send)
        self._progress.state, self._progress.connected = "streaming", True
        _log.info("streaming", connector=config.name, slot=config.slot, lsn=lsn_to_text(resume.done_lsn))
        self._tell_server()
        self._report()
        try:
            self._loop(replication, self._stream)
        except StopRequested:
            self._finish(replication, self._stream)
            raise

    def _loop(self, replication: Replication, stream: Stream) -> None:
        next_heartbeat = time.monotonic() + self._config.heartbeat_seconds
        next_idle = time.monotonic() + _IDLE_ADVANCE_SECONDS
        while True:
            messages = replication.read(_BATCH)
            if messages:
                stream.process(messages)
            self._checkpoints.poll()
            now = time.monotonic()
            if stream.caught_up and (now >= next_idle or stream.reply_requested):
                next_idle = now + _IDLE_ADVANCE_SECONDS
                stream.advance()
                self._checkpoints.take(stream.position())
            elif self._checkpoints.due(now):
                self._checkpoints.take(stream.position())
            if self._config.heartbeat_seconds and now >= next_heartbeat:
                next_heartbeat = now + self._config.heartbeat_seconds
                self._producer.send(self._markers.heartbeat_topic, [self._markers.heartbeat(time.time_ns())])
            if stream.reply_requested or self._checkpoints.confirmed_lsn > self._told_lsn:
                stream.reply_requested = False
                self._tell_server()
            self._breathe()
            if not messages:
                pending = self._producer.outstanding() or self._checkpoints.pending
                replication.wait(0.02 if pending else 0.25, self._supervision.descriptor)

    def _finish(self, replication: Replication, stream: Stream) -> None:
        self._deadline = time.monotonic() + _STOP_FLUSH_SECONDS
        try:
            self._checkpoints.take_and_wait(stream.position())
            self._told_lsn = 0
            self._tell_server()
        except (BrokerError, PostgresError, StopRequested) as error:
            # The stored offset stays behind: the next start repeats what was not acknowledged.
            _log.warning("stopped without a last offset", connector=self._job.connector, reason=str(error))
        replication.close()
        self._replication = None
        if self._config.slot_drop_on_stop:
            with contextlib.closing(Replication(self._config.endpoint)) as other:
                other.drop_slot(self._config.slot)

    def _tell_server(self) -> None:
        if self._replication is None or self._stream is None:
            return
        confirmed = self._checkpoints.confirmed_lsn
        self._replication.send_status(max(self._stream.received_lsn, confirmed), confirmed)
        self._told_lsn = confirmed
        self._next_status = time.monotonic() + max(self._config.status_update_seconds, 0.1)

    # What happens beside the work

    def _breathe(self) -> None:
        """Called between batches and in every wait: keeps the server's connection and the supervisor content."""
        now = time.monotonic()
        if self._deadline is not None:
            if now > self._deadline:
                raise StopRequested("Kafka did not acknowledge everything in time")
        elif self._supervision.stop_requested():
            raise StopRequested
        if now >= self._next_status:
            self._tell_server()
        if now >= self._next_report:
            self._report()

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._breathe()
            time.sleep(min(left, 0.1))

    def _idle(self) -> None:
        self._report()
        while True:
            self._pause(1.0)

    def _report(self) -> None:
        self._next_report = time.monotonic() + _REPORT_SECONDS
        stream, progress = self._stream, self._progress
        lag = 0.0
        if stream is not None and stream.busy:
            lag = max(0.0, time.time() - stream.last_commit_ts_us / 1e6)
        self._supervision.report(
            Report(
                state=progress.state,
                records=self._routes.records(),
                transactions=stream.transactions if stream is not None else 0,
                events=stream.events if stream is not None else progress.snapshot_rows,
                lag_seconds=lag,
                connected=progress.connected,
                received_lsn=stream.received_lsn if stream is not None else 0,
                confirmed_lsn=self._checkpoints.confirmed_lsn,
                outstanding=self._producer.outstanding(),
                snapshot_rows=progress.snapshot_rows,
                snapshot_tables_left=progress.tables_left,
            )
        )

    # Parts

    def _open_session(self) -> Session:
        if self._session is None:
            self._session = Session(self._config.endpoint)
        return self._session

    def _catalog(self, fresh: bool) -> Catalog:
        if fresh and self._session is not None:
            self._session.close()
            self._session = None
        return Catalog(self._open_session(), self._config.columns)

    def _ensure_topic(self, topic: str) -> None:
        if topic in self._topics or not self._job.topic_creation:
            return
        config = self._config
        try:
            self._admin.ensure_topic(
                topic,
                partitions=config.topic_partitions,
                replication_factor=config.topic_replication_factor,
                config=config.topic_config,
            )
        except BrokerError as error:
            if "AUTHORIZATION" not in str(error):
                raise
            # The topic may exist, or the broker may create it: the first record will tell.
            _log.warning("may not create topics", topic=topic, reason=str(error))
        self._topics.add(topic)

    def _close(self) -> None:
        for part in (self._replication, self._session, *self._converters):
            if part is not None:
                part.close()
