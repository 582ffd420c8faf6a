"""What a task works with: its producer, stored position, routes, catalog session and topics, opened from its job.

`TaskRun` and the snapshot share one `TaskParts`; whoever owns it closes it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidings_capture.cdc.left_out import LeftOut
from tidings_capture.cdc.markers import compile_markers
from tidings_capture.cdc.notifications import Notifier
from tidings_capture.postgres.config import ConnectorConfig
from tidings_capture.postgres.database import PostgresDatabase
from tidings_capture.postgres.logical_messages import MessagePlan
from tidings_capture.postgres.offset import SourceOffset, encode_offset, offset_key
from tidings_capture.postgres.positions import Positions
from tidings_capture.postgres.routes import Routes
from tidings_capture.postgres.schema_changes import SchemaChangePlan
from tidings_capture.postgres.tolerance import Tolerance
from tidings_capture.postgres.transform_output import TransformedOutput
from tidings_connect.converters.encoding import Converter, make_converter
from tidings_connect.data.records import Record
from tidings_connect.kafka.topic_bounds import TopicBounds
from tidings_connect.task.channel import TableProgress
from tidings_connect.task.topics import TaskTopics
from tidings_connect.task.transport import Delivery, TaskContext
from tidings_connect.transforms.chain import make_chain


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
        self.database = PostgresDatabase(config)
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
                lambda offset: {self._offset_key: encode_offset(offset)},
                on_wait,
                config.producer,
                config.boundary,
                config.exactly_once_required,
            )
        )
        self.positions = Positions(self.checkpoints)
        key = make_converter(config.converters, is_key=True)
        value = make_converter(config.converters, is_key=False)
        converters: tuple[Converter, Converter] = (key, value)
        self._converters = converters
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
                lambda types: self.database.catalog().type_names(types),
            )
        self.notifier = Notifier(
            config.signals, config.topic_prefix, converters, self.send, self.prepare_topic
        )
        self.routes = Routes(config, self.database.catalog, converters, self.prepare_topic)

    @property
    def converters(self) -> tuple[Converter, Converter]:
        """The connector's own, for keys and values."""
        return self._converters

    @property
    def consumer_settings(self) -> dict[str, str]:
        """librdkafka's, of the worker's consumers."""
        return {**self.job.client, **self.job.consumer}

    def stored_offset(self) -> bytes | None:
        """The connector's offset as it stands in the offsets topic, or in a standalone worker's file."""
        return self._transport.stored().get(self._offset_key)

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
        for part in (self.checkpoints, self.database, self._output, *self._converters):
            if part is not None:
                part.close()
