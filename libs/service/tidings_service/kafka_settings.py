"""Settings of whoever talks to Kafka: ``TIDINGS_KAFKA`` and ``TIDINGS_KAFKA_*``, as a `KafkaAccess`."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from tidings_service.errors import SettingsError
from tidings_service.kafka_access import PREFIX, KafkaAccess
from tidings_service.oauth import TokenSource
from tidings_service.secret import Secret, chosen
from tidings_service.settings import ServiceSettings
from tidings_service.tls_files import TlsFiles


def _unless_empty(value: Any) -> Any:
    """A variable that is empty is as good as none: where containers are started, that is how one is left out."""
    return None if value == "" else value


Text = Annotated[str | None, BeforeValidator(_unless_empty)]
Hidden = Annotated[SecretStr | None, BeforeValidator(_unless_empty)]
File = Annotated[Path | None, BeforeValidator(_unless_empty)]
Mechanism = Annotated[
    Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None, BeforeValidator(_unless_empty)
]

_TOKENS: Final = "OAUTHBEARER"


class KafkaSettings(ServiceSettings):
    """A cluster, and how to log in there."""

    kafka: Annotated[str, Field(min_length=1)]
    """Kafka's bootstrap servers, host:port[,host:port]."""
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How the brokers are talked to: in the clear or with TLS, with a login or without."""
    kafka_sasl_mechanism: Mechanism = None
    """How to log in; needed with SASL_PLAINTEXT and SASL_SSL."""
    kafka_sasl_username: Text = None
    """The user, for PLAIN and SCRAM."""
    kafka_sasl_password: Hidden = None
    """The user's password."""
    kafka_sasl_password_file: File = None
    """A file with it instead, which may change while the service runs."""
    kafka_oauth_token_endpoint: Text = None
    """URL that gives tokens, for OAUTHBEARER."""
    kafka_oauth_client_id: Text = None
    """The client that asks there."""
    kafka_oauth_client_secret: Hidden = None
    """The client's secret."""
    kafka_oauth_client_secret_file: File = None
    """A file with it instead, which may change while the service runs."""
    kafka_oauth_scope: Text = None
    """The scope to ask for; none by default."""
    kafka_ca_file: File = None
    """PEM file of the authorities that the brokers' certificates may be of; default: those that the system trusts."""
    kafka_certificate_file: File = None
    """PEM file of the client's own certificate, for brokers that ask for one."""
    kafka_key_file: File = None
    """PEM file of its key."""
    kafka_key_password: Hidden = None
    """Password of an encrypted key."""
    kafka_key_password_file: File = None
    """A file with it instead."""

    @model_validator(mode="after")
    def _whole_kafka(self) -> Self:
        self.kafka_access  # noqa: B018 - raises what is wrong
        return self

    @cached_property
    def kafka_access(self) -> KafkaAccess:
        """The cluster with its login.

        Raises:
            SettingsError: settings contradict each other, one is missing, or a file cannot be used; names the variables.
        """
        protocol, mechanism = self.kafka_security_protocol, self.kafka_sasl_mechanism
        self._check_protocol(protocol, mechanism)
        tls = self._tls() if protocol.endswith("SSL") else None
        if tls is not None:
            tls.check()
        password = _secret(self, "sasl_password")
        secret = _secret(self, "oauth_client_secret")
        oauth = None
        if mechanism == _TOKENS:
            self._need("oauth_token_endpoint", "oauth_client_id", why=f"{PREFIX}_SASL_MECHANISM={_TOKENS}")
            oauth = self._tokens(secret, tls)
        elif mechanism is not None:
            self._need("sasl_username", why=f"{PREFIX}_SASL_MECHANISM={mechanism}")
            if password is None:
                raise _missing("sasl_password", f"{PREFIX}_SASL_MECHANISM={mechanism}")
        return KafkaAccess(self.kafka, protocol, mechanism, self.kafka_sasl_username, password, oauth, tls)

    def _check_protocol(self, protocol: str, mechanism: str | None) -> None:
        """Nothing may be set that has no effect: whoever set it believes in what it does."""
        shown = f"{PREFIX}_SECURITY_PROTOCOL={protocol}"
        if protocol.startswith("SASL"):
            self._need("sasl_mechanism", why=shown)
        else:
            self._refuse("sasl_", f"has no effect with {shown}", "SASL_SSL has logins")
            self._refuse("oauth_", f"has no effect with {shown}", "SASL_SSL has logins")
        if not protocol.endswith("SSL"):
            for start in ("ca_", "certificate_", "key_"):
                self._refuse(start, f"has no effect with {shown}", "SSL and SASL_SSL have TLS")
        if mechanism == _TOKENS:
            for start in ("sasl_username", "sasl_password"):
                self._refuse(start, f"has no effect with {PREFIX}_SASL_MECHANISM={mechanism}", "see OAUTH_*")
        elif mechanism is not None:
            self._refuse(
                "oauth_", f"has no effect with {PREFIX}_SASL_MECHANISM={mechanism}", "see SASL_USERNAME"
            )

    def _set(self, start: str) -> list[str]:
        names = [name for name in KafkaSettings.model_fields if name.startswith(f"kafka_{start}")]
        return [name for name in names if getattr(self, name) is not None]

    def _refuse(self, start: str, why: str, hint: str) -> None:
        for name in self._set(start):
            raise SettingsError(f"TIDINGS_{name.upper()} {why}", hint=f"leave it out; {hint}")

    def _need(self, *names: str, why: str) -> None:
        for name in names:
            if getattr(self, f"kafka_{name}") is None:
                raise _missing(name, why)

    def _tls(self) -> TlsFiles:
        return TlsFiles(
            PREFIX,
            self.kafka_ca_file,
            self.kafka_certificate_file,
            self.kafka_key_file,
            _secret(self, "key_password"),
        )

    def _tokens(self, secret: Secret | None, tls: TlsFiles | None) -> TokenSource:
        endpoint, client = self.kafka_oauth_token_endpoint or "", self.kafka_oauth_client_id or ""
        if secret is None:
            raise _missing("oauth_client_secret", f"{PREFIX}_SASL_MECHANISM={_TOKENS}")
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
            raise SettingsError(
                f"{PREFIX}_OAUTH_TOKEN_ENDPOINT is not an http(s) URL, or one with a user in it",
                hint=f"the client and its secret are {PREFIX}_OAUTH_CLIENT_ID and _SECRET",
            )
        authorities = TlsFiles(PREFIX, tls.ca) if tls is not None else TlsFiles(PREFIX)
        return TokenSource(PREFIX, endpoint, client, secret, self.kafka_oauth_scope, authorities)


def _secret(settings: KafkaSettings, name: str) -> Secret | None:
    value: SecretStr | None = getattr(settings, f"kafka_{name}")
    return chosen(
        f"{PREFIX}_{name.upper()}",
        None if value is None else value.get_secret_value(),
        getattr(settings, f"kafka_{name}_file"),
    )


def _missing(name: str, why: str) -> SettingsError:
    variable = f"{PREFIX}_{name.upper()}"
    twin = f" or {variable}_FILE" if name.endswith(("password", "secret")) else ""
    return SettingsError(f"{variable}{twin} is missing: {why} needs it")
