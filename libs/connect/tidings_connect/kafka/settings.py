"""Translates the settings of Kafka's Java clients, as they stand in worker properties, into librdkafka's.

Most have the same name. Where the Java client has its own form (JAAS, trust stores) the equivalent is found; what has
none is reported by name, so that nobody believes in a setting that does nothing. Lists: Apache Kafka documentation,
"Producer Configs"; librdkafka's ``CONFIGURATION.md``. Reads the key stores that the settings name, and does nothing else.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tidings_connect.errors import WorkerConfigError

SAME_NAME: Final = frozenset(
    {
        "acks",
        "batch.size",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "compression.type",
        "connections.max.idle.ms",
        "delivery.timeout.ms",
        "enable.idempotence",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "linger.ms",
        "max.in.flight.requests.per.connection",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "security.protocol",
        "session.timeout.ms",
        "socket.connection.setup.timeout.ms",
        "transaction.timeout.ms",
    }
)
RENAMED: Final = {
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
WITHOUT_MEANING: Final = frozenset(
    {
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "max.block.ms",
        "socket.connection.setup.timeout.max.ms",  # librdkafka's timeout does not grow
        "ssl.protocol",
        "ssl.client.auth",  # a listener's
    }
)
"""Java's own, with nothing to do here; accepted in silence."""

_SPECIAL: Final = frozenset(
    {
        "buffer.memory",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
_STORES: Final = ("ssl.keystore.", "ssl.truststore.")
_TOKENS: Final = "OAUTHBEARER"
_MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", _TOKENS})
_REFUSED_PREFIXES: Final = ("ssl.", "sasl.", "security.")
"""A setting of these that is not known here is refused, not logged: who set it believes in what it does."""
_WITH_DEFAULTS_ONLY: Final = re.compile(
    r"sasl\.(login\.(refresh|retry|connect|read)\.|kerberos\.|oauthbearer\.)|"
    r"ssl\.(provider|keymanager\.algorithm|trustmanager\.algorithm|secure\.random\.implementation)"
)
"""Of another mechanism than those supported, or of Java's own TLS: without effect on what is done here."""
CLIENT_SETTINGS: Final = SAME_NAME | RENAMED.keys() | WITHOUT_MEANING | _SPECIAL
_JAAS = re.compile(
    r"\b(username|password|clientId|clientSecret|scope)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;]+))"
)


def translate_client_settings(settings: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    """librdkafka's settings for those of a Java client; unknown names are left out (see `unknown_settings`).

    Args:
        prefix: what stands before the names where they come from, for messages.

    Raises:
        WorkerConfigError: a setting has a form that librdkafka cannot be given, or a store cannot be read; by name.
    """
    result: dict[str, str] = {}
    for name, value in settings.items():
        if name in SAME_NAME:
            result[name] = value
        elif name in RENAMED:
            result[RENAMED[name]] = value
    if "buffer.memory" in settings:
        result["queue.buffering.max.kbytes"] = str(max(1, int(settings["buffer.memory"]) // 1024))
    result |= _sasl(settings, prefix) | _tls(settings, prefix)
    if result.get("sasl.oauthbearer.method") and "ssl.ca.pem" in result:
        result["https.ca.pem"] = result["ssl.ca.pem"]  # the token endpoint's certificate too
    return result


def user_and_password(jaas: str) -> tuple[str, str] | None:
    """The login of a ``sasl.jaas.config``; None when it has none, as OAUTHBEARER's."""
    found = _jaas_options(jaas)
    return (found["username"], found["password"]) if found.keys() == {"username", "password"} else None


def refused_settings(names: Iterable[str]) -> list[str]:
    """Those of `names` that concern security and are not supported."""
    return [
        name
        for name in unknown_settings(names)
        if name.startswith(_REFUSED_PREFIXES) and not _WITH_DEFAULTS_ONLY.match(name)
    ]


def unknown_settings(names: Iterable[str]) -> list[str]:
    """Those of `names` that have no counterpart in librdkafka."""
    return sorted(name for name in names if name not in CLIENT_SETTINGS)


def _sasl(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    result: dict[str, str] = {}
    protocol = settings.get("security.protocol", "").strip().upper()
    if "sasl.mechanism" in settings or protocol.startswith("SASL"):
        mechanism = settings.get("sasl.mechanism", "GSSAPI").strip()  # Kafka's default
        if mechanism not in _MECHANISMS:
            raise WorkerConfigError(
                f"{prefix}sasl.mechanism={mechanism} is not supported",
                hint=f"{', '.join(sorted(_MECHANISMS))} are; without the setting it is GSSAPI",
            )
        result["sasl.mechanism"] = mechanism
        if mechanism == _TOKENS:
            return result | _tokens(settings, prefix)
    if settings.get("sasl.login.callback.handler.class"):
        raise WorkerConfigError(f"{prefix}sasl.login.callback.handler.class is supported with {_TOKENS} only")
    if "sasl.jaas.config" in settings:
        result |= _from_jaas(settings["sasl.jaas.config"], prefix)
    return result


def _from_jaas(text: str, prefix: str) -> dict[str, str]:
    if not ("PlainLoginModule" in text or "ScramLoginModule" in text):
        raise WorkerConfigError(
            f"{prefix}sasl.jaas.config: only PlainLoginModule and ScramLoginModule have a counterpart here",
            hint="use SASL/PLAIN or SASL/SCRAM",
        )
    found = _jaas_options(text)
    if found.keys() != {"username", "password"}:
        raise WorkerConfigError(f"{prefix}sasl.jaas.config needs username and password")
    return {"sasl.username": found["username"], "sasl.password": found["password"]}


def _jaas_options(text: str) -> dict[str, str]:
    return {m.group(1): _unquote(m.group(2) or m.group(3) or m.group(4) or "") for m in _JAAS.finditer(text)}


def _tokens(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    """OAUTHBEARER with a token endpoint: the client in JAAS, or in the settings that Kafka 4.1 has for it, which count more."""
    handler = settings.get("sasl.login.callback.handler.class", "")
    if handler and not handler.strip().endswith("OAuthBearerLoginCallbackHandler"):
        raise WorkerConfigError(
            f"{prefix}sasl.login.callback.handler.class is not supported",
            hint="Kafka's own OAuthBearerLoginCallbackHandler is, which is also what counts without the setting",
        )
    jaas = _jaas_options(settings.get("sasl.jaas.config", ""))
    start = "sasl.oauthbearer."
    endpoint = settings.get(f"{start}token.endpoint.url", "").strip()
    found = {
        f"{start}client.id": settings.get(f"{start}client.credentials.client.id") or jaas.get("clientId"),
        f"{start}client.secret": settings.get(f"{start}client.credentials.client.secret")
        or jaas.get("clientSecret"),
    }
    if not endpoint.startswith(("http://", "https://")) or not all(found.values()):
        raise WorkerConfigError(
            f"{prefix}sasl.mechanism={_TOKENS} needs {prefix}{start}token.endpoint.url (http or https) and a client with"
            " its secret",
            hint=f"{start}client.credentials.client.id and .secret, or clientId and clientSecret in sasl.jaas.config",
        )
    if scope := settings.get(f"{start}scope") or jaas.get("scope"):
        found[f"{start}scope"] = scope
    known = {name: value for name, value in found.items() if value}
    return {f"{start}method": "oidc", f"{start}token.endpoint.url": endpoint, **known}


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _tls(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    result: dict[str, str] = {}
    if "ssl.endpoint.identification.algorithm" in settings:
        algorithm = settings["ssl.endpoint.identification.algorithm"].strip().lower()
        result["ssl.endpoint.identification.algorithm"] = algorithm or "none"
    if "ssl.cipher.suites" in settings:
        # librdkafka takes OpenSSL's names, and none at all for TLS 1.3.
        raise WorkerConfigError(f"{prefix}ssl.cipher.suites is not supported", hint="leave it out")
    protocols = settings.get("ssl.enabled.protocols")
    if protocols is not None and "TLSv1.2" not in {part.strip() for part in protocols.split(",")}:
        raise WorkerConfigError(
            f"{prefix}ssl.enabled.protocols={protocols} is not supported: TLSv1.2 cannot be switched off here",
            hint="switch it off at the brokers",
        )
    if not any(name.startswith(_STORES) for name in settings):
        return result
    from tidings_connect.kafka.key_stores import read_tls  # noqa: PLC0415 - costs 10 MB, which not everybody need pay

    material = read_tls(settings, prefix)
    if material.authorities:
        result["ssl.ca.pem"] = material.authorities
    if material.key:
        result |= {"ssl.certificate.pem": material.certificates, "ssl.key.pem": material.key}
    return result
