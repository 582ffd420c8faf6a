"""Opens the schema registry as the environment says. No other module of this library reads the settings of services.

It needs the extra ``tidings-domain[registry]``; nothing else of the library does.
"""

from tidings_envelope.registry import RegistryClient
from tidings_service.registry_settings import RegistrySettings
from tidings_service.settings import load_settings


def open_registry(url: str | None) -> RegistryClient:
    """A client of the registry, to be closed by the caller.

    Args:
        url: None takes TIDINGS_REGISTRY; the login is in the environment in both cases.

    Raises:
        SettingsError: a setting is missing or wrong.
    """
    access = load_settings(RegistrySettings, **({"registry": url} if url else {})).registry_access
    return RegistryClient(access.url, **access.client_arguments())
