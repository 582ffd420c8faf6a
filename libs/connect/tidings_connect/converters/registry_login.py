"""How a converter logs in to its registry: the Java converters' options, as settings of Confluent's Python client.

Confluent's (``basic.auth.*``, ``schema.registry.ssl.*``): Confluent documentation, "Schema Registry clients". Apicurio's
2.6 (``apicurio.auth.*``, ``apicurio.registry.request.ssl.*``): the constants of its serdes and REST client.
"""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tidings_connect.errors import WorkerConfigError
from tidings_connect.renewals import REGISTRY, newest

TakeOption = Callable[[str], str | None]
"""Takes an option of the converter's, without its prefix; None when it is not set."""
_STORE_OPTIONS: Final = tuple(
    f"ssl.{store}.{part}" for store in ("keystore", "truststore") for part in ("location", "password", "type")
)


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    """What a converter's options say about logging in."""

    user_info: str | None = field(default=None, repr=False)
    """``user:password``"""
    tls: dict[str, str] = field(default_factory=dict, repr=False)
    """``ssl.*`` settings in Kafka's words."""
    prefix: str = ""
    """What stands before them where they come from, for messages."""

    @property
    def authorization(self) -> Callable[[], str] | None:
        """Gives the header of that name for each request, with the newest password; None without a user."""
        if self.user_info is None:
            return None
        user, _, password = self.user_info.partition(":")

        def header() -> str:
            login = f"{user}:{newest(REGISTRY, user, password)}"
            return "Basic " + base64.b64encode(login.encode()).decode("ascii")

        return header

    @contextmanager
    def client_settings(self) -> Iterator[dict[str, str]]:
        """Settings for the Python client, which has to be made before the context ends.

        Raises:
            WorkerConfigError: a store cannot be read; names the option.
        """
        found = {} if self.user_info is None else {"basic.auth.user.info": self.user_info}
        if not self.tls:
            yield found
            return
        from tidings_connect.kafka.key_stores import read_tls  # noqa: PLC0415
        from tidings_connect.kafka.tls import registry_files  # noqa: PLC0415 - for who needs it

        with registry_files(read_tls(self.tls, self.prefix)) as files:
            yield found | files


def confluent_login(take: TakeOption, prefix: str) -> RegistryLogin:
    """What Confluent's converter is told.

    Args:
        prefix: of the converter, ``value.converter.``.

    Raises:
        WorkerConfigError: the options contradict each other or name what is not supported.
    """
    source = (take("basic.auth.credentials.source") or "URL").strip().upper()
    user_info = take("basic.auth.user.info")
    user_info = take("schema.registry.basic.auth.user.info") or user_info
    if source not in {"URL", "USER_INFO"}:
        raise WorkerConfigError(
            f"{prefix}basic.auth.credentials.source={source} is not supported", hint="URL and USER_INFO are"
        )
    if source == "URL":
        user_info = None  # as in Java: only USER_INFO makes it count
    elif user_info is None or ":" not in user_info:
        raise WorkerConfigError(f"{prefix}basic.auth.user.info must be user:password")
    start = "schema.registry."
    names = (*_STORE_OPTIONS, "ssl.key.password", "ssl.truststore.certificates")
    names = (*names, "ssl.keystore.key", "ssl.keystore.certificate.chain")
    return RegistryLogin(user_info, _taken(take, start, names), prefix + start)


def apicurio_login(take: TakeOption, prefix: str) -> RegistryLogin:
    """What Apicurio's converter is told.

    Raises:
        WorkerConfigError: a user without a password.
    """
    user, password = take("apicurio.auth.username"), take("apicurio.auth.password")
    if (user is None) != (password is None):
        raise WorkerConfigError(f"{prefix}apicurio.auth.username and apicurio.auth.password stand together")
    start = "apicurio.registry.request."
    tls = _taken(take, start, (*_STORE_OPTIONS, "ssl.key.password"))
    return RegistryLogin(None if user is None else f"{user}:{password}", tls, prefix + start)


def _taken(take: TakeOption, start: str, names: tuple[str, ...]) -> dict[str, str]:
    found = {name: take(start + name) for name in names}
    return {name: value for name, value in found.items() if value is not None}
