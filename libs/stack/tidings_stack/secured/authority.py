"""A certificate authority for tests: servers and clients whose TLS is as real as anybody's, made in a moment.

Keys are elliptic (P-256): an RSA key takes a second to make.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat, pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate with its private key; all PEM."""

    certificate: str
    key: str = field(repr=False)
    """PKCS #8, not encrypted."""
    chain: str
    """The certificate, then the intermediate authorities; without the root."""

    def encrypted_key(self, password: str) -> str:
        """The key under a password, PKCS #8."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        key = serialization.load_pem_private_key(self.key.encode(), None)
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        """Key and chain as PKCS #12."""
        first, *others = x509.load_pem_x509_certificates(self.chain.encode())
        key = serialization.load_pem_private_key(self.key.encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        encryption = serialization.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"own", key, first, others, encryption)


class Authority:
    """Issues certificates for the loopback interface. `certificate` is the root, PEM.

    An authority `under` another is an intermediate one: its certificate belongs to the chain of what it issues.
    """

    def __init__(self, name: str = "Test authority", under: Authority | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        issuer, signer = (self._name, self._key) if under is None else (under._name, under._key)  # noqa: SLF001
        built = (
            _builder(self._name, issuer, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(signer, hashes.SHA256())
        )
        self._pem = built.public_bytes(Encoding.PEM).decode()
        self._above: str = "" if under is None else self._pem + under._above  # noqa: SLF001
        self.certificate: str = self._pem if under is None else under.certificate

    def issue(self, name: str, *, hosts: tuple[str, ...] = ("localhost", "127.0.0.1")) -> Issued:
        """A certificate for a server on `hosts` or a client called `name`."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(name), self._name, key)
            .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        pem = certificate.public_bytes(Encoding.PEM).decode()
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, serialization.NoEncryption())
        return Issued(pem, secret.decode(), pem + self._above)


def _builder(name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 30 * _DAY)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
