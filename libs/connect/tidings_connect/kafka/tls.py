"""TLS of Python's own connections (the REST listener, the registry's client) from Kafka's ``ssl.*`` settings.

Settings: Apache Kafka documentation, "Kafka Connect Configs".
"""

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from tidings_connect.errors import WorkerConfigError
from tidings_connect.kafka.key_stores import TlsMaterial, read_tls

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
SERVER_SETTINGS: Final = frozenset(
    {
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""What `server_context` understands."""


def server_context(settings: Mapping[str, str], prefix: str = "") -> ssl.SSLContext:
    """TLS for a listener.

    Args:
        settings: without prefix; ``ssl.client.auth=required`` asks clients for a certificate of the trust store's.
        prefix: of the settings where they stand, for messages.

    Raises:
        WorkerConfigError: a setting is missing, wrong or not supported; names it.
    """
    material = read_tls(settings, prefix)
    if not material.key:
        raise WorkerConfigError(
            f"https in listeners or admin.listeners needs {prefix}ssl.keystore.location (or {prefix}ssl.keystore.key)"
        )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version, context.maximum_version = _versions(settings, prefix)
    with pem_file(material.key + material.certificates) as path:
        context.load_cert_chain(path)
    wish = settings.get("ssl.client.auth", "none").strip().lower()
    if wish not in _CLIENT_AUTH:
        raise WorkerConfigError(f"{prefix}ssl.client.auth takes none, requested or required")
    if wish != "none" and not material.authorities:
        raise WorkerConfigError(
            f"{prefix}ssl.client.auth={wish} needs {prefix}ssl.truststore.location: it says whose certificates count"
        )
    context.verify_mode = _CLIENT_AUTH[wish]
    if material.authorities:
        context.load_verify_locations(cadata=material.authorities)
    return context


def client_context(settings: Mapping[str, str], prefix: str = "") -> ssl.SSLContext:
    """TLS for requests to a listener with the same settings: another worker's.

    Raises:
        WorkerConfigError: a store cannot be read; names the setting.
    """
    material = read_tls(settings, prefix)
    context = ssl.create_default_context(cadata=material.authorities or None)
    context.minimum_version, context.maximum_version = _versions(settings, prefix)
    if material.key:
        with pem_file(material.key + material.certificates) as path:
            context.load_cert_chain(path)
    # Set and empty: a certificate need not name the host it is of.
    context.check_hostname = bool(settings.get("ssl.endpoint.identification.algorithm", "https").strip())
    return context


def _versions(settings: Mapping[str, str], prefix: str) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    text = settings.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3")
    chosen = sorted(_VERSIONS[part] for part in map(str.strip, text.split(",")) if part in _VERSIONS)
    if not chosen:
        raise WorkerConfigError(
            f"{prefix}ssl.enabled.protocols={text} is not supported: TLSv1.2 and TLSv1.3 are"
        )
    return chosen[0], chosen[-1]


@contextmanager
def pem_file(text: str) -> Iterator[str]:
    """A path for a library that takes keys and certificates from files only; where the system can, nothing is on a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(mode="w", suffix=".pem") as file:  # readable by this user only
        file.write(text)
        file.flush()
        yield file.name


@contextmanager
def registry_files(material: TlsMaterial) -> Iterator[dict[str, str]]:
    """The settings of Confluent's Python registry client for a store; good as long as the context is open."""
    with pem_file(material.authorities) as authorities, pem_file(material.key + material.certificates) as own:
        found: dict[str, str] = {}
        if material.authorities:
            found["ssl.ca.location"] = authorities
        if material.key:
            found["ssl.certificate.location"] = own
        yield found
