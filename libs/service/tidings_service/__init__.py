"""What every Tidings service does the same way: settings, logs, health, metrics, signals, errors.

The HTTP server and the settings are loaded when they are first used: capture's task processes need neither, and start
in half the time and memory without them.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from tidings_service.errors import Retry, SettingsError, TidingsError, print_error
from tidings_service.health import ComponentHealth, Health
from tidings_service.logs import configure_logging, get_logger, hide, hide_also, without_secrets
from tidings_service.traces import safe_trace

if TYPE_CHECKING:
    from tidings_service.http import (
        HttpServer,
        add_observability,
        serve_application,
        serve_http,
        serve_http_in_thread,
    )
    from tidings_service.runner import report_error, run_service, stacks_on_signal
    from tidings_service.settings import ServiceSettings, load_settings

_LATER: Final = {
    "HttpServer": "http",
    "add_observability": "http",
    "serve_application": "http",
    "serve_http": "http",
    "serve_http_in_thread": "http",
    "report_error": "runner",
    "run_service": "runner",
    "stacks_on_signal": "runner",
    "ServiceSettings": "settings",
    "load_settings": "settings",
}

__all__ = [
    "ComponentHealth",
    "Health",
    "HttpServer",
    "Retry",
    "ServiceSettings",
    "SettingsError",
    "TidingsError",
    "add_observability",
    "configure_logging",
    "get_logger",
    "hide",
    "hide_also",
    "load_settings",
    "print_error",
    "report_error",
    "run_service",
    "safe_trace",
    "serve_application",
    "serve_http",
    "serve_http_in_thread",
    "stacks_on_signal",
    "without_secrets",
]


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
