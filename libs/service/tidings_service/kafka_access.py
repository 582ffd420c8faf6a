"""How a service gets at a Kafka cluster, and the same in the words of each client library.

Kept as one value, so that nobody gets a cluster's address without the login that belongs to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from tidings_service.oauth import TokenSource
from tidings_service.secret import Secret
from tidings_service.tls_files import TlsFiles

PREFIX: Final = "TIDINGS_KAFKA"
_MODULES: Final = "org.apache.kafka.common.security"
_JAVA_SECRETS: Final = frozenset({"sasl.jaas.config", "ssl.keystore.key"})
SECRET_NAMES: Final = r"(?i)secret|password|token|access[.]?key|jaas|ssl[.]keystore[.]key"  # noqa: S105 - a pattern of names
"""A pattern of the names of Java's settings that nobody may see, for Spark's redaction."""


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """A cluster and a login there; with nothing but `bootstrap` it is a cluster in the clear."""

    bootstrap: str
    """host:port[,host:port]"""
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: Secret | None = None
    oauth: TokenSource | None = None
    tls: TlsFiles | None = None

    @property
    def principal(self) -> str:
        """Who logs in, for messages."""
        if self.oauth is not None:
            return f"client {self.oauth.client_id!r}"
        if self.username is not None:
            return f"user {self.username!r}"
        if self.tls is not None and self.tls.certificate is not None:
            return f"the certificate {self.tls.certificate}"
        return "nobody (no login is set)"

    @property
    def login_settings(self) -> str:
        """The variables that a refused login may be due to, for messages."""
        if self.oauth is not None:
            return f"{PREFIX}_OAUTH_CLIENT_ID, {self.oauth.secret.setting}"
        if self.password is not None:
            return f"{PREFIX}_SASL_USERNAME, {self.password.setting}"
        if self.tls is not None:
            return f"{PREFIX}_CA_FILE, {PREFIX}_CERTIFICATE_FILE"
        return f"{PREFIX}_SECURITY_PROTOCOL"

    def librdkafka(self) -> dict[str, Any]:
        """Settings of librdkafka's clients in Python.

        Raises:
            SettingsError: a file cannot be read.
            TokenError: there is no token.
        """
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.mechanism is not None:
            settings["sasl.mechanism"] = self.mechanism
        if self.password is not None:
            settings |= {"sasl.username": self.username, "sasl.password": self.password.read()}
        if self.oauth is not None:
            self.oauth.token()  # a wrong client is an error here, rather than in a thread of librdkafka's
            settings["oauth_cb"] = self._token_for_librdkafka
        if self.tls is None:
            return settings
        if self.tls.ca is not None:
            settings["ssl.ca.location"] = str(self.tls.ca)
        if self.tls.certificate is not None:
            settings |= {
                "ssl.certificate.location": str(self.tls.certificate),
                "ssl.key.location": str(self.tls.key),
            }
            if self.tls.key_password is not None:
                settings["ssl.key.password"] = self.tls.key_password.read()
        return settings

    def _token_for_librdkafka(self, _config: str) -> tuple[str, float]:
        assert self.oauth is not None
        token = self.oauth.token()
        return token.value, token.expires_at

    def aiokafka(self) -> dict[str, Any]:
        """Arguments of aiokafka's clients; for OAUTHBEARER the caller adds a provider of `oauth`'s tokens.

        Raises:
            SettingsError: a file cannot be used.
        """
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.mechanism is not None:
            settings["sasl_mechanism"] = self.mechanism
        if self.password is not None:
            settings |= {
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password.read(),
            }
        if self.tls is not None:
            settings["ssl_context"] = self.tls.context()
        return settings

    def java(self) -> dict[str, str]:
        """Settings of Kafka's Java clients; `java_secrets` says which of them nobody may see.

        Raises:
            SettingsError: a file cannot be used, by Java or at all.
        """
        settings = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.mechanism is not None:
            settings |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas()}
        if self.oauth is not None:
            settings |= {
                "sasl.login.callback.handler.class": f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": self.oauth.endpoint,
            }
        if self.tls is not None:
            settings |= self.tls.java()
        return settings

    def _jaas(self) -> str:
        if self.oauth is not None:
            options = {"clientId": self.oauth.client_id, "clientSecret": self.oauth.secret.read()}
            if self.oauth.scope:
                options["scope"] = self.oauth.scope
            if self.tls is not None and self.tls.ca is not None and self.oauth.endpoint.startswith("https"):
                # The client asks the endpoint with settings of its own.
                options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.tls.ca)}
            module = "oauthbearer.OAuthBearerLoginModule"
        else:
            assert self.password is not None
            options = {"username": self.username or "", "password": self.password.read()}
            module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
        words = " ".join(f'{name}="{_escaped(value)}"' for name, value in options.items())
        return f"{_MODULES}.{module} required {words};"


def java_secrets(settings: dict[str, str]) -> dict[str, str]:
    """Those of `KafkaAccess.java` that nobody may see."""
    return {name: value for name, value in settings.items() if name in _JAVA_SECRETS}


def _escaped(value: str) -> str:
    """For a quoted value in JAAS's language, which knows C's escapes (`java.io.StreamTokenizer`)."""
    return re.sub(r'(["\\])', r"\\\1", value)
