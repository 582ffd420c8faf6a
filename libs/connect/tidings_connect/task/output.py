"""What a source task writes records to: transforms, converters, topics, and the producer behind them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tidings_connect.converters.encoding import Converter
from tidings_connect.converters.options import ConverterError
from tidings_connect.data.records import Producer, Record
from tidings_connect.data.text import connect_text
from tidings_connect.errors import RecordError
from tidings_connect.task.topics import TaskTopics
from tidings_connect.transforms.chain import Chain
from tidings_connect.transforms.encoding import Encoding
from tidings_connect.transforms.record import DataError, SourceRecord


class Output:
    """Takes the records of one task.

    Args:
        converters: the connector's own, for keys and values.
        chain: its transforms; None: it has none.
    """

    def __init__(
        self,
        producer: Producer,
        topics: TaskTopics,
        converters: tuple[Converter, Converter],
        chain: Chain | None,
    ) -> None:
        self._producer = producer
        self._topics = topics
        self._converters = converters
        self._key, self._value = (Encoding(converter) for converter in converters)
        self._chain = chain
        self._known: set[str] = set()
        self._counts: Counter[str] = Counter()
        self.send: Callable[..., None] = producer.send
        """Queues records that a task has encoded itself: topic, and list of `data.records.Record`."""
        self.direct: tuple[Converter, Converter] | None = None
        """The converters for keys and values, where a task may encode rows itself: there are no transforms, and both have
        codecs."""
        if chain is None and all(_has_codec(converter) for converter in converters):
            self.direct = converters
        self.settle: Callable[[], None] = lambda: None
        """Stores where the task is, and waits until it is stored; the task's loop sets it."""
        self.exactly_once = False
        """Whether what is written and the position it stands for are stored at once, or neither; the task's loop sets it."""
        self.consumer: Mapping[str, str] = {}
        """librdkafka's settings for consumers, as the worker has them."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many records have been written, by topic."""
        return self._counts

    def write(self, record: SourceRecord, *, trusted: bool = False) -> None:
        """Transform, convert and queue a record; its topic is created when its first record comes.

        Args:
            trusted: key and value were made by their schemas, so that they are not compared with them, which takes as long
                as the rest; a transform's result always is.

        Raises:
            TransformError: a transform failed.
            RecordError: a value does not fit its schema.
            TopicError: no record may go to its topic.
            BrokerError: an earlier record was refused for good.
        """
        result = record
        if self._chain is not None:
            transformed = self._chain.apply(record, f"a record of topic {record.topic}")
            if transformed is None:
                return
            result = transformed
            trusted = trusted and transformed is record
        topic = result.topic
        try:
            key = self._key(topic, result.key_schema, result.key, trusted=trusted)
            value = self._value(topic, result.value_schema, result.value, trusted=trusted)
        except DataError as error:
            raise RecordError(f"a record of topic {topic} cannot be written: {error}") from None
        headers = [
            (h.key, None if h.value is None else connect_text(h.schema, h.value).encode())
            for h in result.headers
        ]
        self._ensure(topic)
        self._producer.send_one(topic, key, value, headers, result.partition, result.timestamp)
        self._counts[topic] += 1

    def write_encoded(self, topic: str, records: Sequence[Record]) -> None:
        """Queue records that were encoded by `direct`; the topic is created when its first record comes.

        Raises:
            TopicError: no record may go to its topic.
            BrokerError: an earlier record was refused for good.
        """
        self._ensure(topic)
        self._producer.send(topic, records)
        self._counts[topic] += len(records)

    def _ensure(self, topic: str) -> None:
        if topic not in self._known:
            self._topics.ensure(topic)
            self._known.add(topic)

    def close(self) -> None:
        """Close transforms and converters."""
        if self._chain is not None:
            self._chain.close()
        for converter in self._converters:
            converter.close()


def _has_codec(converter: Converter) -> bool:
    try:
        return converter.codec is not None
    except ConverterError:
        return False
