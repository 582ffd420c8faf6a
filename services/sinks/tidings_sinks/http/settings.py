"""What a configuration of the HTTP sink says. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from tidings_envelope.json_codec import DecimalFormat
from tidings_sinks.http import options as names
from tidings_sinks.http.options import (
    headers_of,
    is_on,
    poll_interval_ms,
    statuses_of,
    value_of,
)
from tidings_sinks.http.signing import Signer, signers_of

_MOST_PUT_SECONDS: Final = 5.0
"""So that the task goes on telling its worker how it is, and ends soon when it is to stop."""
_LAST_REQUESTS: Final = 3
"""Of what is begun last in a put: with a token that is refused, then for a token, then with that one."""


class Mode(StrEnum):
    """How CloudEvents are sent: the modes of their HTTP binding, or as records that are none."""

    NONE = "none"
    BINARY = "binary"
    STRUCTURED = "structured"
    BATCHED = "batched"


@dataclass(frozen=True, slots=True)
class Client:
    """How access tokens are asked for."""

    url: str = field(repr=False)
    form: Mapping[str, str] = field(repr=False)
    """The request's fields but for those of the client."""
    id: tuple[str, str]
    """The name of its field, and the id."""
    secret: tuple[str, str] = field(repr=False)
    """The same of the secret."""
    in_header: bool
    token_property: str
    renews_on: frozenset[int]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a configuration says."""

    url: str = field(repr=False)
    """May hold a secret in its path or query."""
    authorization: str = field(repr=False)
    """The header's text; empty: none."""
    client: Client | None
    content_type: str
    headers: Mapping[str, str] = field(repr=False)
    proxy: str
    tls: Mapping[str, str] = field(repr=False)
    """``ssl.*``, without what stands before."""
    trusts_all: bool
    timeout_seconds: float
    put_seconds: float
    """How long a put goes on beginning requests; with its last ones it ends before ``max.poll.interval.ms``."""
    batch: int
    """How many records a request has at most."""
    batching: bool
    prefix: bytes
    suffix: bytes
    separator: bytes
    rest_seconds: float | None
    """How long the partitions rest; None: as ``errors.retry.delay.*`` say."""
    retries: int
    backoff_seconds: float
    decimals: DecimalFormat
    in_flight: int
    mode: Mode
    iso_events: bool
    """Whether the data of CloudEvents has dates as ISO 8601 and decimals as text."""
    iso_records: bool
    """The same of other records."""
    signers: tuple[Signer, ...] = field(repr=False)
    id_header: str
    most_bytes: int
    ignores_nulls: bool
    done: frozenset[int]
    record: frozenset[int]
    retry: frozenset[int]

    def url_of(self, topic: str) -> str:
        """Where the records of a topic go."""
        return self.url.replace(names.TOPIC, quote(topic, safe=""))

    @property
    def around_bytes(self) -> int:
        """Of a body, beside those of records."""
        return max(len(self.prefix) + len(self.suffix), len("[]")) if self.batching else 0


def read_settings(config: Mapping[str, str]) -> Settings:
    """What a configuration without problems says."""

    def value(name: str) -> str:
        return value_of(config, name)

    def exact(name: str, default: str) -> bytes:
        """With its white space, which counts."""
        text = config.get(name)
        return (default if text is None else text).encode()

    kind, form, mode = (
        value(name).lower() for name in (names.AUTHORIZATION_TYPE, names.VALUES, names.EVENTS)
    )
    batching, rest, proxy = is_on(config, names.BATCHING), value(names.KAFKA_BACKOFF), value(names.PROXY_HOST)
    timeout = int(value(names.TIMEOUT))
    if mode == "auto":
        mode = "batched" if batching else "binary"
    prefix = f"{names.TLS}ssl."
    return Settings(
        url=value(names.URL),
        authorization=value(names.AUTHORIZATION) if kind == "static" else "",
        client=_client(config) if kind == "oauth2" else None,
        content_type=value(names.CONTENT_TYPE),
        headers=headers_of(value(names.HEADERS)),
        proxy=f"http://{proxy}:{value(names.PROXY_PORT)}" if proxy else "",
        tls={
            name.removeprefix(names.TLS): text
            for name, text in config.items()
            if name.startswith(prefix) and text and name != names.TRUST_ALL
        },
        trusts_all=is_on(config, names.TRUST_ALL),
        timeout_seconds=timeout,
        put_seconds=min(_MOST_PUT_SECONDS, poll_interval_ms(config) / 1000 - _LAST_REQUESTS * timeout),
        batch=int(value(names.BATCH)) if batching else 1,
        batching=batching,
        prefix=exact(names.PREFIX, ""),
        suffix=exact(names.SUFFIX, "\n"),
        separator=exact(names.SEPARATOR, "\n"),
        rest_seconds=int(rest) / 1000 if rest else None,
        retries=int(value(names.RETRIES)),
        backoff_seconds=int(value(names.BACKOFF)) / 1000,
        decimals=DecimalFormat(value(names.DECIMALS).lower()),
        in_flight=int(value(names.IN_FLIGHT)),
        mode=Mode(mode),
        iso_events=form != "connect",
        iso_records=form == "iso",
        signers=signers_of(value(names.SECRETS)),
        id_header=config.get(names.KEY_HEADER, "Idempotency-Key").strip(),
        most_bytes=int(value(names.MOST_BYTES)),
        ignores_nulls=value(names.NULLS).lower() == "ignore",
        done=statuses_of(config.get(names.DONE, "")),
        record=statuses_of(config.get(names.RECORD, value(names.RECORD))),
        retry=statuses_of(config.get(names.RETRY, value(names.RETRY))),
    )


def _client(config: Mapping[str, str]) -> Client:
    def value(name: str) -> str:
        return value_of(config, name)

    form = {value(names.GRANT_PROPERTY): value(names.GRANT)}
    if scope := value(names.SCOPE):
        form["scope"] = scope
    return Client(
        url=value(names.TOKEN_URL),
        form=form,
        id=(value(names.CLIENT_PROPERTY), value(names.CLIENT)),
        secret=(value(names.SECRET_PROPERTY), value(names.SECRET)),
        in_header=value(names.CLIENT_MODE).upper() == "HEADER",
        token_property=value(names.TOKEN_PROPERTY),
        renews_on=statuses_of(value(names.RENEW_STATUSES)),
    )
