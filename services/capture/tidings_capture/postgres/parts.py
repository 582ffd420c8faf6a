"""What a task works with: its producer, stored position, routes, catalog session and topics, opened from its job.

`TaskRun` and the snapshot share one `TaskParts`; whoever owns it closes it.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidings_capture.cdc.left_out import LeftOut
from tidings_capture.cdc.markers import compile_markers
from tidings_capture.cdc.notifications import Notifier
from tidings_capture.postgres.catalog import Catalog
from tidings_capture.postgres.checkpoint_transactions import TransactionalCheckpoints
from tidings_capture.postgres.checkpoints import AcknowledgedCheckpoints, Checkpoints
from tidings_capture.postgres.client import Session
from tidings_capture.postgres.config import ConnectorConfig
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.logical_messages import MessagePlan
from tidings_capture.postgres.offset import offset_key
from tidings_capture.postgres.routes import Routes
from tidings_capture.postgres.schema_changes import SchemaChangePlan
from tidings_capture.postgres.server import captured_tables, server_lsn
from tidings_capture.postgres.tolerance import Tolerance
from tidings_capture.postgres.transform_output import TransformedOutput
from tidings_connect.config.exactly_once import ENABLED, REQUIRED, SUPPORT, WORKER_SETTING, transactional_id
from tidings_connect.converters.encoding import Converter, make_converter
from tidings_connect.data.records import Record
from tidings_connect.errors import BrokerError, OptionError
from tidings_connect.kafka.producer import IN_FLIGHT, AcknowledgedProducer, RecordProducer
from tidings_connect.kafka.topic_bounds import TopicBounds
from tidings_connect.kafka.topics import TopicAdmin, read_compacted
from tidings_connect.kafka.transactional_producer import TransactionalProducer
from tidings_connect.storage.offset_file import OffsetFile, read_offsets
from tidings_connect.task.channel import TableProgress, TaskJob
from tidings_connect.transforms.chain import make_chain
from tidings_service import get_logger

_TOPICS_AT_ONCE: Final = 50
"""Topics in one request: with fifty partitions each the broker's controller takes some hundreds."""
_FOUND_SECONDS: Final = 60.0
"""How long a topic counts as existing that was found at the start: somebody may delete it."""

_log = get_logger(__name__)


@dataclass(slots=True)
class TaskProgress:
    """What the reports tell beside the counters."""

    state: str = "starting"
    snapshot_rows: int = 0
    tables: dict[str, TableProgress] = field(default_factory=dict)
    """The running or last snapshot, by ``schema.table``."""
    connected: bool = False
    losses: dict[str, int] = field(default_factory=dict)
    """How often something may have been lost, by reason."""

    def begin_snapshot(self, tables: Iterable[tuple[tuple[str, str], int | None]]) -> None:
        """A snapshot of these tables, with their estimated rows, begins."""
        self.state, self.snapshot_rows = "snapshot", 0
        self.tables = {f"{schema}.{name}": TableProgress(0, rows) for (schema, name), rows in tables}


class TaskParts:
    """The parts of one run of a task.

    Args:
        on_wait: called again and again in every wait (`TaskRun` lives on in it); may raise to give up.
    """

    def __init__(self, job: TaskJob, config: ConnectorConfig, on_wait: Callable[[], None]) -> None:
        self.job = job
        self.config = config
        self.breathe = on_wait
        self.progress = TaskProgress()
        self._session: Session | None = None
        self._catalog: Catalog | None = None
        client = dict(job.client)
        self._admin = TopicAdmin({**client, **job.admin})
        self._bounds = TopicBounds(job.internal_topics, config.topic_prefix, config.topics.heartbeat)
        self._topics: set[str] = set()
        """Topics that were seen to, in this run."""
        self._found_topics: set[str] = set()
        self._found_until = 0.0
        self.producer, self.checkpoints = _open_producer(job, config, on_wait)
        key = make_converter(config.converters, is_key=True)
        value = make_converter(config.converters, is_key=False)
        converters = self._converters = (key, value)
        self._output: TransformedOutput | None = None
        self.tolerance = Tolerance(
            config.tolerance,
            job.connector,
            job.task,
            config.conversion.mappers,
            self.producer.send,
            self.ensure_topic,
        )
        self.left_out = LeftOut()
        self.send: Callable[[str, list[Record]], None] = self.producer.send
        """Queues what plans make."""
        if config.transforms:
            self._output = output = TransformedOutput(
                make_chain(config.transforms),
                self._converters,
                self.producer,
                self.ensure_topic,
                self.tolerance,
                self.left_out,
                most_topics=job.most_topics,
            )
            self.send, converters = output.send, (output.converter, output.converter)
        self.markers = compile_markers(config.conversion, *converters)
        self.messages = MessagePlan(config, converters, self.prepare_topic)
        self.schema_changes: SchemaChangePlan | None = None
        if config.schema_changes:
            self.schema_changes = SchemaChangePlan(
                config,
                converters,
                self.prepare_topic,
                lambda types: self.catalog(False).type_names(types),
            )
        self.notifier = Notifier(
            config.signals, config.topic_prefix, converters, self.send, self.prepare_topic
        )
        self.routes = Routes(config, self.catalog, converters, self.prepare_topic)

    @property
    def converters(self) -> tuple[Converter, Converter]:
        """The connector's own, for keys and values."""
        return self._converters

    @property
    def session(self) -> Session:
        """The session for catalog reads; opened when it is first asked for."""
        if self._session is None:
            self._session = Session(self.config.endpoint)
        return self._session

    def catalog(self, fresh: bool) -> Catalog:
        """The catalog; `fresh`: through a new session."""
        if fresh:
            self.drop_session()
        if self._catalog is None:
            self._catalog = Catalog(self.session, self.config.columns, self.config.keys)
        return self._catalog

    def captured(self) -> list[tuple[str, str]]:
        """The tables the filters choose, as they are now."""
        return captured_tables(self.session, self.config)

    def stored_offset(self) -> bytes | None:
        """The connector's offset as it stands in the offsets topic, or in a standalone worker's file."""
        settings = {**self.job.client, **self.job.consumer}
        key = offset_key(self.job.connector, self.config.topic_prefix)
        if self.job.offset_file is not None:
            return read_offsets(Path(self.job.offset_file)).get(key)
        return read_compacted(settings, self.job.offset_topic).get(key)

    def run_heartbeat_action(self) -> None:
        """Run ``heartbeat.action.query``. A statement that fails does not stop the stream: the next heartbeat tries
        again, through a new session."""
        try:
            self.session.execute(self.config.heartbeat_action)
        except PostgresError as error:
            _log.warning("heartbeat.action.query failed", connector=self.config.name, reason=str(error))
            self.drop_session()

    def wal_end(self) -> int | None:
        """The end of the server's WAL; None, with a warning, when it could not be asked."""
        try:
            return server_lsn(self.session)
        except PostgresError as error:
            _log.warning(
                "the end of the WAL could not be read", connector=self.config.name, reason=str(error)
            )
            self.drop_session()
            return None

    def drop_session(self) -> None:
        """Close the session; who asks for it next gets a new one."""
        if self._session is not None:
            self._session.close()
            self._session = self._catalog = None

    def prepare_topic(self, topic: str) -> None:
        """Create a topic that plans are about to write to; with transforms a record may never come to it."""
        if self._output is None:
            self.ensure_topic(topic)

    def prepare_topics(self, topics: Iterable[str]) -> None:
        """As `prepare_topic`, of many in a few requests."""
        if self._output is not None or not self.job.topic_creation:
            return
        missing = sorted(topic for topic in set(topics) if not self._exists(topic))
        for topic in missing:
            self._bounds.check(topic)
        group = self.config.topic_creation.group
        for start in range(0, len(missing), _TOPICS_AT_ONCE):
            some = {topic: group(topic) for topic in missing[start : start + _TOPICS_AT_ONCE]}
            self._topics |= self._admin.create_topics(some)
            self.breathe()
        for topic in missing:  # what was refused is refused once more, with its reason
            self.ensure_topic(topic)

    def find_topics(self) -> None:
        """Learn in one request which topics exist, so that not each of them is asked for when its first record comes."""
        if self.job.topic_creation:
            self._found_topics = self._admin.topics()
            self._found_until = time.monotonic() + _FOUND_SECONDS

    def _exists(self, topic: str) -> bool:
        if topic in self._topics:
            return True
        if self._found_topics and time.monotonic() > self._found_until:
            self._found_topics = set()
        return topic in self._found_topics

    def ensure_topic(self, topic: str) -> None:
        """Create a topic unless it exists, where the worker's ``topic.creation.enable`` allows it.

        Raises:
            TopicError: no record may go there.
        """
        self._bounds.check(topic)
        if not self.job.topic_creation or self._exists(topic):
            return
        group = self.config.topic_creation.group(topic)
        try:
            self._admin.ensure_topic(
                topic,
                partitions=group.partitions,
                replication_factor=group.replication_factor,
                config=group.config,
            )
        except BrokerError as error:
            if "AUTHORIZATION" not in str(error):
                raise
            # The topic may exist, or the broker may create it: the first record will tell.
            _log.warning("may not create topics", topic=topic, reason=str(error))
        self._topics.add(topic)

    def close(self) -> None:
        """Close the session, the transforms and the converters; what is not stored is given up."""
        for part in (self.checkpoints, self._session, self._output, *self._converters):
            if part is not None:
                part.close()


def _open_producer(
    job: TaskJob, config: ConnectorConfig, on_wait: Callable[[], None]
) -> tuple[RecordProducer, Checkpoints]:
    if config.exactly_once_required and not job.exactly_once:
        # Checked when a connector is stored; the worker's properties may have changed since.
        raise OptionError(
            f"{SUPPORT}={REQUIRED}, but the worker has not {WORKER_SETTING}={ENABLED}",
            hint=f"set {WORKER_SETTING}={ENABLED} in the worker's properties, or {SUPPORT}=requested",
        )
    settings = {**job.client, **job.producer, **config.producer}
    if str(settings.get(IN_FLIGHT, 1)).strip() != "1":
        _log.warning(
            "more than one request in flight: records may be lost when a partition's leader has just changed",
            setting=IN_FLIGHT,
            connector=job.connector,
        )
    key = offset_key(job.connector, config.topic_prefix)
    interval = min(job.offset_flush_ms / 1000, 1.0)
    if job.exactly_once:
        transactional = TransactionalProducer(
            settings, transactional_id(job.group, job.connector, job.task), on_wait=on_wait
        )
        checkpoints = TransactionalCheckpoints(
            transactional, job.offset_topic, key, config.boundary, interval_seconds=interval
        )
        return transactional, checkpoints
    producer = RecordProducer(settings, on_wait=on_wait)
    offsets = (
        AcknowledgedProducer(job.client) if job.offset_file is None else OffsetFile(Path(job.offset_file))
    )
    return producer, AcknowledgedCheckpoints(
        producer, offsets, job.offset_topic, key, interval_seconds=interval, on_wait=on_wait
    )
