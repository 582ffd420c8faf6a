"""Tells clients that live long when a secret's file has changed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tidings_service.errors import TidingsError
from tidings_service.logs import get_logger
from tidings_service.secret import Secret

LOOK_SECONDS: Final = 2.0
T = TypeVar("T")
log = get_logger(__name__)


@dataclass(slots=True)
class _Follower:
    secret: Secret
    known: str
    apply: Callable[[Any, str], None]
    unreadable: bool = False


_followers: weakref.WeakKeyDictionary[Any, _Follower] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_started = False


def follow(secret: Secret | None, client: T, apply: Callable[[T, str], None]) -> None:
    """From now on call `apply(client, value)` in a thread whenever the file of `secret` has changed, while `client` lives.

    Without a secret, or with one that stands in the environment, there is nothing to follow.
    """
    global _started  # noqa: PLW0603 - one thread a process, which starts when somebody needs it
    if secret is None or secret.file is None:
        return
    with _lock:
        _followers[client] = _Follower(secret, secret.read(), apply)
        if not _started:
            _started = True
            threading.Thread(target=_look, name="secrets", daemon=True).start()


def unfollow(client: object) -> None:
    """The client is closed."""
    with _lock:
        _followers.pop(client, None)


def _look() -> None:
    pause = threading.Event()
    while not pause.wait(LOOK_SECONDS):
        with _lock:
            changed = {
                follower.secret.setting
                for client, follower in list(_followers.items())
                if _look_at(client, follower)
            }
        for setting in sorted(changed):
            log.info("a secret has changed; it is used from the next connection on", setting=setting)


def _look_at(client: Any, follower: _Follower) -> bool:
    """Whether it has changed. The lock is held, so that nobody closes the client meanwhile."""
    try:
        value = follower.secret.read()
        if value == follower.known:
            return False
        follower.apply(client, value)
    except TidingsError as error:  # it may be being replaced this moment: it is looked at again
        if not follower.unreadable:
            log.warning("a secret cannot be read anew; the one that is known stays", error=str(error))
        follower.unreadable = True
        return False
    follower.known, follower.unreadable = value, False
    return True
