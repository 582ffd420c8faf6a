"""Named points of a service's way with its data, at which a test may end the process.

Off unless ``TIDINGS_FAULT_POINTS`` names a file when the process starts; then `reached` is one look at a variable. While
that file exists and says ``<point> <action> <skip>``, the process acts when it has passed the point `skip` times: ``kill``
is SIGKILL, ``freeze`` SIGSTOP. The file is removed before, so that it happens once, whatever process it happens to; whoever
wrote it sees that it has happened. Each service has a module that says which points it has, and what is true there.
Tests that run a task in their own process hear of points with `watched` instead.

A job that is started for one run takes its point by `failpoint_from`: it ends when it passes the point for the n-th time.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ACTIONS: Final = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}
_FILE: Final = os.environ.get("TIDINGS_FAULT_POINTS") or None
_watchers: list[Callable[[str], None]] = []


def reached(point: str) -> None:
    """The process is at a point; `point` is one of its service's."""
    if _FILE is not None:
        _act(Path(_FILE), point)
    for watcher in _watchers:
        watcher(point)


@contextmanager
def watched(watcher: Callable[[str], None]) -> Iterator[None]:
    """Let a test hear of every point that this process passes, in whatever thread; it may raise there."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def _act(file: Path, point: str) -> None:
    try:
        wanted, action, skip = file.read_text(encoding="ascii").split()
    except (FileNotFoundError, ValueError):
        return  # nothing is asked for, or it is just being written
    if wanted != point:
        return
    if int(skip) > 0:
        file.write_text(f"{wanted} {action} {int(skip) - 1}", encoding="ascii")
        return
    file.unlink(missing_ok=True)
    os.kill(os.getpid(), _ACTIONS[action])


Failpoint = Callable[[str], None]


def never(_point: str) -> None:
    """No failpoint is set."""


def failpoint_from(setting: str) -> Failpoint:
    """The function to call at every point; `setting` is ``<point>:<n>`` or empty."""
    if not setting:
        return never
    wanted, _, count = setting.rpartition(":")
    remaining = int(count)

    def pass_point(point: str) -> None:
        nonlocal remaining
        if point == wanted:
            remaining -= 1
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return pass_point
