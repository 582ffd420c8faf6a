"""Certificates and keys as Kafka's Java clients are given them (``ssl.truststore.*``, ``ssl.keystore.*``), as PEM.

Java key stores (JKS), PKCS #12 and PEM are read, by file or, for PEM, as the value itself. Which of the two Java forms a
file has is seen in the file, as Java does, whatever ``ssl.*.type`` says. Formats: PKCS #12, RFC 7292; JKS, as
``sun.security.provider.JavaKeyStore`` and ``KeyProtector`` in OpenJDK describe it. Settings: Apache Kafka documentation,
"Producer Configs". Messages name the property, never what is in a store.
"""

import hashlib
import hmac
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from tidings_connect.errors import WorkerConfigError

_JKS_MAGIC: Final = 0xFEEDFEED
_JKS_WHITENER: Final = b"Mighty Aphrodite"
_TRUSTED: Final = 2
_DIGEST_BYTES: Final = 20
_PEM_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """What one side of a TLS connection has; every part may be empty. All is PEM."""

    authorities: str = ""
    """Whom to trust; empty: the system's authorities."""
    certificates: str = ""
    """The own certificate, then its issuers."""
    key: str = field(default="", repr=False)
    """The own certificate's private key (PKCS #8, not encrypted)."""


def read_tls(settings: Mapping[str, str], prefix: str = "") -> TlsMaterial:
    """Read the stores that ``ssl.*`` settings name.

    Args:
        settings: without prefix.
        prefix: of the settings where they stand, for messages (``producer.override.``).

    Raises:
        WorkerConfigError: a store cannot be read, or has a form that is not supported; names the property.
    """
    reader = _Reader(settings, prefix)
    certificates, key = reader.own()
    return TlsMaterial(reader.authorities(), certificates, key)


class _Reader:
    def __init__(self, settings: Mapping[str, str], prefix: str) -> None:
        self._settings = settings
        self._prefix = prefix

    def authorities(self) -> str:
        kind, location = self._kind("truststore"), self._settings.get("ssl.truststore.location")
        inline = self._settings.get("ssl.truststore.certificates")
        name = "ssl.truststore.certificates" if inline is not None else "ssl.truststore.location"
        if inline is None and location is None:
            return ""
        if inline is not None:
            if location is not None:
                raise self._error("ssl.truststore.location cannot stand beside ssl.truststore.certificates")
            found = self._pem_certificates(inline, name)
        elif kind == "PEM":
            found = self._pem_certificates(self._text(name), name)
        else:
            found = self._store("truststore").authorities
        if not found:
            raise self._error(f"{name} holds no certificate")
        return _as_pem(found)

    def own(self) -> tuple[str, str]:
        """The certificate with its chain, and the key."""
        settings, location = self._settings, self._settings.get("ssl.keystore.location")
        inline = settings.get("ssl.keystore.key")
        if inline is not None or "ssl.keystore.certificate.chain" in settings:
            chain = settings.get("ssl.keystore.certificate.chain")
            if location is not None or chain is None or inline is None:
                raise self._error(
                    "ssl.keystore.key and ssl.keystore.certificate.chain stand together, without ssl.keystore.location"
                )
            certificates = self._pem_certificates(chain, "ssl.keystore.certificate.chain")
            return self._pair(certificates, self._pem_key(inline, "ssl.keystore.key"), "ssl.keystore.key")
        if location is None:
            return "", ""
        name = "ssl.keystore.location"
        if self._kind("keystore") == "PEM":
            text = self._text(name)
            return self._pair(self._pem_certificates(text, name), self._pem_key(text, name), name)
        store = self._store("keystore")
        return self._pair(store.chain, store.key, name)

    def _pair(self, certificates: list[x509.Certificate], key: bytes | None, name: str) -> tuple[str, str]:
        if not certificates or key is None:
            raise self._error(f"{name} holds no private key with its certificate")
        return _as_pem(certificates), key.decode()

    def _kind(self, which: str) -> str:
        kind = self._settings.get(f"ssl.{which}.type", "JKS").strip().upper()
        if kind not in {"JKS", "PKCS12", "PEM"}:
            raise self._error(f"ssl.{which}.type={kind} is not supported: JKS, PKCS12 and PEM are")
        return kind

    def _store(self, which: str) -> "_Store":
        name = f"ssl.{which}.location"
        data = self._bytes(name)
        password = self._settings.get(f"ssl.{which}.password")
        try:
            if data[:4] == _JKS_MAGIC.to_bytes(4, "big"):
                return _read_jks(data, password, self._settings.get("ssl.key.password", password))
            return _read_pkcs12(data, password)
        except _WrongPasswordError:
            raise self._error(
                f"{self._prefix}ssl.{which}.password (or ssl.key.password) does not open {name}", ready=True
            ) from None
        except (ValueError, struct.error, IndexError) as error:  # a library's text may hold anything
            raise self._error(
                f"{name} is no {which} that can be read, or ssl.{which}.password does not open it",
                hint="JKS, PKCS12 and PEM can be read; keytool -importkeystore -deststoretype PKCS12 converts others",
            ) from error

    def _bytes(self, name: str) -> bytes:
        path = self._settings[name]
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise self._error(f"{name}: {path} cannot be read: {error.strerror}") from error

    def _text(self, name: str) -> str:
        return self._bytes(name).decode("latin-1")

    def _pem_certificates(self, text: str, name: str) -> list[x509.Certificate]:
        try:
            return [
                x509.load_pem_x509_certificate(block)
                for kind, block in _blocks(text)
                if kind == "CERTIFICATE"
            ]
        except ValueError as error:
            raise self._error(f"{name} holds a certificate that cannot be read") from error

    def _pem_key(self, text: str, name: str) -> bytes | None:
        password = self._settings.get("ssl.key.password")
        for kind, block in _blocks(text):
            if not kind.endswith("PRIVATE KEY"):
                continue
            secret = password.encode() if password is not None and "ENCRYPTED" in kind else None
            try:
                key = serialization.load_pem_private_key(block, secret)
            except (ValueError, TypeError) as error:
                raise self._error(
                    f"{name} holds a private key that cannot be read, or that ssl.key.password does not open"
                ) from error
            return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return None

    def _error(self, text: str, *, hint: str | None = None, ready: bool = False) -> WorkerConfigError:
        return WorkerConfigError(text if ready else self._prefix + text, hint=hint)


@dataclass(slots=True)
class _Store:
    authorities: list[x509.Certificate] = field(default_factory=list)
    chain: list[x509.Certificate] = field(default_factory=list)
    key: bytes | None = None


class _WrongPasswordError(Exception):
    pass


def _blocks(text: str) -> Iterable[tuple[str, bytes]]:
    """PEM blocks; as the value of a property each may stand in a single line."""
    for kind, body in _PEM_BLOCK.findall(text):
        yield kind, f"-----BEGIN {kind}-----\n{body.strip()}\n-----END {kind}-----\n".encode()


def _as_pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def _read_pkcs12(data: bytes, password: str | None) -> _Store:
    store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    others = [entry.certificate for entry in store.additional_certs]
    if store.key is None or store.cert is None:
        return _Store(authorities=[*([store.cert.certificate] if store.cert else []), *others])
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return _Store(authorities=others, chain=_chain(store.cert.certificate, others), key=key)


def _chain(first: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """The certificate and its issuers in order, as far as they are there."""
    found, left = [first], list(others)
    while found[-1].issuer != found[-1].subject:
        issuer = next((one for one in left if one.subject == found[-1].issuer), None)
        if issuer is None:
            break
        left.remove(issuer)
        found.append(issuer)
    return found


def _read_jks(data: bytes, password: str | None, key_password: str | None) -> _Store:
    """A Java key store: entries of certificates, and of keys with their chains; at its end a keyed SHA-1."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(password.encode("utf-16-be") + _JKS_WHITENER + body)  # noqa: S324 - the format's
        if not hmac.compare_digest(expected.digest(), digest):
            raise _WrongPasswordError
    cursor = _Cursor(body)
    _magic, version, count = cursor.take(">III")
    store = _Store()
    for _ in range(count):
        (tag,) = cursor.take(">I")
        cursor.text()  # alias
        cursor.take(">q")  # created, milliseconds
        if tag == _TRUSTED:
            store.authorities.append(cursor.certificate(version))
            continue
        protected = cursor.data()
        (length,) = cursor.take(">I")
        chain = [cursor.certificate(version) for _ in range(length)]
        if store.key is None:
            if key_password is None:
                raise _WrongPasswordError
            plain = serialization.load_der_private_key(_unprotect(protected, key_password), None)
            store.key = plain.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            store.chain = chain
    return store


def _unprotect(protected: bytes, password: str) -> bytes:
    """A private key out of Sun's own protection: an EncryptedPrivateKeyInfo with salt, key xor SHA-1 chain, check."""
    inner = _der_value(protected, 0)  # the sequence's content
    algorithm_end = _der_end(inner, 0)
    content = _der_value(inner, algorithm_end)  # the octet string's
    secret = password.encode("utf-16-be")
    salt, sealed, check = (
        content[:_DIGEST_BYTES],
        content[_DIGEST_BYTES:-_DIGEST_BYTES],
        content[-_DIGEST_BYTES:],
    )
    stream, link = b"", salt
    while len(stream) < len(sealed):
        link = hashlib.sha1(secret + link).digest()  # noqa: S324 - the format's
        stream += link
    plain = bytes(a ^ b for a, b in zip(sealed, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):  # noqa: S324
        raise _WrongPasswordError
    return plain


def _der_header(data: bytes, at: int) -> tuple[int, int]:
    """Where the value of the DER element at `at` begins, and its length."""
    first = data[at + 1]
    if first < 0x80:
        return at + 2, first
    size = first & 0x7F
    return at + 2 + size, int.from_bytes(data[at + 2 : at + 2 + size], "big")


def _der_value(data: bytes, at: int) -> bytes:
    start, length = _der_header(data, at)
    return data[start : start + length]


def _der_end(data: bytes, at: int) -> int:
    start, length = _der_header(data, at)
    return start + length


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found

    def data(self, form: str = ">I") -> bytes:
        (length,) = self.take(form)
        if self._at + length > len(self._data):
            raise ValueError("cut off")
        self._at += length
        return self._data[self._at - length : self._at]

    def text(self) -> bytes:
        return self.data(">H")

    def certificate(self, version: int) -> x509.Certificate:
        if version > 1:
            self.text()  # its type: X.509
        return x509.load_der_x509_certificate(self.data())
