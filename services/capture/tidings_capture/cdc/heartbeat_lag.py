"""The heartbeat's round trip: how long until the stream has reached where the database's log ended at the heartbeat.

That is what a change committed at that moment would take to get here, on an idle database too, where the age of the last
change says nothing.
"""

import time


class HeartbeatLag:
    """Measures one heartbeat at a time; seconds."""

    def __init__(self) -> None:
        self._position: int | None = None
        self._began = 0.0
        self.seconds: float | None = None
        """The last one's; None before the first."""

    @property
    def waiting(self) -> bool:
        """Whether a heartbeat is under way."""
        return self._position is not None

    @property
    def pending_seconds(self) -> float:
        """How long the heartbeat that is under way has been; 0 while none is."""
        return 0.0 if self._position is None else time.monotonic() - self._began

    def begin(self, position: int) -> None:
        """A heartbeat, with the end of the database's log."""
        self._position, self._began = position, time.monotonic()

    def reached(self, position: int) -> None:
        """The stream has come up to here."""
        if self._position is not None and position >= self._position:
            self.seconds, self._position = time.monotonic() - self._began, None

    def forget(self) -> None:
        """The stream ended."""
        self._position = None
