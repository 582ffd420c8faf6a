"""Looks at who is in a group, at its coordinator, through a client that does not take part.

A request of librdkafka's to a coordinator must never time out: one that did, and whose coordinator comes back then, is
answered twice, the second time to memory that is free (2.16: ``rd_kafka_admin_coord_request`` drops the last reference and
reports an error to the same callback), which ends the process. And after a broker has refused connections for a while a
client may never find the coordinator again. So a request has all the time there is, and when nothing is heard for a while it
is dropped together with its client.
"""

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, KafkaException

from tidings_connect.kafka.clients import AdminClient

_LOG: Final = logging.getLogger("tidings_capture.librdkafka")
_NEVER_SECONDS: Final = 3600.0
"""The longest that librdkafka takes; requests are dropped long before."""
_PATIENCE_SECONDS: Final = 6.0
"""How long nothing may be heard. No longer after a long outage: it is when a broker is back that clients are stuck."""
_REBALANCING: Final = frozenset(
    {ConsumerGroupState.PREPARING_REBALANCING, ConsumerGroupState.COMPLETING_REBALANCING}
)


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the coordinator has it."""

    client_id: str
    has_token: bool
    """It has been given a partition."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the coordinator said."""

    began: float
    """Before this (`time.monotonic`) nothing of it was asked."""
    members: tuple[Member, ...]
    settled: bool
    """No rebalance is under way."""


class GroupLook:
    """Asks again and again.

    Args:
        settings: librdkafka's.
    """

    def __init__(self, settings: Mapping[str, Any], group: str) -> None:
        self._settings = {**settings, "client.id": "tidings-capture-group"}
        self._group = group
        self._blind_since: float | None = None
        self._admin: AdminClient | None = None
        self._asked: Future[Any] | None = None
        self._began = 0.0

    @property
    def waits(self) -> bool:
        """A question was asked that has no answer yet: `ask` again soon."""
        return self._asked is not None

    def ask(self, seconds: float) -> Look | None:
        """What the coordinator says; None when it refuses, or has not answered within `seconds` (`waits`)."""
        asked = self._asked or self._ask()
        try:
            found = asked.result(seconds)
        except TimeoutError:
            self._blind("it does not answer")
            return None
        except KafkaException as error:
            self._asked = None
            self._blind(error)
            return None
        self._asked = self._blind_since = None
        members = (
            Member(member.client_id, bool(member.assignment.topic_partitions)) for member in found.members
        )
        return Look(self._began, tuple(members), found.state not in _REBALANCING)

    def forget(self) -> None:
        """Whatever is on its way is about the past: the next answer is to a new question."""
        self._asked = None

    def _blind(self, reason: object) -> None:
        now = time.monotonic()
        if self._blind_since is None:
            self._blind_since = now
        elif now - self._blind_since > _PATIENCE_SECONDS:
            _LOG.warning("group %s: its coordinator is looked for anew: %s", self._group, reason)
            self._asked = self._admin = self._blind_since = None

    def _ask(self) -> Future[Any]:
        if self._admin is None:
            self._admin = AdminClient(self._settings, logger=_LOG)
        self._began = time.monotonic()
        asked = self._admin.describe_consumer_groups([self._group], request_timeout=_NEVER_SECONDS)
        self._asked = asked[self._group]
        return self._asked
