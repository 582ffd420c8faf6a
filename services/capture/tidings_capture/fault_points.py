"""Named points of the way from the server to Kafka and back, at which a test may end the process.

Off unless ``TIDINGS_FAULT_POINTS`` names a file when the process starts; then `reached` is one look at a variable. While
that file exists and says ``<point> <action> <skip>``, the process acts when it has passed the point `skip` times: ``kill``
is SIGKILL, ``freeze`` SIGSTOP. The file is removed before, so that it happens once, whatever process it happens to; whoever
wrote it sees that it has happened. Points lie between steps whose order is what keeps a crash harmless (`checkpoint`).
"""

import os
import signal
from pathlib import Path
from typing import Final

POINTS: Final[dict[str, str]] = {
    "slot.created": "the slot is there, no offset has been stored",
    "snapshot.begun": "an unfinished snapshot has been stored, no row has been sent",
    "snapshot.rows": "rows of a table have been sent",
    "snapshot.table": "the last row of a table has been sent",
    "snapshot.sent": "every row has been sent, the offset that ends the snapshot is not stored",
    "window.read": "a chunk of an incremental snapshot has been read",
    "window.sent": "its rows have been sent",
    "batch.sent": "a batch of changes has been queued for Kafka",
    "records.acknowledged": "Kafka has acknowledged all records, the offset is not written (not in exactly once)",
    "offset.written": "the offset is queued for Kafka; exactly once: the transaction is not committed",
    "offset.stored": "Kafka has acknowledged the offset or the transaction, the slot is not confirmed",
    "slot.confirmed": "the server has been told",
    "config.connector": "a connector's configuration is stored, its task's is not",
    "config.task": "both are, the record that commits them is not",
}
"""All points, and what is true there."""

_ACTIONS: Final = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}
_FILE: Final = os.environ.get("TIDINGS_FAULT_POINTS") or None


def reached(point: str) -> None:
    """The process is at a point; `point` is one of `POINTS`."""
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
