"""The options of the HTTP sink: those of Aiven's connector by their names, and our own. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import at_least_one_problem, not_negative_problem, refused_by
from tidings_sinks.http.signing import signers_of

URL: Final = "http.url"
AUTHORIZATION_TYPE: Final = "http.authorization.type"
AUTHORIZATION: Final = "http.headers.authorization"
CONTENT_TYPE: Final = "http.headers.content.type"
HEADERS: Final = "http.headers.additional"
PROXY_HOST: Final = "http.proxy.host"
PROXY_PORT: Final = "http.proxy.port"
TRUST_ALL: Final = "http.ssl.trust.all.certs"
TLS: Final = "http."
"""What stands before ``ssl.*``."""
TIMEOUT: Final = "http.timeout"
TOKEN_URL: Final = "oauth2.access.token.url"  # noqa: S105 - the option's name, as those below
GRANT_PROPERTY: Final = "oauth2.request.grant.type.property"
GRANT: Final = "oauth2.grant.type"
CLIENT_PROPERTY: Final = "oauth2.request.client.id.property"
CLIENT: Final = "oauth2.client.id"
SECRET_PROPERTY: Final = "oauth2.request.client.secret.property"  # noqa: S105
SECRET: Final = "oauth2.client.secret"  # noqa: S105
CLIENT_MODE: Final = "oauth2.client.authorization.mode"
SCOPE: Final = "oauth2.client.scope"
TOKEN_PROPERTY: Final = "oauth2.response.token.property"  # noqa: S105
RENEW_STATUSES: Final = "oauth2.token.renew.on.status.codes"
BATCHING: Final = "batching.enabled"
BATCH: Final = "batch.max.size"
PREFIX: Final = "batch.prefix"
SUFFIX: Final = "batch.suffix"
SEPARATOR: Final = "batch.separator"
KAFKA_BACKOFF: Final = "kafka.retry.backoff.ms"
RETRIES: Final = "max.retries"
BACKOFF: Final = "retry.backoff.ms"
DECIMALS: Final = "decimal.format"
IN_FLIGHT: Final = "tidings.http.max.in.flight"
EVENTS: Final = "tidings.http.cloudevents"
VALUES: Final = "tidings.http.values"
SECRETS: Final = "tidings.http.signature.secrets"
KEY_HEADER: Final = "tidings.http.idempotency.header"
MOST_BYTES: Final = "tidings.http.max.body.bytes"
NULLS: Final = "tidings.http.null.values"
DONE: Final = "tidings.http.statuses.done"
RECORD: Final = "tidings.http.statuses.record"
RETRY: Final = "tidings.http.statuses.retry"
POLL_INTERVAL: Final = "consumer.override.max.poll.interval.ms"
DEFAULT_POLL_INTERVAL: Final = "300000"
"""Kafka's."""

TOPIC: Final = "${topic}"
"""What the URL may have in place of a topic's name."""
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A header's name (RFC 9110)."""
_VISIBLE: Final = re.compile(r"[\x20-\x7e\t]*")
_OWN_HEADERS: Final = frozenset(
    ("authorization", "content-type", "content-length", "host", "connection", "transfer-encoding")
)
_MOST_BACKOFF_MS: Final = 86_400_000


def _url(value: str) -> str | None:
    parts = urlsplit(value.replace(TOPIC, "topic"))
    try:
        good = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or 1) > 0
    except ValueError:  # the port is not a number
        good = False
    if not good or parts.fragment or not value.isascii() or re.search(r"[\s{}]", parts.geturl()):
        return "A URL of HTTP or HTTPS is expected, without a fragment"
    if TOPIC in urlsplit(value).netloc:
        return f"{TOPIC} may stand in the path and in the query only"
    if parts.username or parts.password:
        return f"A login belongs into {AUTHORIZATION}"
    return None


def _token_url(value: str) -> str | None:
    return _url(value) or ("A URL without variables is expected" if TOPIC in value else None)


def headers_of(value: str) -> dict[str, str]:
    """Headers of a list of ``name:value``.

    Raises:
        ValueError: says what is wrong.
    """
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        name, colon, text = part.partition(":")
        name, text = name.strip(), text.strip()
        if not colon or not _TOKEN.fullmatch(name) or not _VISIBLE.fullmatch(text):
            raise ValueError("Header field should use format header:value")
        if name.lower() in {each.lower() for each in found}:
            raise ValueError("Duplicate keys are not allowed (case-insensitive)")
        if name.lower() in _OWN_HEADERS or name.lower().startswith(("webhook-", "ce-")):
            raise ValueError(f"The header {name.lower()} is not one to be set here")
        found[name] = text
    return found


def statuses_of(value: str) -> frozenset[int]:
    """HTTP statuses of a list such as ``409,500-599``.

    Raises:
        ValueError: says what is wrong.
    """
    found: set[int] = set()
    for part in filter(None, (part.strip() for part in value.split(","))):
        first, _, last = part.partition("-")
        last = last or first
        if not re.fullmatch(r"\d{3}", first) or not re.fullmatch(r"\d{3}", last):
            raise ValueError("A list of HTTP statuses is expected, such as 409,500-599")
        if not 300 <= int(first) <= int(last) <= 599:
            raise ValueError("HTTP statuses from 300 to 599 are expected; 2xx is always success")
        found.update(range(int(first), int(last) + 1))
    return frozenset(found)


def _header_text(value: str) -> str | None:
    return None if _VISIBLE.fullmatch(value) else "Only visible ASCII characters are expected"


def _header_name(value: str) -> str | None:
    if not _TOKEN.fullmatch(value) or value.lower() in _OWN_HEADERS:
        return "The name of a header is expected"
    return None


def _backoff(value: str) -> str | None:
    return None if 0 <= int(value) <= _MOST_BACKOFF_MS else "Value must be 0 to 86400000 (24 hours)"


def _batch(value: str) -> str | None:
    return None if 1 <= int(value) <= 1_000_000 else "Value must be 1 to 1000000"


def _port(value: str) -> str | None:
    return None if -1 <= int(value) <= 65535 else "Value must be -1 to 65535"


OPTIONS: Final = (
    Option(URL, "string", required=True, documentation="Where requests go (POST). ${topic} in its path or query stands for the record's topic."),
    Option(AUTHORIZATION_TYPE, "string", required=True, values=("none", "oauth2", "static"), documentation="What the Authorization header has: nothing, an access token, or a text."),
    Option(AUTHORIZATION, "password", check=_header_text, documentation="The text of the Authorization header, with http.authorization.type=static."),
    Option(CONTENT_TYPE, "string", check=_header_text, documentation="The Content-Type of requests whose body is no CloudEvent; default: application/json for one record that is JSON, else none."),
    Option(HEADERS, "list", "", documentation="Headers that every request has: header:value, with commas between."),
    Option(PROXY_HOST, "string", documentation="The host of a proxy; empty: none."),
    Option(PROXY_PORT, "int", "-1", check=_port, documentation="The proxy's port."),
    Option(TRUST_ALL, "boolean", "false", documentation="Whether any certificate of the receiver's is taken."),
    Option("http.ssl.truststore.location", "string", "", documentation="Whom to trust; empty: the system's authorities."),
    Option("http.ssl.truststore.password", "password", documentation="Opens it."),
    Option("http.ssl.truststore.type", "string", "JKS", values=("JKS", "PKCS12", "PEM"), documentation="Its form."),
    Option("http.ssl.keystore.location", "string", "", documentation="The own certificate and its key."),
    Option("http.ssl.keystore.password", "password", documentation="Opens it."),
    Option("http.ssl.keystore.type", "string", "JKS", values=("JKS", "PKCS12", "PEM"), documentation="Its form."),
    Option("http.ssl.key.password", "password", documentation="Opens the key in it."),
    Option("http.ssl.enabled.protocols", "list", "TLSv1.2,TLSv1.3", documentation="The versions of TLS that are taken."),
    Option(TOKEN_URL, "string", documentation="Where access tokens are asked for."),
    Option(GRANT_PROPERTY, "string", "grant_type", documentation="The name of the grant type in that request."),
    Option(GRANT, "string", "client_credentials", documentation="The grant type."),
    Option(CLIENT_PROPERTY, "string", "client_id", documentation="The name of the client's id in that request."),
    Option(CLIENT, "string", documentation="The client's id."),
    Option(SECRET_PROPERTY, "string", "client_secret", documentation="The name of the client's secret in that request."),
    Option(SECRET, "password", documentation="The client's secret."),
    Option(CLIENT_MODE, "string", "HEADER", values=("HEADER", "URL"), documentation="Whether the two are in the Authorization header, or in the form."),
    Option(SCOPE, "string", documentation="The scope that is asked for."),
    Option(TOKEN_PROPERTY, "string", "access_token", documentation="Where the answer has the token."),
    Option(RENEW_STATUSES, "list", "401", check=refused_by(statuses_of), documentation="Answers after which a new token is asked for, and the request sent once more."),
    Option(BATCHING, "boolean", "false", documentation="Whether a request has several records."),
    Option(BATCH, "int", "500", check=_batch, documentation="How many records it then has at most."),
    Option(PREFIX, "string", "", documentation="What its body begins with."),
    Option(SUFFIX, "string", documentation="What its body ends with; default: a line feed."),
    Option(SEPARATOR, "string", documentation="What stands between two records; default: a line feed."),
    Option(KAFKA_BACKOFF, "long", check=_backoff, documentation="How long the partitions rest once attempts in place have failed, in milliseconds; default: as errors.retry.delay.* say."),
    Option(RETRIES, "int", "1", check=not_negative_problem, documentation="How often a request is tried again in place; then the partitions rest, and it goes on without end."),
    Option(BACKOFF, "int", "3000", check=not_negative_problem, documentation="The pause before the first of these, in milliseconds; each is twice the one before."),
    Option(TIMEOUT, "int", "30", check=at_least_one_problem, documentation="How long to wait for an answer, in seconds; at most a quarter of max.poll.interval.ms."),
    Option(DECIMALS, "string", "BASE64", values=("BASE64", "NUMERIC"), documentation="How the JsonConverter's form has decimals."),
    Option(IN_FLIGHT, "int", "1", check=at_least_one_problem, documentation="How many requests may be on their way at once; those of one key never are."),
    Option(EVENTS, "string", "auto", values=("auto", "none", "binary", "structured", "batched"), documentation="The mode in which records that are CloudEvents are sent; auto: binary, or batched with batching.enabled; none: as other records."),
    Option(VALUES, "string", "auto", values=("auto", "connect", "iso"), documentation="The form of values in JSON: the JsonConverter's, or dates as ISO 8601 and decimals as text; auto: iso for CloudEvents, connect for others."),
    Option(SECRETS, "password", check=refused_by(signers_of), documentation="Secrets and private keys of Standard Webhooks (whsec_ or whsk_, and base64), with commas between: requests are signed with each; empty: they are not signed."),
    Option(KEY_HEADER, "string", "Idempotency-Key", check=_header_name, documentation="The header that has the record's id; empty: none."),
    Option(MOST_BYTES, "int", "10000000", check=at_least_one_problem, documentation="How many bytes a body has at most; a record that is larger is a bad one."),
    Option(NULLS, "string", "report", values=("report", "ignore"), documentation="What a record without a value is: a bad one, or none that is sent."),
    Option(DONE, "list", "", check=refused_by(statuses_of), documentation="Answers beside 2xx that mean success."),
    Option(RECORD, "list", "400,413,422", check=refused_by(statuses_of), documentation="Answers that mean that the record is a bad one."),
    Option(RETRY, "list", "408,409,425,429,500-599", check=refused_by(statuses_of), documentation="Answers after which the request is tried again. What stands in none of the three lists ends the task."),
)  # fmt: skip
_DEFAULTS: Final = {option.name: option.default or "" for option in OPTIONS}


def value_of(config: Mapping[str, str], name: str) -> str:
    """An option's value, or its default."""
    return (config.get(name) or _DEFAULTS[name]).strip()


def is_on(config: Mapping[str, str], name: str) -> bool:
    """Whether an option is true."""
    return value_of(config, name).lower() == "true"


def poll_interval_ms(config: Mapping[str, str]) -> int:
    """``max.poll.interval.ms`` of the task's consumer."""
    return int(config.get(POLL_INTERVAL, "").strip() or DEFAULT_POLL_INTERVAL)


def check_together(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What options say that does not go together, by option."""
    found: dict[str, list[str]] = {}
    for name, text in [*_unshown_problems(config)] or [*_login_problems(config), *_request_problems(config)]:
        found.setdefault(name, []).append(text)
    return found


def _unshown_problems(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Here rather than at the options, whose values would be shown, and may hold a secret."""
    for name, check in ((URL, _url), (TOKEN_URL, _token_url), (HEADERS, refused_by(headers_of))):
        if (text := value_of(config, name)) and (problem := check(text)):
            yield name, f"{name} is invalid: {problem}"


def _login_problems(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    kind = value_of(config, AUTHORIZATION_TYPE).lower()
    if kind == "static" and not value_of(config, AUTHORIZATION):
        yield AUTHORIZATION, f"{AUTHORIZATION} is needed by {AUTHORIZATION_TYPE}=static"
    if kind != "static" and value_of(config, AUTHORIZATION):
        yield AUTHORIZATION, f"{AUTHORIZATION} is for {AUTHORIZATION_TYPE}=static only"
    if kind == "oauth2":
        for name in (TOKEN_URL, CLIENT, SECRET):
            if not value_of(config, name):
                yield name, f"{name} is needed by {AUTHORIZATION_TYPE}=oauth2"
    if bool(value_of(config, PROXY_HOST)) != (int(value_of(config, PROXY_PORT)) > 0):
        yield PROXY_HOST, f"{PROXY_HOST} and {PROXY_PORT} stand together"


def _request_problems(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    events, batching = value_of(config, EVENTS).lower(), is_on(config, BATCHING)
    if events == "batched" and not batching:
        yield EVENTS, f"{EVENTS}=batched needs {BATCHING}=true"
    if batching and events in {"binary", "structured"}:
        yield EVENTS, f"{EVENTS}={events} has one event a request, and {BATCHING} is true"
    header = value_of(config, KEY_HEADER).lower()
    if header and header in {name.lower() for name in headers_of(value_of(config, HEADERS))}:
        yield HEADERS, f"{HEADERS} has the header of {KEY_HEADER}"
    if int(value_of(config, TIMEOUT)) * 4000 > poll_interval_ms(config):
        yield TIMEOUT, f"{TIMEOUT} may be a quarter of {POLL_INTERVAL} at most"
