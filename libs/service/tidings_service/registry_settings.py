"""Settings of whoever asks the schema registry: ``TIDINGS_REGISTRY`` and ``TIDINGS_REGISTRY_*``, as a `RegistryAccess`."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from tidings_service.errors import SettingsError
from tidings_service.kafka_settings import File, Hidden, Text
from tidings_service.secret import Secret, chosen
from tidings_service.settings import ServiceSettings
from tidings_service.tls_files import TlsFiles

PREFIX: Final = "TIDINGS_REGISTRY"


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """A registry and a login there."""

    url: str
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    tls: TlsFiles | None = None

    def client_arguments(self) -> dict[str, Any]:
        """What `tidings_envelope.registry.RegistryClient` is made with, beside the URL."""
        settings: dict[str, str] = {}
        if self.tls is not None and self.tls.ca is not None:
            settings["ssl.ca.location"] = str(self.tls.ca)
        if self.tls is not None and self.tls.certificate is not None:
            settings |= {
                "ssl.certificate.location": str(self.tls.certificate),
                "ssl.key.location": str(self.tls.key),
            }
        authorization = None if self.password is None and self.token is None else self.authorization
        return {"settings": settings, "authorization": authorization, "login": self.login}

    def authorization(self) -> str:
        """The header Authorization of a request that is made now; there must be a login.

        Raises:
            SettingsError: the secret's file cannot be read.
        """
        if self.token is not None:
            return f"Bearer {self.token.read()}"
        assert self.password is not None
        user = f"{self.username}:{self.password.read()}"
        return "Basic " + base64.b64encode(user.encode()).decode()

    @property
    def login(self) -> str:
        """Who logs in and by which variables, for messages."""
        if self.token is not None:
            return self.token.setting
        if self.password is not None:
            return f"user {self.username!r}: {PREFIX}_USERNAME, {self.password.setting}"
        return f"no login is set: {PREFIX}_USERNAME or {PREFIX}_TOKEN"


class OptionalRegistrySettings(ServiceSettings):
    """A registry that may be left out."""

    registry: Text = None
    """The schema registry's Confluent-compatible API, for example http://127.0.0.1:8080/apis/ccompat/v7."""
    registry_username: Text = None
    """The user there."""
    registry_password: Hidden = None
    """The user's password."""
    registry_password_file: File = None
    """A file with it instead, which may change while the service runs."""
    registry_token: Hidden = None
    """A bearer token instead of a user."""
    registry_token_file: File = None
    """A file with it instead, which may change while the service runs."""
    registry_ca_file: File = None
    """PEM file of the authorities that the registry's certificate may be of; default: those that the system trusts."""
    registry_certificate_file: File = None
    """PEM file of the client's own certificate, for a registry that asks for one."""
    registry_key_file: File = None
    """PEM file of its key, which is not encrypted."""

    @model_validator(mode="after")
    def _whole_registry(self) -> Self:
        self.optional_registry  # noqa: B018 - raises what is wrong
        return self

    @cached_property
    def optional_registry(self) -> RegistryAccess | None:
        """The registry with its login, if there is one.

        Raises:
            SettingsError: settings contradict each other, one is missing, or a file cannot be used; names the variables.
        """
        password = chosen(f"{PREFIX}_PASSWORD", _plain(self.registry_password), self.registry_password_file)
        token = chosen(f"{PREFIX}_TOKEN", _plain(self.registry_token), self.registry_token_file)
        if (self.registry_username is None) != (password is None):
            raise SettingsError(
                f"{PREFIX}_USERNAME and {PREFIX}_PASSWORD or _FILE stand together: one is missing"
            )
        if password is not None and token is not None:
            raise SettingsError(f"{PREFIX}_PASSWORD and {PREFIX}_TOKEN: only one login can be used")
        files = TlsFiles(
            PREFIX, self.registry_ca_file, self.registry_certificate_file, self.registry_key_file
        )
        if self.registry is None:
            return None
        tls = None
        if urlsplit(self.registry).scheme == "https":
            files.check()
            tls = files
        else:
            for name in ("ca", "certificate", "key"):
                if getattr(files, name) is not None:
                    raise SettingsError(
                        f"{PREFIX}_{name.upper()}_FILE has no effect: {PREFIX} is not an https URL"
                    )
        return RegistryAccess(self.registry, self.registry_username, password, token, tls)


class RegistrySettings(OptionalRegistrySettings):
    """A registry, and how to log in there."""

    registry: Annotated[str, Field(min_length=1)]
    """The schema registry's Confluent-compatible API, for example http://127.0.0.1:8080/apis/ccompat/v7."""

    @property
    def registry_access(self) -> RegistryAccess:
        """The registry with its login."""
        access = self.optional_registry
        assert access is not None
        return access


def _plain(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
