"""What stands between a task's plans and its producer where a connector has transforms."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tidings_capture.cdc.encoding.plan import NEW_KEY_HEADER, OLD_KEY_HEADER
from tidings_capture.cdc.left_out import LeftOut
from tidings_capture.postgres.encoding.tolerance import Tolerance
from tidings_capture.postgres.streaming.logical_messages import COLLECTION
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Producer, Record
from tidings_connect.data.text import connect_text
from tidings_connect.kafka.topic_bounds import DEFAULT_MOST_TOPICS, MOST_TOPICS, TopicError
from tidings_connect.transforms.chain import Chain, TransformError
from tidings_connect.transforms.encoding import Encoding
from tidings_connect.transforms.intermediate import IntermediateConverter
from tidings_connect.transforms.record import DataError, Header, SourceRecord
from tidings_envelope import semantic
from tidings_envelope.position import lsn_to_text
from tidings_envelope.schema import ConnectSchema
from tidings_service import get_logger

_HEARTBEAT: Final = semantic.HEARTBEAT_VALUE.name
_MARKER: Final = semantic.TRANSACTION_VALUE.name

_log = get_logger(__name__)

Read = tuple[ConnectSchema | None, Any]
_NULL: Final[Read] = (None, None)


class TransformedOutput:
    """Reads what plans wrote with `converter`, applies the chain, encodes, and queues for Kafka.

    Args:
        chain: the transforms.
        converters: the connector's own, for keys and values.
        producer: gets the records.
        ensure_topic: creates a topic that does not exist, or refuses it; called once per topic that a record goes to.
        tolerance: what becomes of records that a transform fails on; None: they are errors.
        left_out: where events of a transaction are noted that do not come out on the topic they were made for.
        most_topics: how many topics the transforms may make up.
    """

    def __init__(
        self,
        chain: Chain,
        converters: tuple[Converter, Converter],
        producer: Producer,
        ensure_topic: Callable[[str], None],
        tolerance: Tolerance | None = None,
        left_out: LeftOut | None = None,
        *,
        most_topics: int = DEFAULT_MOST_TOPICS,
    ) -> None:
        self.converter = IntermediateConverter()
        """What the plans of this task are compiled with, for keys and values."""
        self._chain = chain
        self._key, self._value = (Encoding(converter) for converter in converters)
        self._producer = producer
        self._ensure_topic = ensure_topic
        self._tolerance = tolerance
        self._left_out = LeftOut() if left_out is None else left_out
        self._warned = False
        self._topics: set[str] = set()
        self._most_topics = most_topics
        self._made_up = 0
        """Topics that are the transforms' own."""

    def send(self, topic: str, records: list[Record]) -> None:
        """Transform and queue the records of one change, in order.

        Raises:
            TransformError: a transform failed, or made what cannot be encoded.
            TopicError: a transform sends a record where none may go.
            BrokerError: an earlier record was refused for good.
        """
        read = self.converter.read
        keys: list[Read] = [_NULL if key is None else read(key) for key, _, _ in records]
        former: list[tuple[str, bytes]] | None = None
        shared: list[Header] = []
        for (_, data, headers), key in zip(records, keys, strict=True):
            value = _NULL if data is None else read(data)
            if not headers or data is not None or headers is not former:
                shared = _headers(headers, keys) if headers else []
            former = headers
            record = SourceRecord(topic, _partition(value[0]), *key, *value, None, shared)
            where = _where(topic, value[1])
            try:
                result = self._chain.apply(record, where)
                if result is not None:
                    self._produce(result, record, where)
                if result is None or result.topic != topic:
                    self._note(record, self._left_out.filter)
            except TransformError as error:
                if self._tolerance is None:
                    raise
                self._tolerance.record(
                    error,
                    topic,
                    self._key(topic, record.key_schema, record.key, trusted=True),
                    partial(self._value, topic, record.value_schema, record.value, trusted=True),
                )
                self._note(record, self._left_out.fail)

    def _note(self, record: SourceRecord, left_out: Callable[[str], None]) -> None:
        """A record does not come out on its topic."""
        value = record.value
        if record.value_schema is None or not isinstance(value, dict):
            return
        if record.value_schema.name == _MARKER and not self._warned:
            self._warned = True
            _log.warning(
                "the transforms leave out transaction markers, or send them to another topic: who puts transactions"
                " together, as the translator does, waits for ever; give the transform a predicate",
                topic=record.topic,
            )
        elif value.get("transaction") is not None:  # an event that has been counted
            source = value["source"]
            left_out(COLLECTION if value["op"] == "m" else f"{source['schema']}.{source['table']}")

    def _produce(self, record: SourceRecord, original: SourceRecord, where: str) -> None:
        topic = record.topic
        if not topic or not isinstance(topic, str):
            raise TransformError(f"the transforms made a record without a topic of {where}")
        try:
            trusted = record.key is original.key and record.key_schema is original.key_schema
            key = self._key(topic, record.key_schema, record.key, trusted=trusted)
            trusted = record.value is original.value and record.value_schema is original.value_schema
            value = self._value(topic, record.value_schema, record.value, trusted=trusted)
            headers = [(header.key, _header_bytes(header)) for header in record.headers]
        except DataError as error:
            raise TransformError(f"what the transforms made of {where} cannot be written: {error}") from None
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise TransformError(
                f"what the transforms made of {where} cannot be written: {type(error).__name__}",
                hint="a value does not fit its schema",
            ) from None
        if topic not in self._topics:
            self._see_to(topic, original.topic)
        self._producer.send_one(topic, key, value, headers, record.partition, record.timestamp)

    def _see_to(self, topic: str, original: str) -> None:
        """A topic that no record has gone to before."""
        routed = topic != original
        if routed and self._made_up >= self._most_topics:
            raise TopicError(
                f"transforms.{self._chain.router} sends a record of topic {original} to topic {topic}: it would be one "
                f"more than the {self._most_topics} topics that {MOST_TOPICS} allows a task's transforms to make up",
                hint=f"correct the transform, or set {MOST_TOPICS} in the worker's properties",
            )
        try:
            self._ensure_topic(topic)
        except TopicError as error:
            if not routed:
                raise
            raise TopicError(
                f"transforms.{self._chain.router} sends a record of topic {original} to another: {error}",
                hint=error.hint,
            ) from None
        self._made_up += routed
        self._topics.add(topic)

    def close(self) -> None:
        """Close the transforms."""
        self._chain.close()


def _partition(schema: ConnectSchema | None) -> int | None:
    # Debezium gives heartbeats a partition, and leaves it to the producer for everything else.
    return 0 if schema is not None and schema.name == _HEARTBEAT else None


def _headers(headers: list[tuple[str, bytes]], keys: list[Read]) -> list[Header]:
    """The headers of one record of a change.

    Args:
        keys: of all records of the change; a changed key is a delete, a tombstone and a create, and the headers of
            each name the other's key.
    """
    found = []
    for name, data in headers:
        if name == NEW_KEY_HEADER and len(keys) > 1:
            found.append(Header(name, *keys[-1], data))
        elif name == OLD_KEY_HEADER and len(keys) > 1:
            found.append(Header(name, *keys[0], data))
        else:
            found.append(Header(name, semantic.STRING, data.decode(), data))
    return found


def _header_bytes(header: Header) -> bytes | None:
    if header.encoded is not None:
        return header.encoded
    return None if header.value is None else connect_text(header.schema, header.value).encode()


def _where(topic: str, value: Any) -> str:
    """A record's position, for messages."""
    source = value.get("source") if isinstance(value, dict) else None
    lsn = source.get("lsn") if isinstance(source, dict) else None
    return f"a record of topic {topic}" + (f" at LSN {lsn_to_text(lsn)}" if isinstance(lsn, int) else "")
