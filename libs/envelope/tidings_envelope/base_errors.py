"""The base error of every part of Tidings; it stands here because this library is below all others.

An error says three things to the people on call: what happened (the message, which names a setting or a position and
never holds a cell value or a password), whether trying again can help (`retry`), and what to do (`hint`). Adapters
translate a vendor's exception with ``raise ... from``; only a service's runner reads `retry`.
"""

import sys
from enum import StrEnum
from typing import ClassVar


class Retry(StrEnum):
    """Whether trying the same thing again can succeed."""

    TIMED = "timed"
    """Yes, after a pause: a server is away, a connection was cut."""
    MANUAL = "manual"
    """Only after a person has changed something. What is not known is manual."""
    NEVER = "never"
    """No: the input itself is wrong."""


class TidingsError(Exception):
    """Something went wrong that Tidings can name.

    Args:
        message: one line for a person; names the setting or the record's position, holds no data.
        hint: what a person can do about it.
        retry: overrides the class's `default_retry`.
    """

    code: ClassVar[str] = "tidings"
    """A short stable word for metrics and alerts."""
    default_retry: ClassVar[Retry] = Retry.MANUAL

    def __init__(self, message: str, *, hint: str | None = None, retry: Retry | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.retry = self.default_retry if retry is None else retry


class SettingsError(TidingsError):
    """A setting is missing or has a value that cannot be used; the message names it."""

    code = "settings"
    default_retry = Retry.NEVER


def print_error(error: Exception) -> int:
    """Tell a person at a terminal of a named error, in two lines at most; gives the exit code that belongs to it.

    Args:
        error: a `TidingsError`, or another named error that may have a ``hint``.
    """
    hint = getattr(error, "hint", None)
    sys.stderr.write(f"error: {error}\n" + (f"hint: {hint}\n" if hint else ""))
    return 2 if isinstance(error, SettingsError) else 1
