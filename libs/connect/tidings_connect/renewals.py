"""Passwords that have changed while this process runs: who asks with the one he was given gets the newest.

Settings are read once and handed around, to the tasks' processes too; they hold the password as it was then.
"""

import threading
from typing import Final

import msgspec

KAFKA: Final = "kafka"
REGISTRY: Final = "registry"


class Renewal(msgspec.Struct, frozen=True):
    """A user's password has changed."""

    kind: str
    """Whose login it is: `KAFKA` or `REGISTRY`."""
    user: str
    old: str
    new: str

    def __repr__(self) -> str:
        return f"Renewal({self.kind!r}, {self.user!r})"


_newest: dict[tuple[str, str, str], str] = {}
_lock = threading.Lock()


def note(renewal: Renewal) -> None:
    """From now on `newest` tells the new password."""
    kind, user, old, new = renewal.kind, renewal.user, renewal.old, renewal.new
    with _lock:
        former = [key for key, value in _newest.items() if key[:2] == (kind, user) and value == old]
        # One entry for each that settings hold, however often it changes.
        for key in former or [(kind, user, old)]:
            _newest[key] = new


def known() -> list[Renewal]:
    """What every password that settings may hold has become."""
    with _lock:
        return [Renewal(*key, new) for key, new in _newest.items()]


def newest(kind: str, user: str, password: str) -> str:
    """The password of `user` that `password` has become."""
    with _lock:
        return _newest.get((kind, user, password), password)
