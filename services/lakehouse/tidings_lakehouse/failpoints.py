"""Named points at which a test can kill the job, to prove that a crash there loses and duplicates nothing.

``TIDINGS_FAILPOINT=<point>:<n>`` ends the process with SIGKILL when it passes the point for the n-th time. Without the
variable a point costs one comparison. The points stand behind every write: `raw.stats`, `log:<table>`, `deleted`,
`current:<table>`, `quarantine`, `watermark`, `event:<table>`, `batch:<stream>`.
"""

import os
import signal
from collections.abc import Callable

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
