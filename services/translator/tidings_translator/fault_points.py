"""Named points of a stage's way from the consumer to the committed transaction, at which a test may end the process.

Off unless ``TIDINGS_FAULT_POINTS`` names a file when the process starts; then `reached` is one look at a variable. While
that file exists and says ``<point> <action> <skip>``, the process acts when it has passed the point `skip` times: ``kill``
is SIGKILL, ``freeze`` SIGSTOP. The file is removed before, so that it happens once. Points lie between steps whose order
is what keeps a crash harmless; capture has points and a file of its own.
"""

import os
import signal
from pathlib import Path
from typing import Final

POINTS: Final[dict[str, str]] = {
    "assigned": "partitions were given to this process, nothing has been restored",
    "restored": "state and positions are restored, no predecessor can commit any more",
    "batch.handled": "a batch's outputs wait for the next transaction",
    "transaction.begun": "a Kafka transaction is open and empty",
    "outputs.produced": "outputs and state are queued for Kafka, the offsets are not in the transaction",
    "offsets.sent": "everything is in the transaction, which is not committed",
    "transaction.committed": "it is committed, and nobody in this process knows",
    "part.added": "a part of a transaction that is on disk waits for the next Kafka transaction (sequencer)",
    "revoked": "partitions are about to be given up, what is pending is not committed",
    "drained": "it is committed, the partitions are not given up",
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
