"""Certificates of a client and of the authorities it trusts: PEM files that settings name."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from tidings_service.errors import SettingsError
from tidings_service.secret import Secret, read_file

_KEY_FOR_JAVA = "-----BEGIN PRIVATE KEY-----"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. `prefix` is what their variables begin with, such as ``TIDINGS_KAFKA``."""

    prefix: str
    ca: Path | None = None
    """None: the authorities that the system trusts."""
    certificate: Path | None = None
    """The client's, followed by intermediate ones."""
    key: Path | None = None
    key_password: Secret | None = None

    def check(self) -> None:
        """See that everything can be read and fits together.

        Raises:
            SettingsError: it does not; names the variable.
        """
        if (self.certificate is None) != (self.key is None):
            raise SettingsError(
                f"{self.prefix}_CERTIFICATE_FILE and {self.prefix}_KEY_FILE stand together: one of them is missing"
            )
        if self.key_password is not None and self.key is None:
            raise SettingsError(f"{self.key_password.setting}: there is no {self.prefix}_KEY_FILE")
        self.load(ssl.create_default_context())

    def context(self) -> ssl.SSLContext:
        """For connections of Python's: verifies the server's certificate and name.

        Raises:
            SettingsError: a file cannot be used; names the variable.
        """
        context = ssl.create_default_context(cadata=None if self.ca is None else self.authorities())
        self.load(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Read the files into a context; a connection that is made with it from now on uses them.

        Raises:
            SettingsError: a file cannot be used; names the variable.
        """
        if self.ca is not None:
            try:
                context.load_verify_locations(cadata=self.authorities())
            except ssl.SSLError as error:
                raise SettingsError(f"{self.prefix}_CA_FILE: there is no certificate in {self.ca}") from error
        if self.certificate is None or self.key is None:
            return
        read_file(f"{self.prefix}_CERTIFICATE_FILE", self.certificate)
        read_file(f"{self.prefix}_KEY_FILE", self.key)
        # A function, so that a key without the password it needs is an error and not a question at the terminal.
        password = "" if self.key_password is None else self.key_password.read()
        try:
            context.load_cert_chain(self.certificate, self.key, lambda: password)
        except (ssl.SSLError, ValueError) as error:
            raise SettingsError(
                f"{self.prefix}_CERTIFICATE_FILE, {self.prefix}_KEY_FILE: {self.certificate} and {self.key} are no"
                " certificate with its key, or the key's password is wrong",
                hint=f"both are PEM; an encrypted key needs {self.prefix}_KEY_PASSWORD or _FILE",
            ) from error

    def authorities(self) -> str:
        """The text of `ca`, which must be set.

        Raises:
            SettingsError: it cannot be read, or there is nothing in it.
        """
        assert self.ca is not None
        text = read_file(f"{self.prefix}_CA_FILE", self.ca)
        if "-----BEGIN CERTIFICATE-----" not in text:
            raise SettingsError(f"{self.prefix}_CA_FILE: there is no PEM certificate in {self.ca}")
        return text

    def java(self) -> dict[str, str]:
        """Settings of Kafka's Java clients, which take the key as a value.

        Raises:
            SettingsError: the key has a form that Java does not read.
        """
        settings: dict[str, str] = {}
        if self.ca is not None:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.authorities()}
        if self.certificate is None or self.key is None:
            return settings
        key = read_file(f"{self.prefix}_KEY_FILE", self.key)
        if _KEY_FOR_JAVA not in key:
            # Kafka's client on Java 17 knows no key that today's tools have encrypted (PBES2).
            raise SettingsError(
                f"{self.prefix}_KEY_FILE: Java reads keys in PKCS #8 that are not encrypted, and {self.key} is another",
                hint="openssl pkcs8 -topk8 -nocrypt -in KEY -out KEY.pkcs8 turns it into one; leave"
                f" {self.prefix}_KEY_PASSWORD out",
            )
        chain = read_file(f"{self.prefix}_CERTIFICATE_FILE", self.certificate)
        return settings | {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": chain,
        }
