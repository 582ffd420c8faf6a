"""A copy of the warehouse that readers open: it takes the former one's place when it is whole, and is never written to.

A process that has the former one open reads on in it. Whoever copies holds the warehouse's lock, and DuckDB's of readers, so
that no other process writes meanwhile.
"""

import fcntl
import os
import shutil
from pathlib import Path

from tidings_envelope.fault_points import reached
from tidings_service import Retry
from tidings_sinks.errors import BusyError, TargetError


def copy_warehouse(file: Path, snapshot: Path) -> None:
    """Copy it.

    Raises:
        BusyError: another process has it open for writing.
        TargetError: the snapshot cannot be written.
    """
    made = snapshot.with_name(f".{snapshot.name}.part")
    try:
        with file.open("rb") as source:
            try:
                fcntl.lockf(source, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                raise BusyError("another process has the warehouse's file open") from None
            with made.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.flush()
                os.fsync(target.fileno())
        reached("warehouse.copied")
        made.replace(snapshot)
    except OSError as error:
        raise TargetError(
            f"the snapshot of the warehouse cannot be written: {error.strerror}",
            hint="see to the directory of tidings.snapshot.file and its space",
            retry=Retry.TIMED,
        ) from None
