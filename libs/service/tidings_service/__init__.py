"""What every Tidings service does the same way: settings, logs, health, metrics, signals, errors."""

from tidings_service.errors import Retry, SettingsError, TidingsError
from tidings_service.health import ComponentHealth, Health
from tidings_service.http import (
    HttpServer,
    add_observability,
    serve_application,
    serve_http,
    serve_http_in_thread,
)
from tidings_service.logs import configure_logging, get_logger
from tidings_service.runner import report_error, run_service
from tidings_service.settings import ServiceSettings, load_settings

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
    "load_settings",
    "report_error",
    "run_service",
    "serve_application",
    "serve_http",
    "serve_http_in_thread",
]
