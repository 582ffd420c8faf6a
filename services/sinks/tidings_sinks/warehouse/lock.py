"""One task at a time has the warehouse: a lock on a file beside it, for which tasks wait, in whatever process of the machine."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tidings_connect.task.sink import RetriableError
from tidings_sinks.errors import TargetError

_LONGEST_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.02


@contextmanager
def locked(file: Path, longest_seconds: float = _LONGEST_SECONDS) -> Iterator[None]:
    """Hold the lock of a warehouse.

    Raises:
        RetriableError: others have held it for too long.
        TargetError: the directory is missing, or not to be written to.
    """
    try:
        descriptor = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise TargetError(
            f"the directory of the warehouse cannot be used: {error.strerror}",
            hint="make the directory of connection.url, and let the worker write to it",
        ) from None
    try:
        until = time.monotonic() + longest_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise RetriableError("other tasks hold the warehouse's file") from None
                time.sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(descriptor)
