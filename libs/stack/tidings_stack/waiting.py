"""Waiting for what real servers do: on a condition, with a deadline, never for a time."""

import time
from collections.abc import Callable
from typing import Any

_LOOK_AGAIN_SECONDS = 0.02


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    """The first true value of `condition`.

    Raises:
        AssertionError: there was none within `seconds`; says `what` was waited for.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for {what}")
        time.sleep(_LOOK_AGAIN_SECONDS)
    return value
