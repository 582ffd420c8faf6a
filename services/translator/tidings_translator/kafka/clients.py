"""Makes librdkafka's clients; no other module does.

Each has the login of `TIDINGS_KAFKA_*`, takes a password that changes in its file, and remembers why brokers refused it:
librdkafka itself goes on trying, and a request then fails with no more than a timeout.
"""

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tidings_service import Retry
from tidings_service.kafka_access import KafkaAccess
from tidings_service.logins import forget_refusal, note_refusal
from tidings_service.rotation import follow, unfollow
from tidings_translator.base.errors import BrokerError

_REFUSALS = {KafkaError._AUTHENTICATION, KafkaError._SSL}  # noqa: SLF001 - their public names
_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_WITHOUT_ANSWER = {
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
}
_EVENTS = 50
_AWAY = "is Kafka running and is TIDINGS_KAFKA right?"


class _Login:
    """A client's access, and what a broker has said against it."""

    def __init__(self, kafka: KafkaAccess) -> None:
        self.kafka = kafka
        self.refused: str | None = None

    def note(self, error: KafkaError) -> None:
        if error.code() in _REFUSALS:
            self.refused = error.str()
            note_refusal(self.kafka.principal, self.refused, self.kafka.login_settings)


class KafkaAdmin(AdminClient):
    """Asks and changes; its errors are raised and not logged."""

    def __init__(self, kafka: KafkaAccess) -> None:
        self.login = _Login(kafka)
        settings: Any = {**client_settings(kafka), "log_level": 0, "error_cb": self.login.note}
        super().__init__(settings)
        _keep_up(self, kafka)


class KafkaConsumer(Consumer):
    """Reads; librdkafka wants a group, although nothing is committed through it."""

    def __init__(self, kafka: KafkaAccess, group: str, more: Mapping[str, Any] | None = None) -> None:
        self.login = _Login(kafka)
        super().__init__({**consumer_settings(kafka, group), **(more or {}), "error_cb": self.login.note})
        _keep_up(self, kafka)

    def close(self) -> None:
        """Leave Kafka."""
        unfollow(self)
        super().close()


class KafkaProducer(Producer):
    """Writes."""

    def __init__(self, kafka: KafkaAccess, more: Mapping[str, Any]) -> None:
        self.login = _Login(kafka)
        super().__init__({**client_settings(kafka), **more, "error_cb": self.login.note})
        _keep_up(self, kafka)


Client = KafkaAdmin | KafkaConsumer | KafkaProducer


def _keep_up(client: Client, kafka: KafkaAccess) -> None:
    """Have it use secrets that change in their files."""
    follow(kafka.password, client, _renew)
    if kafka.oauth is not None:  # its tokens are asked for with the file's secret in any case
        follow(kafka.oauth.secret, client, _forget)


def _forget(client: Client, _secret: str) -> None:
    client.login.refused = None  # it was about the old one
    forget_refusal()


def _renew(client: Client, password: str) -> None:
    _forget(client, password)
    client.set_sasl_credentials(client.login.kafka.username or "", password)


def broken(error: KafkaException, what: str, client: Client | None = None) -> BrokerError:
    """The error to raise for a KafkaException; says what failed and names the setting.

    Args:
        client: whose it is; not one that has records to hand out, for it is asked what it has heard from the brokers.
    """
    cause: KafkaError = error.args[0]
    text = f"{what}: {cause.str()} ({cause.name()})"
    if client is None:
        return _lacking(text, "the user") if cause.code() in _RIGHTS else BrokerError(text, hint=_AWAY)
    kafka = client.login.kafka
    if cause.code() in _RIGHTS:
        return _lacking(text, kafka.principal)
    if cause.code() in _WITHOUT_ANSWER | _REFUSALS and (refused := _refusal(client)):
        return BrokerError(
            f"{what}: the brokers at {kafka.bootstrap} refuse {kafka.principal}: {refused}",
            hint=f"{kafka.login_settings}, TIDINGS_KAFKA_SECURITY_PROTOCOL",
        )
    return BrokerError(text, hint=_AWAY)


def _lacking(text: str, who: str) -> BrokerError:
    """It does not help to try again before somebody has granted the right."""
    hint = f"{who} lacks the right: docs/security.md lists the ACLs"
    return BrokerError(text, hint=hint, retry=Retry.MANUAL)


def _refusal(client: Client) -> str | None:
    """Why brokers refused the client, if they did; what librdkafka has heard is handed over in `poll`."""
    for _ in range(_EVENTS):  # a consumer hands over one at a time, and what it logs is among them
        if client.login.refused is None:
            client.poll(0.01)
    return client.login.refused


def client_settings(kafka: KafkaAccess) -> dict[str, Any]:
    return {
        **kafka.librdkafka(),
        "logger": logging.getLogger("librdkafka"),
        "reconnect.backoff.max.ms": 1_000,
        # By default (KIP-899) librdkafka forgets all brokers once the connections to all of them are lost, and makes them anew.
        # A group's coordinator that it remembers from before is then waited for without end (librdkafka's issue 5511, 2.16): by a
        # transaction that has offsets, too. This way it connects to the brokers that it knows, as Faust's consumer does.
        "metadata.recovery.strategy": "none",
    }


def consumer_settings(kafka: KafkaAccess, group: str) -> dict[str, Any]:
    return {
        **client_settings(kafka),
        "group.id": group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
    }
