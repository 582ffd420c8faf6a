"""What the demo reads from Kafka: the business topics live, and all of them again for the check at the end.

The one module of the demo that talks to the broker. Both readers read committed records only, as a subscriber does.
"""

import io
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

import fastavro
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from tidings_envelope.errors import EnvelopeError
from tidings_envelope.registry import RegistryClient
from tidings_envelope.wire import split
from tidings_shop.demo.figures import LatestEvent
from tidings_shop.demo.sentences import sentence
from tidings_shop.errors import DemoError

_SECONDS = 15.0
_POLL_SECONDS = 0.2
_LATENCIES = 50

Headers = Mapping[str, str]


@dataclass(slots=True)
class TopicCount:
    """What a topic holds for a reader of committed records."""

    records: int = 0
    ids: set[str] = field(default_factory=set)
    """The CloudEvents ids; as many as records when each event is there once."""


def topic_of(name: str, version: int) -> str:
    """``shop.order-placed.v1`` for version 1 of OrderPlaced."""
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")
    return f"shop.{words}.v{version}"


class EventTap:
    """A subscriber of the business topics, in a thread: counts, and the newest events in words.

    Args:
        on_events: called with the counts by topic so far, and the events that have just come.
    """

    def __init__(
        self,
        bootstrap: str,
        registry: str,
        topics: Mapping[str, tuple[str, int]],
        on_events: Callable[[Counter[tuple[str, int]], list[LatestEvent], float | None], None],
    ) -> None:
        self._consumer = Consumer(
            _settings(bootstrap)
            | {
                "group.id": "tidings-demo",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1000,
                "fetch.wait.max.ms": 50,
            }
        )
        self._registry = RegistryClient(registry)
        self._topics = topics
        self._on_events = on_events
        self._counts: Counter[tuple[str, int]] = Counter()
        self._latencies: deque[float] = deque(maxlen=_LATENCIES)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="event tap", daemon=True)
        self.error: str | None = None
        """Why it has ended, when nobody asked it to."""

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """End the thread and leave the group."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_SECONDS)

    def _run(self) -> None:
        try:
            # A pattern, because the topics need not be there yet.
            self._consumer.subscribe(["^shop\\.[a-z-]+\\.v[0-9]+$"])
            while not self._stop.is_set():
                batch = self._consumer.consume(500, _POLL_SECONDS)
                events = [event for message in batch if (event := self._event(message)) is not None]
                if events:
                    self._on_events(
                        self._counts, events, median(self._latencies) if self._latencies else None
                    )
        except (KafkaException, EnvelopeError, DemoError) as error:
            self.error = f"the demo's subscriber stopped: {error}"
        finally:
            self._consumer.close()
            self._registry.close()

    def _event(self, message: Message) -> LatestEvent | None:
        error, topic, value = message.error(), message.topic(), message.value()
        if error is not None:
            if error.code() in {KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART}:  # noqa: SLF001
                return None
            raise KafkaException(error)
        if topic is None or topic not in self._topics or not isinstance(value, bytes):
            return None
        name, version = self._topics[topic]
        self._counts[name, version] += 1
        headers = headers_of(message)
        latency = _latency(headers.get("ce_time"))
        if latency is not None:
            self._latencies.append(latency)
        schema_id, body = split(value)
        payload = fastavro.schemaless_reader(io.BytesIO(body), self._registry.schema_by_id(schema_id), None)
        assert isinstance(payload, dict)
        subject, text = sentence(name, payload)
        clock = datetime.now().astimezone().strftime("%H:%M:%S")
        return LatestEvent(clock, name, version, subject, text, latency)


def read_topics(bootstrap: str, topics: Iterable[str], *, seconds: float = 60.0) -> dict[str, TopicCount]:
    """Read topics from their beginning to their end, as a subscriber that reads committed records.

    Raises:
        DemoError: when the end is not reached within `seconds`.
    """
    counts = {topic: TopicCount() for topic in topics}
    present = AdminClient(_quiet(bootstrap)).list_topics(timeout=_SECONDS).topics
    partitions = [
        TopicPartition(topic, number, OFFSET_BEGINNING)
        for topic in counts
        if topic in present
        for number in present[topic].partitions
    ]
    if not partitions:
        return counts
    consumer = Consumer(
        _settings(bootstrap) | {"group.id": "tidings-demo-check", "enable.partition.eof": True}
    )
    open_partitions = {(part.topic, part.partition) for part in partitions}
    deadline = time.monotonic() + seconds
    try:
        consumer.assign(partitions)
        while open_partitions:
            if time.monotonic() > deadline:
                raise DemoError(
                    f"the end of {len(open_partitions)} partitions was not reached in {seconds:.0f} s"
                )
            for message in consumer.consume(1000, _POLL_SECONDS):
                _count(message, counts, open_partitions)
    finally:
        consumer.close()
    return counts


def _count(message: Message, counts: dict[str, TopicCount], open_partitions: set[tuple[str, int]]) -> None:
    error, topic, partition = message.error(), message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    if error is not None:
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public constant
            raise DemoError(f"{topic} cannot be read: {error.str()}")
        open_partitions.discard((topic, partition))
        return
    count = counts[topic]
    count.records += 1
    count.ids.add(headers_of(message).get("ce_id", f"{partition}:{message.offset()}"))


def headers_of(message: Message) -> Headers:
    """A record's headers as text; of repeated names the last."""
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return {name: value.decode("utf-8", "replace") for name, value in pairs if isinstance(value, bytes)}


def _latency(commit_time: str | None) -> float | None:
    """Seconds from a commit's time (ISO 8601) until now; both are this machine's clock."""
    if commit_time is None:
        return None
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(commit_time)).total_seconds())


def _quiet(bootstrap: str) -> dict[str, str | int | float | bool]:
    return {"bootstrap.servers": bootstrap, "log_level": 2, "client.id": "tidings-demo"}


def _settings(bootstrap: str) -> dict[str, str | int | float | bool]:
    return _quiet(bootstrap) | {"isolation.level": "read_committed", "enable.auto.commit": False}
