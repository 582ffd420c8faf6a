"""Who may speak to the worker's REST API: listeners, their TLS, and basic authentication, by Kafka Connect's properties.

``listeners=http://:8083,https://:8443``; ``listeners.https.ssl.*``, or, when there are none of these, the worker's own
``ssl.*``; ``admin.listeners`` and ``admin.listeners.https.ssl.*`` alike, for log levels; ``rest.extension.classes`` with Kafka's BasicAuthSecurityRestExtension, whose JAAS file is named as for a JVM, by
``-Djava.security.auth.login.config=...`` in the environment variable KAFKA_OPTS, or whose file of users is named
directly by ``tidings.rest.credentials.file``. Sources: Apache Kafka documentation, "Kafka Connect", "Configuring TLS";
Kafka's ``SSLUtils``, ``JaasBasicAuthFilter`` and ``PropertyFileLoginModule``.
"""

import base64
import binascii
import hashlib
import hmac
import re
import shlex
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tidings_connect.config.rest.guesses import Guesses
from tidings_connect.errors import WorkerConfigError
from tidings_connect.java.properties import load_properties

DEFAULT_PORT: Final = 8083
HTTPS_PREFIX: Final = "listeners.https."
ADMIN_LISTENERS: Final = "admin.listeners"
CREDENTIALS_FILE: Final = "tidings.rest.credentials.file"
_BASIC_AUTH: Final = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
_LOGIN_MODULE: Final = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
_ENTRY: Final = re.compile(r"\bKafkaConnect\s*\{(.*?)\}\s*;", re.DOTALL)
_MODULE: Final = re.compile(r"\s*([\w.$]+)\s+(\w+)((?:\s+\w+\s*=\s*(?:\"[^\"]*\"|[^\s;]+))*)\s*;\s*")
_FILE: Final = re.compile(r"\bfile\s*=\s*(?:\"([^\"]*)\"|([^\s;]+))")
_COMMENT: Final = re.compile(r"/\*.*?\*/|^\s*(?://|#).*?$", re.DOTALL | re.MULTILINE)
OF_REST: Final = frozenset(
    {
        "listeners",
        ADMIN_LISTENERS,
        "rest.advertised.listener",
        "rest.extension.classes",
        "ssl.client.auth",
        CREDENTIALS_FILE,
    }
)
OPEN_PAGES: Final = frozenset({"/healthz", "/readyz"})
"""Asked by whoever watches over the process (kubelet), which has no password; they hold no configuration."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address the REST API is at."""

    scheme: str
    """``http`` or ``https``."""
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class RestSecurity:
    """Where the REST API listens and whom it lets in."""

    listeners: tuple[Listener, ...] = (Listener("http", "0.0.0.0", DEFAULT_PORT),)  # noqa: S104 - Kafka Connect's default
    """The first is the advertised one."""
    tls: ssl.SSLContext | None = None
    """Of the https listeners."""
    client_tls: ssl.SSLContext | None = None
    """For requests to other workers of the group, where the advertised listener is https."""
    users: Mapping[str, str] | None = field(default=None, repr=False)
    """Passwords by user; None: everybody is let in."""
    admin_listeners: tuple[Listener, ...] | None = None
    """Where ``/admin/loggers`` is instead of at `listeners`; None: it is there, and empty: nowhere."""
    admin_tls: ssl.SSLContext | None = None
    """Of the https ones among them."""
    advertised_scheme: str = "http"
    """Of the address that the other workers are told; a proxy may speak another one than the listener."""


def read_rest_security(properties: Mapping[str, str], environment: Mapping[str, str]) -> RestSecurity:
    """Understand the properties.

    Args:
        environment: where KAFKA_OPTS may be.

    Raises:
        WorkerConfigError: a property is wrong or not supported; names it.
    """
    if "rest.servlet.initializor.classes" in properties:
        raise WorkerConfigError("rest.servlet.initializor.classes is not supported", hint="leave it out")
    text = properties.get("listeners", "").strip() or f"http://:{DEFAULT_PORT}"
    listeners = _listeners("listeners", text)
    wish = properties.get("rest.advertised.listener", "").strip().lower()
    if wish not in {"", "http", "https"}:
        raise WorkerConfigError(f"rest.advertised.listener={wish} is not supported: http and https are")
    # Kafka Connect's choice is http.
    listeners = tuple(sorted(listeners, key=lambda listener: listener.scheme != (wish or "http")))
    admin_text = properties.get(ADMIN_LISTENERS)
    admin = None if admin_text is None else _listeners(ADMIN_LISTENERS, admin_text)
    tls, client_tls = _tls(properties, listeners, HTTPS_PREFIX)
    admin_tls, _ = _tls(properties, admin or (), f"{ADMIN_LISTENERS}.https.")
    return RestSecurity(
        listeners=listeners,
        tls=tls,
        client_tls=client_tls,
        users=_users(properties, environment),
        admin_listeners=admin,
        admin_tls=admin_tls,
        advertised_scheme=wish or listeners[0].scheme,
    )


def _tls(
    properties: Mapping[str, str], listeners: Iterable[Listener], prefix: str
) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """TLS for listeners, and for who asks them; none where no listener has it."""
    if all(listener.scheme != "https" for listener in listeners):
        return None, None
    from tidings_connect.kafka.tls import (  # noqa: PLC0415 - for who needs it
        SERVER_SETTINGS,
        client_context,
        server_context,
    )

    own = {n.removeprefix(prefix): v for n, v in properties.items() if n.startswith(prefix)}
    unknown = sorted(own.keys() - SERVER_SETTINGS)
    if unknown:
        raise WorkerConfigError(f"{prefix}{unknown[0]} is not supported")
    # As in Kafka Connect all of the one kind or all of the other.
    settings, named = (own, prefix) if own else (properties, "")
    return server_context(settings, named), client_context(settings, named)


def is_rest_property(name: str) -> bool:
    """Whether `read_rest_security` has read a property of this name."""
    return name in OF_REST or name.startswith((HTTPS_PREFIX, f"{ADMIN_LISTENERS}.https."))


def authentication(users: Mapping[str, str], guesses: Guesses | None = None) -> Middleware:
    """A middleware that lets in who knows a user's password; the answer to others is Kafka Connect's."""

    late = Guesses() if guesses is None else guesses

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if request.path in OPEN_PAGES:
            return await handler(request)
        if given and late.too_many(request.remote):
            return web.Response(
                status=429, text="Too many wrong passwords, try again later.", headers={"Retry-After": "5"}
            )
        if _knows(users, given):
            return await handler(request)
        if given:
            await late.wrong(request.remote)
        return web.Response(
            status=401,
            text="User cannot access the resource.",
            headers={"WWW-Authenticate": 'Basic realm="capture"'},
        )

    return check


def _knows(users: Mapping[str, str], header: str) -> bool:
    method, _, encoded = header.partition(" ")
    if method.lower() != "basic":
        return False
    try:
        given = base64.b64decode(encoded.strip(), validate=True)
    except binascii.Error:
        return False
    user, colon, password = given.partition(b":")
    expected = users.get(user.decode(errors="replace"))
    # Compared in any case, so that the time it takes does not tell whether there is such a user.
    same = hmac.compare_digest(_digest(password), _digest(b"" if expected is None else expected.encode()))
    return bool(user and colon) and expected is not None and same


def _digest(password: bytes) -> bytes:
    """As long for every password, so that comparing does not tell the right one's length."""
    return hashlib.sha256(password).digest()


def _listeners(name: str, text: str) -> tuple[Listener, ...]:
    return tuple(_listener(name, part.strip()) for part in text.split(",") if part.strip() or text.strip())


def _listener(name: str, text: str) -> Listener:
    try:
        parts = urlsplit(text if "//" in text else f"http://{text}")
        scheme, port = parts.scheme.lower(), parts.port
    except ValueError as error:
        raise WorkerConfigError(f"{name} must look like http://host:port or https://host:port") from error
    if scheme not in {"http", "https"}:
        raise WorkerConfigError(f"{name}: {parts.scheme} is not supported, only http and https")
    if name == ADMIN_LISTENERS and port is None:
        raise WorkerConfigError(f"{name} needs a port, as in http://localhost:8084")
    host = parts.hostname or "0.0.0.0"  # noqa: S104 - what Kafka Connect does with http://:8083
    return Listener(scheme, host, DEFAULT_PORT if port is None else port)


def _users(properties: Mapping[str, str], environment: Mapping[str, str]) -> Mapping[str, str] | None:
    classes = [part.strip() for part in properties.get("rest.extension.classes", "").split(",")]
    classes = [part for part in classes if part]
    for name in classes:
        if name not in {_BASIC_AUTH, _BASIC_AUTH.rpartition(".")[2]}:
            raise WorkerConfigError(
                f"rest.extension.classes={name} is not supported", hint=f"only {_BASIC_AUTH} is"
            )
    direct = properties.get(CREDENTIALS_FILE)
    if not classes:
        if direct is not None:
            raise WorkerConfigError(
                f"{CREDENTIALS_FILE} has no effect without rest.extension.classes={_BASIC_AUTH}"
            )
        return None
    path = Path(direct or _file_of_jaas(environment))
    users = load_properties(path)
    if not users:
        # Kafka Connect would let everybody in.
        raise WorkerConfigError(f"{path} holds no user: rest.extension.classes would let nobody in")
    return users


def _file_of_jaas(environment: Mapping[str, str]) -> str:
    option = "-Djava.security.auth.login.config="
    try:
        words = shlex.split(environment.get("KAFKA_OPTS", ""))
    except ValueError as error:
        raise WorkerConfigError("the environment variable KAFKA_OPTS has a quote without its end") from error
    found = [word.removeprefix(option) for word in words if word.startswith(option)]
    if not found:
        raise WorkerConfigError(
            f"rest.extension.classes={_BASIC_AUTH} needs a file of users",
            hint=f"name it in {CREDENTIALS_FILE}, or a JAAS file in KAFKA_OPTS ({option}...)",
        )
    path = found[-1].removeprefix("=").removeprefix("file:")
    try:
        text = _COMMENT.sub("", Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WorkerConfigError(f"the JAAS file {path} of KAFKA_OPTS cannot be read") from error
    entry = _ENTRY.search(text)
    module = None if entry is None else _MODULE.fullmatch(entry.group(1))
    if (
        module is None
        or module.group(1) != _LOGIN_MODULE
        or module.group(2).lower() not in {"required", "requisite"}
    ):
        raise WorkerConfigError(
            f"the JAAS file {path} must have an entry KafkaConnect with one required {_LOGIN_MODULE}"
        )
    file = _FILE.search(module.group(3))
    if file is None:
        raise WorkerConfigError(f"the JAAS file {path}: entry KafkaConnect names no file")
    return file.group(1) or file.group(2)
