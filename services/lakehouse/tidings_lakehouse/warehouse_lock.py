"""The lock that one job holds on a warehouse that is a directory."""

from __future__ import annotations

import fcntl
import time
from typing import IO

from tidings_lakehouse.settings import WarehouseSettings
from tidings_service import SettingsError

_LOCK_DEADLINE_SECONDS = 30.0


def lock_warehouse(settings: WarehouseSettings, seconds: float = _LOCK_DEADLINE_SECONDS) -> IO[bytes] | None:
    """Make sure that no other job writes to the warehouse, if it is a directory.

    The file stays locked until this process *and* its JVM, which inherits the descriptor, are gone: a JVM may still be
    ending a commit for a moment after its job was killed.

    Args:
        seconds: how long to wait for another job's end.

    Raises:
        SettingsError: another job has it.
    """
    directory = settings.warehouse_directory
    if directory is None:
        return None
    file = (directory / ".lock").open("ab")
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                file.close()
                raise SettingsError(
                    f"TIDINGS_LAKEHOUSE_WAREHOUSE: another job writes to {directory}",
                    hint="stop the other job, or give this one a warehouse of its own",
                ) from error
            time.sleep(0.2)
