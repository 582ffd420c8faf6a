"""aiokafka's part of a login: tokens, secrets that change while its consumer runs, and what the brokers have against it."""

import asyncio
import logging
import ssl
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import IllegalSaslStateError, SaslAuthenticationFailed, UnsupportedSaslMechanismError

from tidings_service.kafka_access import KafkaAccess
from tidings_service.logins import note_refusal
from tidings_service.oauth import TokenSource
from tidings_service.rotation import follow
from tidings_service.secret import Secret

_LOGGER = "aiokafka"
"""Where its client logs connections that fail, with the error as an argument; it tells nobody else."""
_REFUSALS = (SaslAuthenticationFailed, UnsupportedSaslMechanismError, IllegalSaslStateError, ssl.SSLError)


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def token(self) -> str:
        return (await asyncio.to_thread(self._source.token)).value


def arguments(kafka: KafkaAccess) -> dict[str, Any]:
    """What a client of aiokafka is made with to log in.

    Raises:
        SettingsError: a file cannot be used.
    """
    found = kafka.aiokafka()
    if kafka.oauth is not None:
        found["sasl_oauth_token_provider"] = _Tokens(kafka.oauth)
    return found


class RefusalFilter(logging.Filter):
    """Drops nothing: notes refused logins that pass by."""

    def __init__(self, kafka: KafkaAccess) -> None:
        super().__init__()
        self._kafka = kafka

    def filter(self, record: logging.LogRecord) -> bool:
        """Note the refusal, if the record is about one."""
        for argument in record.args or ():
            if isinstance(argument, _REFUSALS):
                note_refusal(self._kafka.principal, str(argument), self._kafka.login_settings)
        return True


def hear_refusals(kafka: KafkaAccess) -> None:
    """Note refused logins of this process's aiokafka clients, which are all made with `kafka`."""
    logger = logging.getLogger(_LOGGER)
    for former in [one for one in logger.filters if isinstance(one, RefusalFilter)]:
        logger.removeFilter(former)
    logger.addFilter(RefusalFilter(kafka))


def keep_up(consumer: AIOKafkaConsumer, kafka: KafkaAccess, login: dict[str, Any]) -> None:
    """Let new connections of `consumer`, which was made with `login`, use a password or certificate that has changed."""
    follow(kafka.password, consumer, _set_password)
    tls = kafka.tls
    if tls is not None and tls.certificate is not None:
        certificate = Secret(f"{tls.prefix}_CERTIFICATE_FILE", file=tls.certificate)
        follow(certificate, login["ssl_context"], lambda context, _: tls.load(context))


def _set_password(consumer: AIOKafkaConsumer, password: str) -> None:
    # Its client gives it to each connection that it makes; there is no public way (tests/group/test_transport.py).
    consumer._client._sasl_plain_password = password  # noqa: SLF001
