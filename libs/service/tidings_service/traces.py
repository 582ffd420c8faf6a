"""Tracebacks that may leave the process: frames and types, and messages of our own errors only.

What other people's exceptions say may be a cell of somebody's row (``invalid literal for int() with base 10: '...'``), so
it is shown to nobody: not in logs, not over REST. The line that failed says enough to find out. Errors of our own name
settings and positions, never values, and keep their message.
"""

import errno
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def safe_trace(error: BaseException) -> str:
    """The traceback of an exception and of what caused it, as Python words them, without messages of others."""
    parts = []
    for one, link in _chain(error):
        if link:
            parts.append(link)
        parts.append("Traceback (most recent call last):\n")
        parts += traceback.format_tb(one.__traceback__)
        text = safe_message(one)
        parts.append(f"{_name(one)}{': ' if text else ''}{text}\n")
        if isinstance(one, BaseExceptionGroup):
            parts += [f"  in the group: {safe_trace(member)}" for member in one.exceptions]
    return "".join(parts)


def safe_message(error: BaseException) -> str:
    """What an exception says, if it is one of ours; of the system's the name of the number; else nothing."""
    if isinstance(getattr(error, "code", None), str) and hasattr(error, "retry") and hasattr(error, "hint"):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, "")
    return ""


def trace_entries(exc_info: ExcInfo) -> list[dict[str, Any]]:
    """For logs as JSON: an entry for each exception of the chain, in the words of structlog's own."""
    return [
        {
            "exc_type": _name(one),
            "exc_value": safe_message(one),
            "is_cause": link == _CAUSE,
            "frames": [
                {"filename": frame.filename, "lineno": frame.lineno, "name": frame.name}
                for frame in traceback.extract_tb(one.__traceback__)
            ],
            "exceptions": [
                trace_entries((type(member), member, member.__traceback__)) for member in _members(one)
            ],
        }
        for one, link in reversed(list(_chain(exc_info[1])))
    ]


_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def _chain(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """What came first, first; with the words that lead to each."""
    found: list[tuple[BaseException, str]] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        following, link = current.__cause__, _CAUSE
        if following is None and not current.__suppress_context__:
            following, link = current.__context__, _CONTEXT
        found.append((current, "" if following is None or id(following) in seen else link))
        current = following
    return reversed(found)


def _members(error: BaseException) -> tuple[BaseException, ...]:
    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
