"""Whether readers see what the log has told."""

import time
from typing import Final

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.flavours.flavour import Flavour
from tidings_capture.mysql.streaming.observers import Streamed

_PAUSE_SECONDS: Final = 0.01
_PATIENCE_SECONDS: Final = 0.2
"""So long the stream stands still for readers; then it goes on, and they are asked again."""


def wait_until_seen(session: Session, flavour: Flavour, streamed: Streamed) -> bool:
    """Wait a moment until a reader sees what the stream has shown; whether it does. A transaction is in the log, and sent to
    replicas, before others see what it did: for as long as a semi-synchronous replica does not answer.

    Args:
        session: with repeatable reads.

    Raises:
        MariaDbError: the server cannot be asked, or does not say.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while not flavour.sees(session, streamed):
        if time.monotonic() >= until:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True
