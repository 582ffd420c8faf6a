"""Logs of a service: structlog, one line an event, on standard error.

JSON by default, readable on a terminal. Records of the standard library's loggers (aiohttp, faust, py4j) pass through
the same processors, so that every line of a service has one form. Values of cells, passwords and payloads are never
given to a logger.
"""

import logging
import sys
from typing import Any, Literal

# structlog loads rich where it finds it, for tracebacks that are not wanted here (they show the variables of each frame):
# a quarter of the time that a task's process needs to start.
_rich: Any = sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
import structlog  # noqa: E402

if _rich is None:
    del sys.modules["rich"]

from tidings_service.log_limit import LogLimit  # noqa: E402

LogFormat = Literal["auto", "json", "console"]


def configure_logging(
    service: str,
    *,
    level: str = "INFO",
    format: LogFormat = "auto",  # noqa: A002 - the setting's own name
    build_info: bool = True,
) -> None:
    """Send the logs of this process to standard error, every line with the `service` name.

    May be called again; the last call counts.

    Args:
        build_info: also set the metric ``tidings_build_info``; not for a process whose metrics nobody reads, which then
            need not load Prometheus's library.
    """
    if build_info:
        from tidings_service.build_info import publish  # noqa: PLC0415 - only where it is wanted

        publish(service)

    readable = format == "console" or (format == "auto" and sys.stderr.isatty())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last: list[structlog.types.Processor] = (
        [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
        if readable
        else [
            _service_name(service),
            # Neither renderer may show the local variables of a frame, which hold rows and passwords.
            structlog.processors.ExceptionRenderer(
                structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
            ),
            structlog.processors.JSONRenderer(),
        ]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    handler.addFilter(LogLimit(handler))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # A line per request to the registry says nothing that its errors don't.
    logging.getLogger("httpx").setLevel(max(logging.WARNING, root.level))


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger for one module or concern: ``log.info("snapshot finished", table=..., rows=...)``."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def _service_name(service: str) -> structlog.types.Processor:
    def add(_logger: Any, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
        return {"service": service, **event}

    return add
