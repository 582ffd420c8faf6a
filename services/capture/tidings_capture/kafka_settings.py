"""Translates the settings of Kafka's Java clients, as they stand in worker properties, into librdkafka's.

Most have the same name. Where the Java client has its own form (JAAS, trust stores) the equivalent is found; what has
none is reported by name, so that nobody believes in a setting that does nothing. Lists: Apache Kafka documentation,
"Producer Configs"; librdkafka's ``CONFIGURATION.md``. Pure.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tidings_capture.errors import WorkerConfigError

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
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "security.protocol",
        "session.timeout.ms",
        "ssl.cipher.suites",
        "ssl.key.password",
        "transaction.timeout.ms",
    }
)
RENAMED: Final = {
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
WITHOUT_MEANING: Final = frozenset(
    {
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "max.block.ms",
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "ssl.keystore.type",
    }
)
"""Java's own, with nothing to do here; accepted in silence."""

_SPECIAL: Final = frozenset(
    {
        "buffer.memory",
        "sasl.jaas.config",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.truststore.location",
    }
)
CLIENT_SETTINGS: Final = SAME_NAME | RENAMED.keys() | WITHOUT_MEANING | _SPECIAL
_JAAS = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;]+))")


def translate_client_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings for those of a Java client; unknown names are left out (see `unknown_settings`).

    Raises:
        WorkerConfigError: a setting has a form that librdkafka cannot be given, by name.
    """
    result: dict[str, str] = {}
    for name, value in settings.items():
        if name in SAME_NAME:
            result[name] = value
        elif name in RENAMED:
            result[RENAMED[name]] = value
    if "buffer.memory" in settings:
        result["queue.buffering.max.kbytes"] = str(max(1, int(settings["buffer.memory"]) // 1024))
    if "sasl.jaas.config" in settings:
        result |= _from_jaas(settings["sasl.jaas.config"])
    if "ssl.endpoint.identification.algorithm" in settings:
        algorithm = settings["ssl.endpoint.identification.algorithm"].strip().lower()
        result["ssl.endpoint.identification.algorithm"] = algorithm or "none"
    return result | _trust_store(settings) | _key_store(settings)


def unknown_settings(names: Iterable[str]) -> list[str]:
    """Those of `names` that have no counterpart in librdkafka."""
    return sorted(name for name in names if name not in CLIENT_SETTINGS)


def _from_jaas(text: str) -> dict[str, str]:
    if not ("PlainLoginModule" in text or "ScramLoginModule" in text):
        raise WorkerConfigError(
            "sasl.jaas.config: only PlainLoginModule and ScramLoginModule have a counterpart here",
            hint="use SASL/PLAIN or SASL/SCRAM",
        )
    found = {m.group(1): m.group(2) or m.group(3) or m.group(4) or "" for m in _JAAS.finditer(text)}
    if found.keys() != {"username", "password"}:
        raise WorkerConfigError("sasl.jaas.config needs username and password")
    return {
        "sasl.username": _unquote(found["username"]),
        "sasl.password": _unquote(found["password"]),
    }


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _trust_store(settings: Mapping[str, str]) -> dict[str, str]:
    location = settings.get("ssl.truststore.location")
    if location is None:
        return {}
    if settings.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise WorkerConfigError(
            "ssl.truststore.location: only trust stores with ssl.truststore.type=PEM can be read here",
            hint="export the certificates: keytool -exportcert -rfc",
        )
    return {"ssl.ca.location": location}


def _key_store(settings: Mapping[str, str]) -> dict[str, str]:
    location = settings.get("ssl.keystore.location")
    if location is None:
        return {}
    kind = settings.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind == "PKCS12":
        return {
            "ssl.keystore.location": location,
            "ssl.keystore.password": settings.get("ssl.keystore.password", ""),
        }
    raise WorkerConfigError(
        "ssl.keystore.location: only ssl.keystore.type=PEM or PKCS12 can be read here",
        hint="convert the key store: keytool -importkeystore -deststoretype PKCS12",
    )
