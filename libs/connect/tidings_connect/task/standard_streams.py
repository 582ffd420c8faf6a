"""The worker's standard input and output, for a connector that reads or writes them. A task's own are its channel to the worker."""

import os
from typing import Final

_INPUT: Final = 0
_OUTPUT: Final = 1
_kept: dict[int, int] = {}


def keep() -> None:
    """Called in a task's process before it gets its channel: the worker's streams stay open under other numbers."""
    for standard in (_INPUT, _OUTPUT):
        _kept[standard] = os.dup(standard)


def worker_input() -> int:
    """The descriptor of the worker's standard input."""
    return _kept.get(_INPUT, _INPUT)


def worker_output() -> int:
    """The descriptor of the worker's standard output."""
    return _kept.get(_OUTPUT, _OUTPUT)
