"""What an answer means for a request. Pure."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from tidings_sinks.http.settings import Settings

_MOST_SECONDS: Final = 3600.0
"""However long a receiver asks to be left alone: it is asked again after an hour."""


class Verdict(StrEnum):
    """What is done about an answer."""

    DONE = "done"
    RECORD = "record"
    """The record is a bad one."""
    RETRY = "retry"
    FAIL = "fail"
    """No record would be taken."""


def verdict(settings: Settings, status: int) -> Verdict:
    """What a status means: what stands in several lists is taken for the first."""
    if 200 <= status <= 299 or status in settings.done:
        return Verdict.DONE
    if status in settings.record:
        return Verdict.RECORD
    return Verdict.RETRY if status in settings.retry else Verdict.FAIL


def retry_after_seconds(text: str, now: datetime) -> float | None:
    """What ``Retry-After`` asks for (RFC 9110, 10.2.3): seconds or a date; None: it asks for nothing that can be read."""
    text = text.strip()
    if text.isdecimal() and text.isascii():
        return min(float(text), _MOST_SECONDS)
    try:
        then = parsedate_to_datetime(text)
    except ValueError:
        return None
    seconds = (then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds()
    return min(max(0.0, seconds), _MOST_SECONDS)
