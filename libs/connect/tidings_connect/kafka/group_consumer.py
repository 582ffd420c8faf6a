"""A sink task's membership in its consumer group, with librdkafka's consumer.

Partitions move cooperatively: a task keeps those that stay its own through a rebalance. Only committed records are read
(``isolation.level=read_committed``), unless the connector says otherwise.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from tidings_connect.data.subscription import Assignments, Consumed, Reach, Subscribe, TopicPartition
from tidings_connect.errors import BrokerError
from tidings_connect.kafka.clients import Consumer
from tidings_connect.kafka.producer import LIBRDKAFKA_LOG, describe_failure
from tidings_connect.kafka.topics import NOT_THERE_YET, arrived
from tidings_envelope.headers.reading import read_headers
from tidings_service import Retry, get_logger

_DEFAULTS: Final[dict[str, Any]] = {
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
    "topic.metadata.refresh.interval.ms": 10_000,  # a topic may be made after its sink
    "queued.max.messages.kbytes": 16_384,  # by partition: librdkafka's 64 MB are more than a task may take
}
_REQUEST_SECONDS: Final = 15.0
_ENDS_SECONDS: Final = 10.0
"""How often Kafka is asked where partitions end that nothing is fetched of: they rest, or their broker does not give them."""
_ENDS_PATIENCE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 10.0
"""How often a task whose topics are named by an expression looks for new ones."""
_FIRST_LOOK_SECONDS: Final = 1.0
_OURS: Final[dict[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # says how far a partition was read: the last offset may be a transaction's end
    "partition.assignment.strategy": "cooperative-sticky",
}
_IN_PASSING: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - librdkafka's own names
        KafkaError._TRANSPORT,  # noqa: SLF001
        *NOT_THERE_YET,
    }
)
_MOVED: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001
    }
)
"""A commit came too late: amid a rebalance, or another member has the partition, and goes on from the last one."""

_log = get_logger(__name__)


class GroupConsumer:
    """A `Subscription`.

    Args:
        settings: librdkafka's, of the worker.
    """

    def __init__(self, settings: Mapping[str, Any], wanted: Subscribe, assignments: Assignments) -> None:
        self._assignments = assignments
        self._group = wanted.settings.get("group.id", wanted.group)
        self._most = wanted.most_records
        self._failed: BaseException | None = None
        self._closing = False
        self._matches = wanted.matches
        self._topics: list[str] = []
        self._next_look = 0.0
        self._passed: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._ends: dict[TopicPartition, int] = {}
        """Of partitions that rest, where Kafka has said that they end."""
        self._next_ends = 0.0
        try:
            self._consumer = Consumer(
                {
                    **_DEFAULTS,
                    **settings,
                    "client.id": wanted.client_id,
                    "group.id": wanted.group,
                    **wanted.settings,
                    **_OURS,
                },
                logger=LIBRDKAFKA_LOG,
            )
            if self._matches is None:
                self._subscribe(list(wanted.topics))
        except (KafkaException, ValueError) as error:
            raise describe_failure("the consumer's settings cannot be used together", error) from error

    def poll(self, seconds: float) -> list[Consumed]:
        """See `Subscription.poll`."""
        found = []
        try:
            if self._matches is not None and time.monotonic() >= self._next_look:
                self._look(self._matches)
            messages = arrived(self._consumer, self._most, seconds)
        except KafkaException as error:
            self._raise_failure()
            raise describe_failure(f"consumer group {self._group}", error) from error
        self._raise_failure()
        for message in messages:
            told = message.error()
            if told is None:
                found.append(_consumed(message))
            elif told.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                at = TopicPartition(message.topic() or "", message.partition() or 0)
                self._passed[at] = message.offset() or 0
            elif told.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                raise BrokerError(
                    f"topic {message.topic()}, partition {message.partition()}: the group's offset does not exist any more",
                    hint="consumer.override.auto.offset.reset=none asks for this error: alter the connector's offsets",
                    retry=Retry.MANUAL,
                )
            elif told.fatal() or told.code() not in _IN_PASSING:
                raise describe_failure(f"consumer group {self._group}", told)
        return found

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Collection[TopicPartition]:
        """See `Subscription.commit`."""
        places = [Place(at.topic, at.partition, offset) for at, offset in offsets.items()]
        try:
            done = self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() in _MOVED:
                _log.info("a commit came too late: its partitions have moved", group=self._group)
                return ()
            raise describe_failure(
                f"cannot commit the offsets of consumer group {self._group}", error
            ) from error
        found = []
        for place in done or ():
            if place.error is None:
                found.append(_of(place))
            elif place.error.code() not in _MOVED:
                raise describe_failure(
                    f"cannot commit the offset of topic {place.topic}, partition {place.partition}",
                    place.error,
                )
        return found

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """See `Subscription.pause`."""
        self._consumer.pause([Place(*at) for at in partitions])
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """See `Subscription.resume`."""
        self._consumer.resume([Place(*at) for at in partitions])
        self._rest_no_more(partitions)

    def reaches(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Reach]:
        """See `Subscription.reaches`."""
        fetched = {at: self._fetched_end(at) for at in partitions}
        unread = {at for at, end in fetched.items() if end < 0}
        if (self._paused or unread) and time.monotonic() >= self._next_ends:
            self._ask_ends(unread)
            self._next_ends = time.monotonic() + _ENDS_SECONDS
        found = {}
        for at, fetched_end in fetched.items():
            if at not in self._paused and at not in unread:
                self._ends.pop(at, None)
            end = max(self._ends.get(at, -1), fetched_end)
            if end >= 0:
                found[at] = Reach(end, self._passed.get(at, -1))
        return found

    def close(self) -> None:
        """See `Subscription.close`."""
        self._closing = True
        self._consumer.close()
        self._raise_failure()

    def _fetched_end(self, at: TopicPartition) -> int:
        """Where a partition ended when something was fetched of it; -1 before."""
        try:
            return self._consumer.get_watermark_offsets(Place(*at), cached=True)[1]
        except KafkaException:  # not assigned yet, or no more: nothing is known
            return -1

    def _ask_ends(self, unread: Collection[TopicPartition]) -> None:
        """Where partitions end that rest, or of which nothing was fetched yet; as many as can be asked in a moment."""
        deadline = time.monotonic() + _ENDS_PATIENCE_SECONDS
        for at in sorted(self._paused.union(unread), key=self._ends.__contains__):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            try:
                seen = self._consumer.get_watermark_offsets(Place(*at), timeout=left)
            except KafkaException as error:
                _log.debug("Kafka does not say where a partition ends", reason=error.args[0].name())
                return
            self._ends[at] = seen[1]
            if at in unread:
                self._passed.setdefault(at, seen[0])

    def _rest_no_more(self, partitions: Collection[TopicPartition]) -> None:
        self._paused -= set(partitions)
        for at in partitions:
            self._ends.pop(at, None)

    def _forget(self, places: list[Place]) -> None:
        gone = [_of(place) for place in places]
        resting = self._paused.intersection(gone)
        if resting and not self._closing:
            # librdkafka keeps a pause beyond the assignment: a partition that came back would never be read.
            self._consumer.resume([Place(*at) for at in resting])
        self._rest_no_more(gone)
        for at in gone:
            self._passed.pop(at, None)

    def _subscribe(self, topics: list[str]) -> None:
        self._topics = topics
        self._consumer.subscribe(
            topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _look(self, matches: Callable[[str], bool]) -> None:
        """Which topics there are: librdkafka's own expressions are not Java's."""
        known = self._consumer.list_topics(timeout=_REQUEST_SECONDS).topics
        topics = sorted(name for name in known if not name.startswith("__") and matches(name))
        self._next_look = time.monotonic() + (_LOOK_SECONDS if topics else _FIRST_LOOK_SECONDS)
        if topics and topics != self._topics:
            self._subscribe(topics)

    def _raise_failure(self) -> None:
        """What went wrong in a callback: librdkafka must not see it."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _assigned(self, consumer: Any, places: list[Place]) -> None:
        try:
            begin = self._assignments.assigned([_of(place) for place in places])
        except BaseException as error:  # noqa: BLE001 - raised by `poll`
            self._failed, begin = error, {}
        for place in places:
            if _of(place) in begin:
                place.offset = begin[_of(place)]
        self._next_ends = time.monotonic() + _ENDS_SECONDS  # until then something is fetched, but for a fault
        consumer.incremental_assign(places)

    def _revoked(self, consumer: Any, places: list[Place]) -> None:
        try:
            self._assignments.revoked([_of(place) for place in places])
        except BaseException as error:  # noqa: BLE001 - raised by `poll`
            self._failed = error
        self._forget(places)
        if not self._closing:
            consumer.incremental_unassign(places)

    def _lost(self, consumer: Any, places: list[Place]) -> None:
        try:
            self._assignments.lost([_of(place) for place in places])
        except BaseException as error:  # noqa: BLE001 - raised by `poll`
            self._failed = error
        self._forget(places)
        if not self._closing:
            consumer.incremental_unassign(places)


def _of(place: Place) -> TopicPartition:
    return TopicPartition(place.topic, place.partition)


def _consumed(message: Message) -> Consumed:
    kind, timestamp = message.timestamp()
    key, value = message.key(), message.value()
    return Consumed(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        key if isinstance(key, bytes) else None,
        value if isinstance(value, bytes) else None,
        read_headers(message),
        timestamp if timestamp >= 0 else None,
        kind == TIMESTAMP_LOG_APPEND_TIME,
    )
