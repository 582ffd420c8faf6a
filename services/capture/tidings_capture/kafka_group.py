"""A worker's membership in its group: Kafka's consumer group protocol on the partition of the config topic.

The member that owns the partition leads. The group says who is alive, and keeps Kafka Connect's workers out of a group of
ours and ours out of theirs: the broker lets a group have one protocol (theirs is ``connect``). Membership is static,
with the worker's address as its instance: a worker that was killed and started again takes its own place at once, and
one that finds another at its address is fenced.
"""

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tidings_capture.errors import BrokerError, WorkerConfigError
from tidings_capture.group_health import Patience, Sight, difference
from tidings_capture.kafka import describe_failure
from tidings_capture.worker_config import GroupTimes

_LOG: Final = logging.getLogger("tidings_capture.librdkafka")
_LOOK_SECONDS: Final = 1.0
_FIRST_LOOK_SECONDS: Final = 30.0
_LOOK_AGAIN_SECONDS: Final = 0.2
_NOT_YET: Final = frozenset(
    (
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    )
)
_LEAVE_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 10.0
_FENCED_AGAIN_SECONDS: Final = 60.0
_REBALANCING: Final = frozenset(
    {ConsumerGroupState.PREPARING_REBALANCING, ConsumerGroupState.COMPLETING_REBALANCING}
)
_CONNECT: Final = "connect"
_FENCED: Final = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL})  # noqa: SLF001 - librdkafka's own name
_BROKEN: Final = frozenset(
    {
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_SESSION_TIMEOUT,
    }
)


@dataclass(frozen=True, slots=True)
class GroupView:
    """What is known of the group."""

    leads: bool = False
    members: Mapping[str, str] | None = None
    """REST address by worker id; None before the first look."""
    seen_at: float = 0.0
    """Before this look was begun (`time.monotonic`) this worker was a member; 0 when it was not."""


class GroupMember:
    """Joins, stays, and looks who else is there; in a thread of its own.

    Args:
        settings: librdkafka's.
        url: this worker's REST address; the others find it in the group.
        on_view: called in the thread when the view changed, and at least once a second while the group can be seen.
        on_fatal: called in the thread when this worker can't be in the group any more.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        group: str,
        topic: str,
        url: str,
        times: GroupTimes,
        on_view: Callable[[GroupView], None],
        on_fatal: Callable[[BrokerError | WorkerConfigError], None],
    ) -> None:
        self._group, self._topic, self._url = group, topic, url
        self._on_view, self._on_fatal = on_view, on_fatal
        self._leads = False
        self._look_now = False
        self._fenced_at = float("-inf")
        self._closing = False
        common = {name: value for name, value in settings.items() if name != "session.timeout.ms"}
        session_ms = int(times.session * 1000)
        self._apart = Patience(max(times.session, _PATIENCE_SECONDS))
        self._blind = Patience(max(times.session, _PATIENCE_SECONDS))
        self._admin_settings = {**common, "client.id": "tidings-capture-group"}
        self._consumer_settings = {
            **common,
            "group.id": group,
            "client.id": url,
            "group.instance.id": re.sub(r"[^a-zA-Z0-9._-]", "-", url.partition("//")[2]),
            # Cooperative: who leads goes on leading when another comes.
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": int(times.heartbeat * 1000),
            "max.poll.interval.ms": max(int(times.rebalance * 1000), session_ms),
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "queued.max.messages.kbytes": 64,
        }
        self._admin = AdminClient(self._admin_settings, logger=_LOG)
        self._consumer = Consumer(self._consumer_settings, logger=_LOG)
        self._thread = threading.Thread(target=self._run, name="group", daemon=True)

    def start(self) -> None:
        """Join.

        Raises:
            WorkerConfigError: Kafka Connect's workers live in the group.
            BrokerError: the group cannot be looked at.
        """
        self.check_protocol()
        self._subscribe()
        self._thread.start()

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def check_protocol(self) -> None:
        """Refuse a group in which workers of another kind are.

        Raises:
            WorkerConfigError: they are.
            BrokerError: Kafka does not tell.
        """
        groups = self._groups()
        for group in groups:
            if group.members and group.protocol_type == _CONNECT:
                raise _shared(self._group, len(group.members))

    def _groups(self) -> list[Any]:
        deadline = time.monotonic() + _FIRST_LOOK_SECONDS
        while True:
            try:
                # The only call that tells the protocol.
                return list(self._admin.list_groups(self._group, timeout=15.0))
            except KafkaException as error:
                # A broker that has just started has yet to read whom it coordinates.
                if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                    raise describe_failure(
                        f"cannot look at the group of group.id={self._group}", error
                    ) from error
            time.sleep(_LOOK_AGAIN_SECONDS)

    def close(self) -> None:
        """Leave, so that others take over at once."""
        self._closing = True
        if self._thread.ident is not None:
            self._thread.join(3 * _LEAVE_SECONDS)
        self._consumer.close()

    def _run(self) -> None:
        next_look = 0.0
        while not self._closing:
            try:
                self._poll(0.1)
            except KafkaException as error:
                self._on_fatal(describe_failure(f"the group of group.id={self._group}", error))
                return
            now = time.monotonic()
            if self._look_now or now >= next_look:
                self._look_now = False
                next_look = now + _LOOK_SECONDS
                self._look(now)
        self._leave()

    def _poll(self, seconds: float) -> None:
        message = self._consumer.poll(seconds)
        error = None if message is None else message.error()
        if error is None:
            return
        if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            self._on_fatal(_shared(self._group, None))
        elif error.code() in _FENCED and not self._was_fenced():
            self._join_anew(error.str())
        elif error.code() in _BROKEN or error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001
            self._on_fatal(
                BrokerError(
                    f"this worker is out of the group of group.id={self._group}: {error.str()}",
                    hint="another worker has the same address: give each its own rest.advertised.host.name "
                    "and rest.advertised.port",
                )
            )
        else:
            _LOG.warning("group %s: %s", self._group, error.str())

    def _was_fenced(self) -> bool:
        """Whether this worker has lost its place a moment ago, too. Then there is another worker at its address; once may
        be a coordinator that lost its partition while it let this worker in."""
        before, self._fenced_at = self._fenced_at, time.monotonic()
        return self._fenced_at - before < _FENCED_AGAIN_SECONDS

    def _look(self, began: float) -> None:
        """The members, from the coordinator. A dead one is missing as soon as its session has ended."""
        try:
            found = self._admin.describe_consumer_groups([self._group], request_timeout=5.0)[
                self._group
            ].result()
        except KafkaException as error:
            _LOG.debug("the group cannot be seen: %s", error)
            if self._blind.is_over(time.monotonic()):
                _LOG.warning("the group %s cannot be seen, asking anew: %s", self._group, error)
                self._admin = AdminClient(self._admin_settings, logger=_LOG)
            return
        self._blind.end()
        members = {
            member.client_id.partition("//")[2]: member.client_id
            for member in found.members
            if "//" in member.client_id
        }
        there = self._url.partition("//")[2] in members
        self._on_view(GroupView(self._leads, members, began if there else 0.0))
        has_token = any(
            member.client_id == self._url and member.assignment.topic_partitions for member in found.members
        )
        sight = Sight(found.state not in _REBALANCING, there, has_token)
        why = difference(sight, self._leads)
        if why is None:
            self._apart.end()
        elif self._apart.is_over(time.monotonic()):
            self._join_anew(why)

    def _join_anew(self, why: str) -> None:
        """With a new client; the place in the group is kept for it, as membership is static."""
        _LOG.warning("joining the group %s anew: %s", self._group, why)
        self._consumer.close()
        self._leads = False
        self._consumer = Consumer(self._consumer_settings, logger=_LOG)
        self._subscribe()

    def _leave(self) -> None:
        """`close` alone would not leave: a static member's place is kept for it."""
        with contextlib.suppress(KafkaException):
            self._consumer.unsubscribe()
            deadline = time.monotonic() + _LEAVE_SECONDS
            while time.monotonic() < deadline:
                self._consumer.poll(0.1)
                found = self._admin.describe_consumer_groups([self._group], request_timeout=2.0)[self._group]
                if all(member.client_id != self._url for member in found.result().members):
                    return

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        if partitions:
            consumer.pause(partitions)  # it is a token; the topic is read elsewhere
            self._leads = True
            self._look_now = True

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._leads = False
            consumer.incremental_unassign(partitions)
            if not self._closing:
                self._on_view(GroupView(leads=False, members=None, seen_at=0.0))


def _shared(group: str, members: int | None) -> WorkerConfigError:
    count = "" if members is None else f" ({members} now)"
    return WorkerConfigError(
        f"group.id={group} is in use by workers of Kafka Connect{count}: a group has workers of one kind",
        hint="stop them first; the connectors, their offsets and states are taken over as they are",
    )
