"""Waiting for what real servers do: on a condition, with a deadline, never for a time."""

import time
from collections.abc import Callable
from typing import Any

_LOOK_AGAIN_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.5
_LATER_SECONDS = 0.15


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    """The first true value of `condition`.

    Raises:
        AssertionError: there was none within `seconds`; says `what` was waited for.
    """
    start = time.monotonic()
    began = time.thread_time()
    while not (value := condition()):
        waited = time.monotonic() - start
        if waited > seconds:
            raise AssertionError(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause_after(time.thread_time() - began, waited))
        began = time.thread_time()
    return value


def pause_after(looked: float, waited: float, shortest: float = _LOOK_AGAIN_SECONDS) -> float:
    """How long to wait before looking again, in seconds.

    Twice the CPU time of the last look and a twentieth of the time since the first one, within limits: who asks again and
    again without a pause takes the processor from what is waited for, and a look costs the server that is asked as much.
    """
    return max(shortest, min(2 * looked, _LONGEST_PAUSE_SECONDS), min(waited / 20, _LATER_SECONDS))
