"""librdkafka's clients as capture uses them: the only place where they are made.

Each takes a password that has changed (`renew`), and says when brokers refuse its login: librdkafka itself goes on trying,
and a request then fails with no more than a timeout.
"""

import threading
import weakref
from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka
import confluent_kafka.admin
from confluent_kafka import KafkaError

from tidings_connect import renewals
from tidings_connect.renewals import KAFKA, Renewal
from tidings_service.logins import forget_refusal, note_refusal

_USER: Final = "sasl.username"
_PASSWORD: Final = "sasl.password"  # noqa: S105 - a setting's name
_SETTINGS: Final = "sasl.jaas.config"
_logins: weakref.WeakKeyDictionary[Any, tuple[str, str]] = weakref.WeakKeyDictionary()
"""User and password that a client has now, of those that log in with one."""
_users: set[str] = set()
_lock = threading.Lock()


def _current(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A client's settings with the newest password, which tell of refusals."""
    found, heard = dict(settings), settings.get("error_cb")
    user = settings.get(_USER)
    if user is not None:
        _users.add(user)
        found[_PASSWORD] = renewals.newest(KAFKA, user, settings.get(_PASSWORD, ""))
    who = "this worker" if user is None else f"user {user!r}"

    def hear(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001 - its public name
            note_refusal(who, error.str(), _SETTINGS)
        if heard is not None:
            heard(error)

    return {**found, "error_cb": hear}


def _keep(client: Any, settings: Mapping[str, Any]) -> None:
    if _USER in settings:
        with _lock:
            _logins[client] = settings[_USER], settings[_PASSWORD]


class Producer(confluent_kafka.Producer):
    """Writes."""

    def __init__(self, settings: Mapping[str, Any], **more: Any) -> None:
        current = _current(settings)
        super().__init__(current, **more)
        _keep(self, current)


class Consumer(confluent_kafka.Consumer):
    """Reads."""

    def __init__(self, settings: Mapping[str, Any], **more: Any) -> None:
        current = _current(settings)
        super().__init__(current, **more)
        _keep(self, current)

    def close(self) -> None:
        """Leave Kafka."""
        with _lock:
            _logins.pop(self, None)
        super().close()


class AdminClient(confluent_kafka.admin.AdminClient):
    """Asks and changes."""

    def __init__(self, settings: Mapping[str, Any], **more: Any) -> None:
        current = _current(settings)
        super().__init__(current, **more)
        _keep(self, current)


def sole_user() -> str | None:
    """Who logs in from this process, for messages; None when nobody does, or several."""
    return next(iter(_users)) if len(_users) == 1 else None


def renew(renewal: Renewal) -> None:
    """Let every client here, those that live and those that are made later, log in with the new password."""
    renewals.note(renewal)
    if renewal.kind != KAFKA:
        return
    with _lock:  # so that nobody closes one meanwhile
        for client, login in list(_logins.items()):
            if login == (renewal.user, renewal.old):
                client.set_sasl_credentials(renewal.user, renewal.new)
                _logins[client] = renewal.user, renewal.new
    forget_refusal()
