"""What a task works with: its producer, stored position, routes, catalog session and topics, opened from its job.

`TaskRun` and the snapshot share one `TaskParts`; whoever owns it closes it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tidings_capture.cdc.left_out import LeftOut
from tidings_capture.cdc.markers import compile_markers
from tidings_capture.cdc.notifications import Notifier
from tidings_capture.postgres.catalog import Catalog
from tidings_capture.postgres.client import Session
from tidings_capture.postgres.config import ConnectorConfig
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.history import History
from tidings_capture.postgres.logical_messages import MessagePlan
from tidings_capture.postgres.offset import SourceOffset, encode_offset, offset_key
from tidings_capture.postgres.routes import Routes
from tidings_capture.postgres.schema_changes import SchemaChangePlan
from tidings_capture.postgres.server import captured_tables, server_lsn
from tidings_capture.postgres.tolerance import Tolerance
from tidings_capture.postgres.transform_output import TransformedOutput
from tidings_connect.converters.encoding import Converter, make_converter
from tidings_connect.data.records import Record
from tidings_connect.kafka.topic_bounds import TopicBounds
from tidings_connect.task.channel import TableProgress
from tidings_connect.task.topics import TaskTopics
from tidings_connect.task.transport import Delivery, TaskContext
from tidings_connect.transforms.chain import make_chain
from tidings_service import get_logger

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

    def __init__(self, context: TaskContext, config: ConnectorConfig, on_wait: Callable[[], None]) -> None:
        job = self.job = context.job
        self._transport = context.transport
        self.config = config
        self.breathe = on_wait
        self.progress = TaskProgress()
        self._session: Session | None = None
        self._catalog: Catalog | None = None
        self.topics = TaskTopics(
            context.transport.topics(),
            config.topic_creation,
            TopicBounds(job.internal_topics, config.topic_prefix, config.topics.heartbeat),
            on_wait,
        )
        self.ensure_topic = self.topics.ensure
        """Creates a topic unless it exists."""
        self._offset_key = offset_key(job.connector, config.topic_prefix)
        self.producer, self.checkpoints = context.transport.open(
            Delivery[SourceOffset](
                self._offset_key,
                encode_offset,
                on_wait,
                config.producer,
                config.boundary,
                config.exactly_once_required,
            )
        )
        self.checkpoints.sign = self._signed
        self.history: History | None = None
        """What every offset says it is a position of; None: what it says itself."""
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
        return self._transport.stored(self._offset_key)

    def _signed(self, position: SourceOffset) -> SourceOffset:
        return position if self.history is None else replace(position, history=self.history)

    @property
    def confirmed_lsn(self) -> int:
        """Up to where the slot may be confirmed; 0 before the first checkpoint."""
        stored = self.checkpoints.stored
        return 0 if stored is None else stored.done_lsn

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
        if self._output is None:
            self.topics.prepare(topics)

    def close(self) -> None:
        """Close the session, the transforms and the converters; what is not stored is given up."""
        for part in (self.checkpoints, self._session, self._output, *self._converters):
            if part is not None:
                part.close()
