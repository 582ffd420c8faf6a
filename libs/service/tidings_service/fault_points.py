"""Named points of a service's way with its data, at which a test may end the process.

Off unless ``TIDINGS_FAULT_POINTS`` names a file when the process starts; then `reached` is one look at a variable. While
that file exists and says ``<point> <action> <skip>``, the process acts when it has passed the point `skip` times: ``kill``
is SIGKILL, ``freeze`` SIGSTOP. The file is removed before, so that it happens once, whatever process it happens to; whoever
wrote it sees that it has happened. Each service has a module that says which points it has, and what is true there.
"""

import os
import signal
from pathlib import Path
from typing import Final

_ACTIONS: Final = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}
_FILE: Final = os.environ.get("TIDINGS_FAULT_POINTS") or None


def reached(point: str) -> None:
    """The process is at a point; `point` is one of its service's."""
    if _FILE is not None:
        _act(Path(_FILE), point)


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
