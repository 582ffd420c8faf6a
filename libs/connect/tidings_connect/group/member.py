"""A worker's membership in its group: Kafka's consumer group protocol on the partition of the config topic.

The member that owns the partition leads. The group says who is alive, and keeps Kafka Connect's workers out of a group of
ours and ours out of theirs: the broker lets a group have one protocol (theirs is ``connect``). Membership is static,
with the worker's address as its instance: a worker that was killed and started again takes its own place at once, and
one that finds another at its address is fenced.
"""

import contextlib
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer as AnyConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tidings_connect.config.worker import GroupTimes
from tidings_connect.errors import BrokerError, WorkerConfigError
from tidings_connect.group.health import Patience, Sight, difference
from tidings_connect.group.probe import GroupLook
from tidings_connect.kafka.clients import AdminClient, Consumer
from tidings_connect.kafka.producer import describe_failure
from tidings_connect.supervised import OnEnd, supervised_thread

_LOG: Final = logging.getLogger("tidings_capture.librdkafka")
_LOOK_SECONDS: Final = 1.0
_FIRST_LOOK_SECONDS: Final = 30.0
_LOOK_AGAIN_SECONDS: Final = 0.2
_ANSWER_SECONDS: Final = 1.0
_NOT_YET: Final = frozenset(
    (
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    )
)
_LEAVE_SECONDS: Final = 5.0
_FENCED_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 10.0
_CONNECT: Final = "connect"
_BROKEN: Final = frozenset(
    {
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_SESSION_TIMEOUT,
    }
)
_DENIED: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED})


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
        on_fatal: OnEnd,
    ) -> None:
        self._group, self._topic, self._url = group, topic, url
        self._on_view, self._on_fatal = on_view, on_fatal
        self._leads = False
        self._look_now = False
        self._closing = False
        common = {name: value for name, value in settings.items() if name != "session.timeout.ms"}
        session_ms = int(times.session * 1000)
        self._apart = Patience(max(times.session, _PATIENCE_SECONDS))
        self._fenced: str | None = None
        self._mark = secrets.token_hex(8)
        """Tells this worker from another one that has its address."""
        self._coordinator = GroupLook(common, group)
        self._consumer_settings = {
            **common,
            "group.id": group,
            "client.id": url,
            "client.rack": self._mark,  # part of what a member says of itself, and of no other use here
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
        self._admin_settings = {**common, "client.id": "tidings-capture-group"}
        self._admin = AdminClient(self._admin_settings, logger=_LOG)
        self._consumer = Consumer(self._consumer_settings, logger=_LOG)
        self._thread = supervised_thread(self._run, "group member", on_fatal)

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
                    what = f"cannot look at the group of group.id={self._group}"
                    raise describe_failure(what, error, f"Describe on group {self._group}") from error
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
                self._on_fatal(
                    describe_failure(
                        f"the group of group.id={self._group}", error, f"Read on group {self._group}"
                    )
                )
                return
            now = time.monotonic()
            if self._look_now or now >= next_look:
                next_look = now + _LOOK_SECONDS
                self._look()
                self._look_now = self._coordinator.waits or self._fenced is not None
        self._leave()

    def _poll(self, seconds: float) -> None:
        message = self._consumer.poll(seconds)
        error = None if message is None else message.error()
        if error is None:
            return
        if error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL:
            self._on_fatal(_shared(self._group, None))
        elif error.code() == KafkaError.FENCED_INSTANCE_ID or "group.instance.id" in error.str():
            self._fenced = error.str()
            self._look_now = True
        elif error.code() in _DENIED:
            self._on_fatal(
                describe_failure(
                    f"this worker cannot join the group of group.id={self._group}",
                    error,
                    f"Read on group {self._group}",
                )
            )
        elif error.code() in _BROKEN or error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001
            self._on_fatal(self._out(error.str()))
        else:
            _LOG.warning("group %s: %s", self._group, error.str())

    def _look(self) -> None:
        """The members, from the coordinator. A dead one is missing as soon as its session has ended."""
        found = self._coordinator.ask(_ANSWER_SECONDS)
        if found is None or self._closing:
            return
        if self._fenced is not None:
            self._look_who_fenced(self._fenced)
            return
        members = {m.client_id.partition("//")[2]: m.client_id for m in found.members if "//" in m.client_id}
        there = self._url.partition("//")[2] in members
        self._on_view(GroupView(self._leads, members, found.began if there else 0.0))
        has_token = any(m.client_id == self._url and m.has_token for m in found.members)
        why = difference(Sight(found.settled, there, has_token), self._leads)
        if why is None:
            self._apart.end()
        elif self._apart.is_over(time.monotonic()):
            self._join_anew(why)

    def _look_who_fenced(self, reason: str) -> None:
        """Another worker has this one's place; or nobody has: when the answer to a request to join is lost, librdkafka asks
        again, and the broker takes the second request for another member's."""
        try:
            # The only call that tells what members say of themselves. A new client, which has nothing old in mind.
            groups: list[Any] = AdminClient(self._admin_settings, logger=_LOG).list_groups(
                self._group, timeout=_FENCED_SECONDS
            )
        except KafkaException as error:
            _LOG.info("group %s: who has the place of this worker is not known: %s", self._group, error)
            return
        said = [m.metadata for group in groups for m in group.members if m.client_id == self._url]
        if not all(said):
            return  # while the group agrees, nothing is told
        self._fenced = None
        if any(self._mark.encode() not in words for words in said):
            self._on_fatal(self._out(reason))
        else:
            self._join_anew("the broker took this worker for another one")

    def _out(self, reason: str) -> BrokerError:
        return BrokerError(
            f"this worker is out of the group of group.id={self._group}: {reason}",
            hint="another worker has the same address: give each its own rest.advertised.host.name "
            "and rest.advertised.port",
        )

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
                self._coordinator.forget()
                found = self._coordinator.ask(_ANSWER_SECONDS)
                if found is not None and all(m.client_id != self._url for m in found.members):
                    return

    def _assigned(self, consumer: AnyConsumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        if partitions:
            consumer.pause(partitions)  # it is a token; the topic is read elsewhere
            self._leads = True
            self._look_now = True

    def _revoked(self, consumer: AnyConsumer, partitions: list[TopicPartition]) -> None:
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
