"""Subscribes to the business topics while somebody watches: counts, latencies, and the newest events in words."""

import io
import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from statistics import median

import fastavro
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from tidings_envelope.errors import EnvelopeError
from tidings_envelope.headers.reading import read_headers
from tidings_envelope.registry import RegistryClient
from tidings_envelope.wire import split
from tidings_stack.pipeline.figures import LatestEvent

_SECONDS = 15.0
_POLL_SECONDS = 0.2
_LATENCIES = 50

Headers = Mapping[str, str]
Payload = Mapping[str, object]


class EventTap:
    """A subscriber of the business topics, in a thread: counts, and the newest events in words.

    Args:
        pattern: of the topics' names, as librdkafka takes it.
        topics: the event's name and major version by topic; others are passed over.
        describe: an event's name and payload to what it is about, and what it says.
        on_events: called with the counts by topic so far, and the events that have just come.
    """

    def __init__(
        self,
        bootstrap: str,
        registry: str,
        topics: Mapping[str, tuple[str, int]],
        pattern: str,
        describe: Callable[[str, Payload], tuple[str, str]],
        on_events: Callable[[Counter[tuple[str, int]], list[LatestEvent], float | None], None],
    ) -> None:
        self._consumer = Consumer(
            reading_settings(bootstrap)
            | {
                "group.id": f"tidings-watch-{secrets.token_hex(4)}",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1000,
                "fetch.wait.max.ms": 50,
            }
        )
        self._registry = RegistryClient(registry)
        self._topics = topics
        self._pattern = pattern
        self._describe = describe
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
            self._consumer.subscribe([self._pattern])
            while not self._stop.is_set():
                batch = self._consumer.consume(500, _POLL_SECONDS)
                events = [event for message in batch if (event := self._event(message)) is not None]
                if events:
                    self._on_events(
                        self._counts, events, median(self._latencies) if self._latencies else None
                    )
        except (KafkaException, EnvelopeError) as error:
            self.error = f"the subscriber that watches stopped: {error}"
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
        subject, text = self._describe(name, payload)
        clock = datetime.now().astimezone().strftime("%H:%M:%S")
        return LatestEvent(clock, name, version, subject, text, latency)


def headers_of(message: Message) -> Headers:
    """A record's headers as text; of repeated names the last."""
    pairs = read_headers(message)
    return {name: value.decode("utf-8", "replace") for name, value in pairs if value is not None}


def _latency(commit_time: str | None) -> float | None:
    """Seconds from a commit's time (ISO 8601) until now; both are this machine's clock."""
    if commit_time is None:
        return None
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(commit_time)).total_seconds())


def quiet_settings(bootstrap: str) -> dict[str, str | int | float | bool]:
    """A client that says nothing on the terminal."""
    return {"bootstrap.servers": bootstrap, "log_level": 2, "client.id": "tidings-watch"}


def reading_settings(bootstrap: str) -> dict[str, str | int | float | bool]:
    """A consumer of committed records, as a subscriber is."""
    return quiet_settings(bootstrap) | {"isolation.level": "read_committed", "enable.auto.commit": False}
