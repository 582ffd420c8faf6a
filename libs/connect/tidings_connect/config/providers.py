"""Config providers: ``${file:/run/secrets/db.properties:password}`` in place of a secret.

Worker properties name the providers (``config.providers=file,env`` and ``config.providers.<name>.class``, ``.param.*``);
references may stand in worker properties and in connector configurations. What is stored in the config topic and shown
over REST is the reference; it is resolved when a connector is validated and whenever its task starts.

Forms and classes: Apache Kafka documentation, "Config Providers"; Kafka's ``ConfigTransformer``. Another than Kafka's: a
key that a configured provider does not have is an error that names the option, where Kafka would use the text
``${...}`` itself as the value.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from tidings_connect.errors import ConnectError, WorkerConfigError
from tidings_connect.java.properties import parse_properties
from tidings_connect.java.regex import JavaPattern, compile_java
from tidings_service import Retry

_REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
CONFIG_PROVIDERS: Final = "config.providers"


class ConfigProviderError(ConnectError):
    """A reference to a secret cannot be resolved; the message names the option and the reference, never a value.

    Timed, because a secret's file may come back (a mount, a rotation).
    """

    code = "config_provider"
    default_retry = Retry.TIMED

    def __init__(self, message: str, *, option: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.option = option


def is_reference(value: str) -> bool:
    """Whether a value is nothing but one reference, and so no secret itself."""
    return _REFERENCE.fullmatch(value) is not None


class Provider(Protocol):
    """Looks up one key; `LookupError` says in words for a person why there is none."""

    def get(self, path: str, key: str) -> str:
        """The value of `key` at `path` ("" when the reference has none)."""
        ...


@dataclass(frozen=True, slots=True)
class _AllowedPaths:
    """``allowed.paths``: where the files may be; None: anywhere."""

    paths: tuple[Path, ...] | None

    def check(self, path: str) -> Path:
        if not path:
            raise LookupError("the reference has no path")
        wanted = Path(os.path.normpath(path))
        if self.paths is not None and not any(wanted.is_relative_to(allowed) for allowed in self.paths):
            raise LookupError(f"{path} is not within the provider's allowed.paths")
        return wanted


@dataclass(frozen=True, slots=True)
class FileProvider:
    """Kafka's FileConfigProvider: a key of a ``.properties`` file in UTF-8."""

    allowed: _AllowedPaths

    def get(self, path: str, key: str) -> str:
        """See `Provider.get`."""
        file = self.allowed.check(path)
        try:
            return parse_properties(file.read_text(encoding="utf-8"))[key]
        except KeyError:
            raise LookupError(f"{path} has no key {key}") from None
        except OSError as error:
            raise LookupError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:  # its text may repeat the file's
            raise LookupError(f"{path} is not a properties file in UTF-8") from error


@dataclass(frozen=True, slots=True)
class DirectoryProvider:
    """Kafka's DirectoryConfigProvider: the whole content of the file that bears the key's name, as in a mounted Secret."""

    allowed: _AllowedPaths

    def get(self, path: str, key: str) -> str:
        """See `Provider.get`."""
        directory = self.allowed.check(path)
        if not key or "/" in key or key in {".", ".."}:
            raise LookupError("the key is not a file's name")
        try:
            return (directory / key).read_text(encoding="utf-8")
        except OSError as error:
            raise LookupError(f"{path}/{key} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise LookupError(f"{path}/{key} is not text in UTF-8") from error


@dataclass(frozen=True, slots=True)
class EnvironmentProvider:
    """Kafka's EnvVarConfigProvider: a variable of the worker's environment, as it was when the worker started."""

    allowlist: JavaPattern
    environment: Mapping[str, str] = field(repr=False)

    def get(self, path: str, key: str) -> str:
        """See `Provider.get`."""
        if path:
            raise LookupError("a reference to an environment variable has no path")
        if not self.allowlist.fullmatch(key):
            raise LookupError(f"{key} is not within the provider's allowlist.pattern")
        try:
            return self.environment[key]
        except KeyError:
            raise LookupError(f"the environment has no {key}") from None


@dataclass(frozen=True, slots=True)
class ConfigProviders:
    """The providers of one worker, by name."""

    providers: Mapping[str, Provider] = field(default_factory=dict)

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        """`config` with values in place of references. References to providers that there are none of stay as they are.

        Raises:
            ConfigProviderError: a reference cannot be resolved; names option and reference.
        """
        return {name: self._value(name, value) if "${" in value else value for name, value in config.items()}

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """What `resolve` would refuse, by option."""
        found: dict[str, list[str]] = {}
        for name, value in config.items():
            try:
                self._value(name, value)
            except ConfigProviderError as error:
                found[name] = [str(error)]
        return found

    def references(self, config: Mapping[str, str]) -> dict[str, str]:
        """The references of a configuration that `resolve` takes, by what they give."""
        found: dict[str, str] = {}
        for name, value in config.items():
            for match in _REFERENCE.finditer(value):
                if match.group(1) in self.providers:
                    found[self._value(name, match.group())] = match.group()
        return found

    def missing(self, value: str) -> str | None:
        """The name of the provider that `value`, a lone reference, needs and this worker does not have."""
        match = _REFERENCE.fullmatch(value)
        return match.group(1) if match is not None and match.group(1) not in self.providers else None

    def _value(self, option: str, text: str) -> str:
        def value_of(match: re.Match[str]) -> str:
            provider = self.providers.get(match.group(1))
            if provider is None:
                return match.group()
            try:
                return provider.get(match.group(2) or "", match.group(3))
            except LookupError as error:
                raise ConfigProviderError(
                    f"{option}: {match.group()} cannot be resolved: {error.args[0]}",
                    option=option,
                    hint=f"look at {CONFIG_PROVIDERS}.{match.group(1)} in the worker's properties, and at what it reads",
                ) from None

        return _REFERENCE.sub(value_of, text)


def read_config_providers(
    properties: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> ConfigProviders:
    """The providers that a worker's properties name.

    Args:
        environment: what EnvVarConfigProvider gives; None: this process's environment.

    Raises:
        WorkerConfigError: a provider has no class, one that is not supported, or a wrong parameter; names the property.
    """
    found: dict[str, Provider] = {}
    names = [name.strip() for name in properties.get(CONFIG_PROVIDERS, "").split(",")]
    for name in filter(None, names):
        prefix = f"{CONFIG_PROVIDERS}.{name}."
        kind = properties.get(f"{prefix}class", "").strip()
        make = _MAKERS.get(kind.removeprefix(_PACKAGE))
        if make is None:
            raise WorkerConfigError(
                f"{prefix}class={kind or '(not set)'} is not supported",
                hint=f"{_PACKAGE}FileConfigProvider, DirectoryConfigProvider and EnvVarConfigProvider are",
            )
        start = f"{prefix}param."
        parameters = {n.removeprefix(start): v for n, v in properties.items() if n.startswith(start)}
        found[name] = make(start, parameters, dict(os.environ if environment is None else environment))
        if parameters:
            raise WorkerConfigError(f"{start}{min(parameters)} is not a parameter of {kind}")
    return ConfigProviders(found)


def is_provider_property(name: str, properties: Mapping[str, str]) -> bool:
    """Whether a worker property belongs to a provider that `read_config_providers` has read."""
    names = {part.strip() for part in properties.get(CONFIG_PROVIDERS, "").split(",")} - {""}
    return name == CONFIG_PROVIDERS or name.startswith(tuple(f"{CONFIG_PROVIDERS}.{n}." for n in names))


_Maker = Callable[[str, dict[str, str], Mapping[str, str]], Provider]
"""Makes a provider; takes the parameters that it knows out of the dictionary."""


def _allowed(prefix: str, parameters: dict[str, str]) -> _AllowedPaths:
    text = parameters.pop("allowed.paths", "")
    if not text:
        return _AllowedPaths(None)
    paths = [Path(os.path.normpath(part)) for part in text.split(",")]
    for path in paths:
        if not path.is_absolute() or not path.exists():
            raise WorkerConfigError(f"{prefix}allowed.paths: {path} is not absolute, or does not exist")
    return _AllowedPaths(tuple(paths))


def _environment(prefix: str, parameters: dict[str, str], environment: Mapping[str, str]) -> Provider:
    text = parameters.pop("allowlist.pattern", ".*")
    try:
        return EnvironmentProvider(compile_java(text, trusted=True), environment)
    except ValueError as error:
        raise WorkerConfigError(f"{prefix}allowlist.pattern is not a regular expression: {error}") from error


_MAKERS: Final[dict[str, _Maker]] = {
    "FileConfigProvider": lambda prefix, parameters, _environment: FileProvider(_allowed(prefix, parameters)),
    "DirectoryConfigProvider": lambda prefix, parameters, _environment: DirectoryProvider(
        _allowed(prefix, parameters)
    ),
    "EnvVarConfigProvider": _environment,
}
