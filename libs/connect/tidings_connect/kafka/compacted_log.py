"""Follows compacted topics from their beginning: what Kafka Connect calls a Kafka based log.

A thread reads; records are handed over in the order of each partition. `wait_end` is the barrier: everything that was in
the topics when it was called has been handed over when it returns.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # in its __all__ only

from tidings_connect.errors import BrokerError
from tidings_connect.kafka.clients import AdminClient, Consumer
from tidings_connect.kafka.producer import describe_failure
from tidings_connect.kafka.topics import NOT_THERE_YET, partitions_of, told_offset
from tidings_connect.supervised import OnEnd, supervised_thread

_LOG: Final = logging.getLogger("tidings_capture.librdkafka")
_REQUEST_SECONDS: Final = 15.0
_END: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_LOOK_AGAIN_SECONDS: Final = 0.1
_ASK_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 10.0
"""How often the reader asks whether it has missed something; two times with no progress are enough."""
_OLD_EPOCH: Final = frozenset((KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH))
"""A broker was restarted. librdkafka's admin client keeps the epochs that it knows, for minutes; a new one asks."""
_STALE: Final = _OLD_EPOCH | {KafkaError._NOENT}  # noqa: SLF001 - librdkafka's own name
"""Or it knows of no leader at all, and does not ask again."""
_BLIND_LOOKS: Final = 2
"""After so many looks that saw nothing the clients are made anew."""

OnRecords = Callable[[list[tuple[str, bytes, bytes | None]]], None]


class TopicTail:
    """The tail of some topics, of all their partitions.

    Args:
        settings: librdkafka's.
        on_records: called in the reader's thread with (topic, key, value) in order; a value of None deletes.
        on_error: called in the reader's thread when the topics cannot be read for now.
        on_end: called in the reader's thread when it reads no more, without having been told to stop.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: Sequence[str],
        on_records: OnRecords,
        on_error: Callable[[BrokerError], None],
        on_end: OnEnd,
    ) -> None:
        self._settings = dict(settings)
        self._consumer = self._new_consumer()
        self._admin = AdminClient(self._settings, logger=_LOG)
        self._topics = topics
        self._on_records = on_records
        self._on_error = on_error
        self._reached: dict[tuple[str, int], int] = {}
        self._moved = threading.Condition()
        self._closing = False
        self._stuck = threading.Event()
        self._blind = 0
        self._behind: dict[tuple[str, int], int] | None = None
        self._next_look = time.monotonic() + _LOOK_SECONDS
        self._thread = supervised_thread(self._run, "storage topics", on_end)

    def start(self) -> None:
        """Begin to read, and return when the end has been reached.

        Raises:
            BrokerError: the topics cannot be read.
        """
        try:
            found = [
                TopicPartition(topic, number, OFFSET_BEGINNING)
                for topic in self._topics
                for number in sorted(partitions_of(self._consumer, topic))
            ]
            self._consumer.assign(found)
        except KafkaException as error:
            raise self._failure(error) from error
        self._reached = {(place.topic, place.partition): 0 for place in found}
        self._thread.start()
        self.wait_end(4 * _REQUEST_SECONDS)

    def _new_consumer(self) -> Consumer:
        return Consumer(
            {
                **self._settings,
                "group.id": "tidings-capture-storage",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 500,
                "queued.max.messages.kbytes": 4096,
            },
            logger=_LOG,
        )

    def wait_end(self, seconds: float = _REQUEST_SECONDS) -> None:
        """Return when everything that is in the topics now has been handed over.

        Raises:
            BrokerError: it was not in time; `retry` is never set, whoever asked decides.
        """
        deadline = time.monotonic() + seconds
        ends = self._ends(deadline)
        with self._moved:
            if not self._moved.wait_for(
                lambda: self._closing or all(self._reached[place] >= end for place, end in ends.items()),
                max(0.0, deadline - time.monotonic()),
            ):
                raise BrokerError(f"the end of {', '.join(self._topics)} was not reached in time")

    def _ends(self, deadline: float) -> dict[tuple[str, int], int]:
        """Where the partitions end now; asked on a connection of its own: the consumer's wait for what is new."""
        wanted = {TopicPartition(*place): _END for place in self._reached}
        while True:
            # Held while it is asked: another thread may make it anew, and a client that is let go of never answers.
            admin = self._admin
            try:
                futures = admin.list_offsets(
                    wanted,
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=max(1.0, deadline - time.monotonic()),
                )
                return {(at.topic, at.partition): told_offset(future) for at, future in futures.items()}
            except KafkaException as error:
                code = error.args[0].code()
                if code in _STALE:
                    self._begin_anew()
                if code not in NOT_THERE_YET | _STALE or time.monotonic() > deadline:
                    raise self._failure(error) from error
            time.sleep(_LOOK_AGAIN_SECONDS)

    def _failure(self, error: KafkaException) -> BrokerError:
        topics = ", ".join(self._topics)
        return describe_failure(f"cannot read {topics}", error, f"Read on topic {topics}")

    def _begin_anew(self) -> None:
        """Both clients: what they know of the brokers is no longer so."""
        self._admin = AdminClient(self._settings, logger=_LOG)
        self._stuck.set()

    def close(self) -> None:
        """Stop reading."""
        with self._moved:
            self._closing = True
            self._moved.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_REQUEST_SECONDS)
        self._consumer.close()

    def _run(self) -> None:
        while not self._closing:
            try:
                self._take(self._next())
                self._look()
            except KafkaException as error:
                self._on_error(self._failure(error))
                time.sleep(1.0)

    def _next(self) -> list[Message]:
        """What has arrived; `consume` alone would wait until there are many."""
        first = self._consumer.poll(0.2)
        return [] if first is None else [first, *self._consumer.consume(500, timeout=0)]

    def _look(self) -> None:
        """Notice that nothing comes although there is something: librdkafka's consumer, too, waits for ever where a broker
        has come back with an older epoch than it knows (its fetches are refused, and it takes no older metadata)."""
        if not self._stuck.is_set() and time.monotonic() >= self._next_look:
            try:
                ends = self._ends(time.monotonic() + _ASK_SECONDS)
            except BrokerError as error:
                _LOG.warning("the ends of the storage topics are not known: %s", error)
                self._blind += 1
                if self._blind >= _BLIND_LOOKS:
                    self._begin_anew()
            else:
                self._blind = 0
                reached = dict(self._reached)
                short = any(reached[place] < end for place, end in ends.items())
                if short and reached == self._behind:
                    self._stuck.set()
                self._behind = reached if short else None
            self._next_look = time.monotonic() + _LOOK_SECONDS
        if self._stuck.is_set():
            _LOG.warning("reading the storage topics anew from where the reader stands")
            self._stuck.clear()
            self._behind = None
            self._blind = 0
            self._consumer.close()
            self._consumer = self._new_consumer()
            self._consumer.assign([TopicPartition(*place, offset) for place, offset in self._reached.items()])

    def _take(self, messages: list[Message]) -> None:
        if not messages:
            return
        found: list[tuple[str, bytes, bytes | None]] = []
        reached: dict[tuple[str, int], int] = {}
        for message in messages:
            error, place = message.error(), (message.topic() or "", message.partition() or 0)
            if error is None:
                reached[place] = (message.offset() or 0) + 1
                key, value = message.key(), message.value()
                if isinstance(key, bytes):
                    found.append((place[0], key, value if isinstance(value, bytes) else None))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own name
                reached[place] = message.offset() or 0
            else:
                self._on_error(
                    describe_failure(f"cannot read {place[0]}", error, f"Read on topic {place[0]}")
                )
        if found:
            self._on_records(found)
        with self._moved:
            for place, offset in reached.items():
                self._reached[place] = max(self._reached.get(place, 0), offset)
            self._moved.notify_all()
