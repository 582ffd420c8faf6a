"""Notices that a server has gone without a word: a firewall or a proxy may forget a connection and tell neither side.

The server's own keepalives come in half of its ``wal_sender_timeout``, which may be off; so a silent server is asked, and
only when it does not answer either, the connection counts as lost. (PostgreSQL's own ``wal_receiver_timeout`` works alike.)
Pure: times are the caller's.
"""

from tidings_capture.postgres.errors import PostgresError


class IdleTimeout:
    """Of one replication connection.

    Args:
        timeout_seconds: how long the server may be silent in all; 0: for ever.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._half = timeout_seconds / 2
        self._asked: float | None = None

    def question_due(self, now: float, last_heard: float) -> bool:
        """Whether the server is to be asked now; the times are of one monotonic clock.

        Raises:
            PostgresError: it was asked and has not answered; a retry can cure it.
        """
        if not self._half or now - last_heard < self._half:
            self._asked = None
            return False
        if self._asked is None:
            # Asked before it is blamed, however long ago that was: this process may have been the one that slept.
            self._asked = now
            return True
        if now - self._asked < self._half:
            return False
        raise PostgresError(
            f"the server has not been heard for {now - last_heard:.0f} seconds, and does not answer on the replication "
            "connection (tidings.receive.timeout.ms)",
            hint="a firewall or a proxy between the two may drop connections",
        )
