"""Where the records of a task's plans go: to its producer, through the connector's transforms where it has some."""

from collections.abc import Callable, Iterable

from tidings_capture.cdc.left_out import LeftOut
from tidings_capture.postgres.encoding.tolerance import Tolerance
from tidings_capture.postgres.encoding.transform_output import TransformedOutput
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_connect.converters.encoding import Converter, make_converter
from tidings_connect.data.records import Producer, Record
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.topics import TaskTopics
from tidings_connect.transforms.chain import make_chain


class TaskOutput:
    """For one task; whoever opens it closes it."""

    def __init__(self, config: ConnectorConfig, job: TaskJob, producer: Producer, topics: TaskTopics) -> None:
        self._topics = topics
        self.converters: tuple[Converter, Converter] = (
            make_converter(config.converters, is_key=True),
            make_converter(config.converters, is_key=False),
        )
        """The connector's own, for keys and values."""
        self.plan_converters: tuple[Converter, Converter] = self.converters
        """What plans compile against: the connector's own, or what makes the records that transforms take."""
        self.left_out = LeftOut()
        self.tolerance = Tolerance(
            config.tolerance, job.connector, job.task, config.conversion.mappers, producer.send, topics.ensure
        )
        self.send: Callable[[str, list[Record]], None] = producer.send
        """Queues what plans make."""
        self._transformed: TransformedOutput | None = None
        if config.transforms:
            self._transformed = transformed = TransformedOutput(
                make_chain(config.transforms),
                self.converters,
                producer,
                topics.ensure,
                self.tolerance,
                self.left_out,
                most_topics=job.most_topics,
            )
            self.send, self.plan_converters = transformed.send, (transformed.converter, transformed.converter)

    def prepare_topic(self, topic: str) -> None:
        """Create a topic that plans are about to write to; with transforms a record may never come to it."""
        if self._transformed is None:
            self._topics.ensure(topic)

    def prepare_topics(self, topics: Iterable[str]) -> None:
        """As `prepare_topic`, of many in a few requests."""
        if self._transformed is None:
            self._topics.prepare(topics)

    def close(self) -> None:
        """Close the transforms and the converters."""
        for part in (self._transformed, *self.converters):
            if part is not None:
                part.close()
