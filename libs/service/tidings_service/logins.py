"""Whether the brokers refuse this process's login: clients say so here, and readiness, a metric and the log tell it.

A client that brokers refuse goes on trying, and is refused again about once a second; librdkafka tells the same error of
one broker only every 30 seconds. So what is not repeated for longer than that is over: the login works again, or nobody
tries it. And what is heard in one moment only may be old: a client tells what has happened to it when it is next asked for
something, all at once.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from tidings_service.health import Health
from tidings_service.logs import get_logger

_HOLDS_SECONDS: Final = 45.0
"""Longer than librdkafka keeps a repeated error to itself (30 seconds, `rd_kafka_broker_set_error`)."""
_REPEATED_SECONDS: Final = 1.0
"""So long it is repeated before it counts."""
_lock = threading.Lock()
_said: str | None = None
_since = _heard_at = 0.0
_told = False
log = get_logger(__name__)


def note_refusal(who: str, why: str, settings: str) -> None:
    """A broker has refused a login; once for as long as it lasts it is an error in the log.

    Args:
        who: the principal.
        why: the broker's words.
        settings: which the login comes from.
    """
    global _said, _since, _heard_at, _told  # noqa: PLW0603 - a process has one login
    with _lock:
        now = time.monotonic()
        if _said is None or now - _heard_at > _HOLDS_SECONDS:
            _since, _told = now, False
        _said, _heard_at = f"the brokers refuse {who}: {why}; {settings}", now
        tell = not _told and _standing() is not None
        _told = _told or tell
    if tell:
        log.error("the brokers refuse the login", user=who, reason=why, hint=f"check {settings}")


def forget_refusal() -> None:
    """There is another password: what was said is about the old one."""
    global _said  # noqa: PLW0603
    with _lock:
        _said = None


def refusal() -> str | None:
    """What the brokers have against the login, as a sentence; None when they have nothing, as far as is known."""
    with _lock:
        return _standing()


def show_login(health: Health) -> None:
    """Have readiness say whether the brokers refuse the login."""
    why = refusal()
    health.set("login", why is None, why or "")


def refused_since(moment: float) -> bool:
    """Whether a client has told of a refusal after `moment` (`time.monotonic`)."""
    with _lock:
        return _heard_at > moment


def _standing() -> str | None:
    if time.monotonic() - _heard_at > _HOLDS_SECONDS or _heard_at - _since < _REPEATED_SECONDS:
        return None
    return _said
