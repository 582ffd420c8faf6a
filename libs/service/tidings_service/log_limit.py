"""Keeps a warning that repeats itself from filling the log: only so many of a kind in a minute, and how many were left out.

A kind is the logger, the level and the event's text; of a library's line the text without its numbers. What stands beside the
text (a position, a topic) is not part of it, but for the connector.
"""

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

_MINUTE_SECONDS = 60.0
_MOST_KINDS = 1_000
_MOST_CHARACTERS = 120
_NUMBERS = re.compile(r"\d+")

_Kind = tuple[str, int, str]


class _Minute:
    __slots__ = ("began", "left_out", "passed")

    def __init__(self, began: float) -> None:
        self.began = began
        self.passed = self.left_out = 0


class LogLimit(logging.Filter):
    """A filter for a handler, for warnings and errors.

    Args:
        handler: whose it is; gets a line about lines of a kind that were left out and do not come any more.
        most: lines of a kind in a minute.
        clock: seconds.
    """

    def __init__(
        self, handler: logging.Handler, most: int = 20, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._handler = handler
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._minutes: OrderedDict[_Kind, _Minute] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written; the first one after some that were not says how many, as ``suppressed``."""
        if record.levelno < logging.WARNING:
            return True
        kind, now = _kind_of(record), self._clock()
        with self._lock:
            minute = self._minutes.get(kind)
            if minute is None:
                minute = self._minutes[kind] = _Minute(now)
            left_out = 0
            if now - minute.began >= _MINUTE_SECONDS:
                left_out, self._minutes[kind] = minute.left_out, _Minute(now)
                minute = self._minutes[kind]
                self._minutes.move_to_end(kind)
            passes = minute.passed < self._most
            minute.passed += passes
            minute.left_out += not passes
            silent = self._ended(now)
        for other, count in silent:
            self._handler.emit(_summary(other, count))
        if left_out:
            _add(record, left_out)
        return passes

    def _ended(self, now: float) -> list[tuple[_Kind, int]]:
        """Forgets kinds whose minute is over, the oldest first; those of which lines were left out."""
        found = []
        while self._minutes:
            kind, minute = next(iter(self._minutes.items()))
            if now - minute.began < _MINUTE_SECONDS and len(self._minutes) < _MOST_KINDS:
                break
            del self._minutes[kind]
            if minute.left_out:
                found.append((kind, minute.left_out))
        return found


def _kind_of(record: logging.LogRecord) -> _Kind:
    if isinstance(record.msg, dict):  # structlog's
        text = f"{record.msg.get('event')} {record.msg.get('connector', '')}"
    else:
        text = _NUMBERS.sub("0", record.getMessage())
    return record.name, record.levelno, text[:_MOST_CHARACTERS]


def _add(record: logging.LogRecord, left_out: int) -> None:
    if isinstance(record.msg, dict):
        record.msg = {**record.msg, "suppressed": left_out}
    else:
        record.msg, record.args = f"{record.getMessage()} (suppressed before: {left_out})", ()


def _summary(kind: _Kind, left_out: int) -> logging.LogRecord:
    name, level, text = kind
    message: Any = f"lines were left out: {text.strip()} (suppressed: {left_out})"
    return logging.LogRecord(name, level, __file__, 0, message, (), None)
