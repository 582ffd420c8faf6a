"""A session that is kept between statements that are far apart: a task's incremental snapshots, and what its heartbeats do."""

import time
from typing import Final

from tidings_capture.mysql.client import Endpoint, Session

_IDLE_SECONDS: Final = 60.0
"""After so long without a statement another connection is made: the server, or what stands between, may have ended this one."""


class KeptSession:
    """Opened when it is first needed. All methods raise `MariaDbError`."""

    _begins: str | None = None
    """A statement of each new connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session: Session | None = None
        self._used = 0.0

    def get(self) -> Session:
        """The session."""
        now = time.monotonic()
        if self._session is not None and now - self._used > _IDLE_SECONDS:
            self.close()
        if self._session is None:
            made = Session(self._endpoint)
            try:
                if self._begins is not None:
                    made.rows(self._begins)
            except BaseException:
                made.close()
                raise
            self._session = made
        self._used = now
        return self._session

    def close(self) -> None:
        """Close it; who asks for it next gets a new one."""
        if self._session is not None:
            self._session.close()
            self._session = None


class ChunkSession(KeptSession):
    """Repeatable reads, as a snapshot needs them."""

    _begins = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
