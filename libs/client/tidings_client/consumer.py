"""`Events`: a consumer of business events that gives each once and moves from one version of an event to the next.

Transactions that were aborted are never seen (read_committed). An event counts as handled when the loop asks for the
next one: then its key goes into `seen`, and its offset is committed within a second. Whatever ends the loop before that
(an exception, `break`, a kill) brings it again; what is in `seen` is skipped.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tidings_client.decoding import Decoder
from tidings_client.errors import ClientError
from tidings_client.headers import read_headers
from tidings_client.received import Received
from tidings_client.registry import Registry
from tidings_client.seen import MemorySeen, Seen
from tidings_client.typed import name_of, topic_of, version_of
from tidings_client.younger import LOOKING, unseen

_log = logging.getLogger("tidings_client")

_MARGIN_MS = 60_000
"""How much earlier than needed a newer version is read from: brokers' and producers' clocks may differ."""
_SECONDS = 30.0


class Events:
    """An iterator over the events of some classes, for one member of a consumer group.

    Where several classes are versions of one event, the newest that is published is read, and a group that has read an older
    one goes on where it was: it needs the same `seen` for that.

    Args:
        kafka: bootstrap servers, host:port[,host:port].
        registry: the schema registry's Confluent API.
        group: the consumer group; `tidings-translator readers` shows it to those who want to retire a version.
        events: dataclasses marked with `event`.
        seen: what was handled already; by default forgotten with the process.
        settings: further ones of librdkafka, for TLS and a user.
        idle_seconds: end the iteration when everything was read and nothing has come for so long; None for never.

    Raises:
        ClientError: a class is not marked, a topic does not exist, or Kafka is away.
    """

    def __init__(
        self,
        *,
        kafka: str,
        registry: str,
        group: str,
        events: Sequence[type[Any]],
        seen: Seen | None = None,
        settings: Mapping[str, Any] | None = None,
        idle_seconds: float | None = None,
    ) -> None:
        self._seen: Seen = MemorySeen() if seen is None else seen
        self._lasting = seen is not None
        self._idle_seconds = idle_seconds
        self._settings = {
            **(settings or {}),
            "bootstrap.servers": kafka,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.offset.store": False,
            "auto.commit.interval.ms": 1000,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
        self._consumer = Consumer(self._settings)
        self._handled: tuple[Message, str] | None = None
        self._places: int | None = None
        """How many partitions this member has; None before it is told."""
        self._ended: set[tuple[str, int]] = set()
        """Those of them that were read to their end."""
        self._closed = False
        self._published: dict[str, list[str]] = {}
        """By chosen topic: those of the event's older versions, whether or not there is a class for them."""
        try:
            self._chosen, self._older = self._choose(events)
            schemas = Registry(registry)
            self._decoders = {topic: Decoder(cls, schemas) for topic, cls in self._chosen.items()}
            self._consumer.subscribe(list(self._chosen), on_assign=self._assigned)
        except BaseException:
            self._consumer.close()
            raise

    @property
    def topics(self) -> list[str]:
        """The topics that are read: of each event the chosen version."""
        return list(self._chosen)

    def _choose(self, events: Sequence[type[Any]]) -> tuple[dict[str, type[Any]], dict[str, list[str]]]:
        """The class for each topic to be read, and the topics of the older versions beside it."""
        by_name: dict[str, list[type[Any]]] = {}
        for cls in events:
            by_name.setdefault(name_of(cls), []).append(cls)
        if not by_name:
            raise ClientError("events is empty: name at least one class")
        try:
            have = self._consumer.list_topics(timeout=_SECONDS).topics
        except KafkaException as error:
            raise ClientError(f"kafka: no broker answers ({error.args[0].name()})") from error
        chosen: dict[str, type[Any]] = {}
        older: dict[str, list[str]] = {}
        for name, classes in by_name.items():
            classes.sort(key=version_of, reverse=True)
            there = [cls for cls in classes if topic_of(cls) in have]
            if not there:
                versions = sorted(topic for topic in have if topic.rpartition(".v")[0] == name)
                raise ClientError(
                    f"there is no topic {topic_of(classes[0])}; of {name} are published: {', '.join(versions) or 'none'}"
                )
            chosen[topic_of(there[0])] = there[0]
            older[topic_of(there[0])] = [topic_of(cls) for cls in there[1:]]
            self._published[topic_of(there[0])] = _below(have, name, version_of(there[0]))
        return chosen, older

    def __iter__(self) -> Iterator[Received[Any]]:
        """Wait for events until the process ends, or `idle_seconds` have passed without any.

        Raises:
            ClientError: an event does not fit its class, or Kafka refused something for good.
        """
        waited = 0.0
        while not self._closed:
            self._done()
            before = time.monotonic()
            message = self._consumer.poll(0.1)
            if message is None:
                if self._places is not None and len(self._ended) >= self._places:
                    waited += time.monotonic() - before
                if self._idle_seconds is not None and waited >= self._idle_seconds:
                    return
                continue
            place = (str(message.topic()), int(message.partition() or 0))
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    self._ended.add(place)
                    continue
                if error.fatal() or not error.retriable():
                    raise ClientError(f"kafka: {error.name()}: {error.str()}")
                continue
            waited = 0.0
            self._ended.discard(place)
            received = self._decode(message)
            if received is None:
                continue
            if received.key in self._seen:
                self._store(message)
                continue
            self._handled = (message, received.key)
            yield received

    def _decode(self, message: Message) -> Received[Any] | None:
        topic, value = str(message.topic()), message.value()
        if value is None:
            return None
        headers = {name: text or b"" for name, text in read_headers(message)}
        position = f"{topic}/{message.partition()} offset {message.offset()}"
        return self._decoders[topic].decode(value, headers, position)

    def _done(self) -> None:
        """The event that was given out last is handled."""
        if self._handled is not None:
            message, key = self._handled
            self._seen.add(key)
            self._handled = None
            self._store(message)

    def _store(self, message: Message) -> None:
        try:
            self._consumer.store_offsets(message)
        except KafkaException as error:
            # The partition went to another member meanwhile, which reads the event again.
            if error.args[0].code() != KafkaError._STATE:  # noqa: SLF001 - its public name
                raise ClientError(f"kafka: an offset cannot be stored ({error.args[0].name()})") from error

    # --- from one version to the next

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Where a topic is read for the first time, and an older version of it was read, begin where that one was."""
        try:
            for topic in {partition.topic for partition in partitions}:
                mine = [one for one in partitions if one.topic == topic]
                if self._published.get(topic):
                    self._begin(consumer, topic, mine)
        except KafkaException as error:
            raise ClientError(f"kafka: offsets cannot be read ({error.args[0].name()})") from error
        consumer.assign(partitions)
        self._places, self._ended = len(partitions), set()

    def _begin(self, consumer: Consumer, topic: str, mine: list[TopicPartition]) -> None:
        known = consumer.committed(mine, _SECONDS)
        new = [one for one, place in zip(mine, known, strict=True) if place.offset == OFFSET_INVALID]
        if not new or self._go_on(consumer, new, self._older[topic]):
            return
        missed = unseen(self._settings, topic, self._published.pop(topic)) if len(new) == len(mine) else None
        if missed is not None:
            _log.warning("group %s is new: %s", self._settings["group.id"], missed)

    def _go_on(self, consumer: Consumer, new: list[TopicPartition], older: list[str]) -> bool:
        """Begin where an older version was read to; False where none was."""
        for topic in older:
            moment = self._read_until_ms(consumer, topic)
            if moment is None:
                continue
            if not self._lasting:
                raise ClientError(
                    f"group {self._settings['group.id']} has read {topic}: to go on with {new[0].topic} without repeats,"
                    " give it the same `seen`"
                )
            wanted = [TopicPartition(one.topic, one.partition, max(moment - _MARGIN_MS, 0)) for one in new]
            # Asked before, so that what comes in between is not passed over where nothing is so new yet.
            ends = [consumer.get_watermark_offsets(one, _SECONDS)[1] for one in new]
            times = consumer.offsets_for_times(wanted, _SECONDS)
            for one, found, end in zip(new, times, ends, strict=True):
                one.offset = found.offset if found.offset >= 0 else end
            return True
        for one in new:
            one.offset = OFFSET_BEGINNING
        return False

    def _read_until_ms(self, consumer: Consumer, topic: str) -> int | None:
        """A moment before which the group has read all of a topic, by the records' timestamps; None if it never read it."""
        places = [
            TopicPartition(topic, number)
            for number in consumer.list_topics(topic, _SECONDS).topics[topic].partitions
        ]
        committed = consumer.committed(places, _SECONDS)
        if all(one.offset == OFFSET_INVALID for one in committed):
            return None
        unread, read = [], []
        reader = Consumer({**self._settings, **LOOKING})
        try:
            for place in committed:
                low, high = reader.get_watermark_offsets(place, _SECONDS)
                position = max(place.offset, low)
                if position < high:
                    unread.append(_timestamp(reader, TopicPartition(topic, place.partition, position)))
                if position > low:
                    read.append(_timestamp(reader, TopicPartition(topic, place.partition, position - 1)))
        finally:
            reader.close()
        moments = [one for one in unread if one is not None] or [one for one in read if one is not None]
        return min(moments) if any(one is not None for one in unread) else max(moments, default=0)

    def close(self) -> None:
        """Commit what was handled and leave the group. An event that is being handled comes again."""
        if not self._closed:
            self._closed = True
            self._consumer.close()
            self._seen.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _below(topics: Iterable[str], name: str, version: int) -> list[str]:
    """The topics of an event's versions below one, the newest first."""
    found = []
    for topic in topics:
        start, _, major = topic.rpartition(".v")
        if start == name and major.isdigit() and int(major) < version:
            found.append((int(major), topic))
    return [topic for _, topic in sorted(found, reverse=True)]


def _timestamp(reader: Consumer, place: TopicPartition) -> int | None:
    """The timestamp, in milliseconds, of the first record from an offset on; None where there is none (any more)."""
    reader.assign([place])
    while True:
        message = reader.poll(_SECONDS)
        if message is None:
            raise ClientError(f"kafka: {place.topic}/{place.partition} cannot be read")
        error = message.error()
        if error is None:
            return int(message.timestamp()[1])
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
            return None
        if error.fatal() or not error.retriable():
            raise ClientError(f"kafka: {error.name()}: {error.str()}")
