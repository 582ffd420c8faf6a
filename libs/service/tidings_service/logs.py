"""Logs of a service: structlog, one line an event, on standard error.

JSON by default, readable on a terminal. Records of the standard library's loggers (aiohttp, faust, py4j) pass through
the same processors, so that every line of a service has one form. Values of cells, passwords and payloads are never
given to a logger; `hide` takes known secrets out of every line all the same.
"""

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

# structlog loads rich where it finds it, for tracebacks that are not wanted here (they show the variables of each frame):
# a quarter of the time that a task's process needs to start.
_rich: Any = sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
import structlog  # noqa: E402

from tidings_service.traces import ExcInfo, safe_trace, trace_entries  # noqa: E402

if _rich is None:
    del sys.modules["rich"]

from tidings_service.log_limit import LogLimit  # noqa: E402

LogFormat = Literal["auto", "json", "console"]

_processors: list[structlog.types.Processor] = []
"""One list for the life of the process: a logger keeps the list that it was first used with, so a new one would not reach it
(nor would `structlog.testing.capture_logs`, which changes the list that is configured)."""


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
    _processors[:] = [
        structlog.stdlib.filter_by_level,
        *shared,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ]
    structlog.configure(
        processors=_processors,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last: list[structlog.types.Processor] = (
        [
            _without_secrets,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                exception_formatter=_write_trace,
            ),
        ]
        if readable
        else [
            _service_name(service),
            # Neither renderer may show the local variables of a frame, nor what others' exceptions say: both hold rows.
            structlog.processors.ExceptionRenderer(trace_entries),
            _without_secrets,
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


_HIDDEN_FROM = 4
"""Shorter texts stand in too many words."""
_NEVER_SECRET = frozenset({"service", "level", "logger", "timestamp", "code", "connector"})
"""Fields of a line that hold our own words, which a weak password may be one of."""


class _Hider:
    """Puts something else in place of secrets, where they stand as words of their own."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        found = {secret.strip(): shown for secret, shown in secrets.items()}
        self.shown = {secret: shown for secret, shown in found.items() if len(secret) >= _HIDDEN_FROM}
        ordered = sorted(self.shown, key=len, reverse=True)
        self._pattern = re.compile("|".join(_as_word(secret) for secret in ordered)) if ordered else None

    @property
    def idle(self) -> bool:
        """Whether there is nothing to hide."""
        return self._pattern is None

    def __call__(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self.shown[match.group()], text)


def _as_word(secret: str) -> str:
    before = r"(?<![A-Za-z0-9_])" if secret[0].isalnum() else ""
    after = r"(?![A-Za-z0-9_])" if secret[-1].isalnum() else ""
    return before + re.escape(secret) + after


_hiders = [_Hider({})]
"""The one of this process."""


def hide(secrets: Mapping[str, str]) -> None:
    """From now on every line of this process's log shows something else in place of secrets.

    Args:
        secrets: what to show, by secret; those of fewer than four characters cannot be told from other text.
    """
    _hiders[0] = _Hider(secrets)


def hide_also(secrets: Mapping[str, str]) -> None:
    """As `hide`, and what was hidden until now stays so."""
    _hiders[0] = _Hider({**_hiders[0].shown, **secrets})


def without_secrets(text: str, secrets: Mapping[str, str] | None = None) -> str:
    """A text with something else in place of secrets; without `secrets` those that `hide` was given."""
    return (_hiders[0] if secrets is None else _Hider(secrets))(text)


def _write_trace(file: TextIO, info: ExcInfo) -> None:
    file.write("\n" + without_secrets(safe_trace(info[1])))


def _without_secrets(
    _logger: Any, _method: str, event: structlog.types.EventDict
) -> structlog.types.EventDict:
    if _hiders[0].idle:
        return event
    for name, value in event.items():
        if name not in _NEVER_SECRET:
            event[name] = _cleaned(value)
    return event


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {name: _cleaned(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_cleaned(part) for part in value]
    return value


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger for one module or concern: ``log.info("snapshot finished", table=..., rows=...)``."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def _service_name(service: str) -> structlog.types.Processor:
    def add(_logger: Any, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
        return {"service": service, **event}

    return add
