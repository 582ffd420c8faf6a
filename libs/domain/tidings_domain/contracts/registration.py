"""Registers the contracts of events in the schema registry."""

from typing import Any, Protocol

from tidings_domain.errors import TranslatorError

COMPATIBILITY = "FULL_TRANSITIVE"
"""Within a major version every reader reads every event."""


class SchemaRegistry(Protocol):
    """What is needed of `tidings_envelope.registry.RegistryClient`."""

    def register(self, subject: str, schema: dict[str, Any] | str) -> int:
        """Register a schema, or find it; its id."""

    def set_compatibility(self, subject: str | None, level: str) -> None:
        """Set a subject's compatibility level."""


def register_event(registry: SchemaRegistry, subject: str, schema: dict[str, Any]) -> int:
    """Register a contract's schema under its subject, which is kept FULL_TRANSITIVE; its id.

    Raises:
        RegistryError: not reachable, or refused.
    """
    schema_id = registry.register(subject, schema)
    registry.set_compatibility(subject, COMPATIBILITY)
    return schema_id


class OpenRegistry(SchemaRegistry, Protocol):
    """What the commands need of `tidings_envelope.registry.RegistryClient`; a context manager."""

    def subjects(self) -> list[str]:
        """The names of all subjects."""

    def latest(self, subject: str) -> tuple[int, Any]:
        """Id and parsed schema of a subject's latest version."""

    def close(self) -> None:
        """Close the connections."""


def open_registry(url: str | None) -> OpenRegistry:
    """The registry as the environment says; to be closed by the caller.

    Args:
        url: None takes TIDINGS_REGISTRY; the login is in the environment in both cases.

    Raises:
        SettingsError: a setting is missing or wrong.
        TranslatorError: what the extra ``registry`` brings is not installed.
    """
    try:
        from tidings_domain.contracts import registry  # noqa: PLC0415 - it needs an extra
    except ImportError as error:
        raise TranslatorError(
            f"the registry's client is not installed: there is no module {error.name}",
            hint="pip install 'tidings-domain[registry]'",
        ) from error
    return registry.open_registry(url)
