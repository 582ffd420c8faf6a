"""What stands between a connector and its PostgreSQL: poolers, and proxies that end what is silent."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tidings_capture.postgres.client import Endpoint, Replication, Session
from tidings_capture.postgres.errors import PostgresError
from tidings_cli.doctor.findings import Finding, error, warning

_PLACE: Final = "database"
_ANSWER_SECONDS: Final = 10.0
_POOLED: Final = "a pooler lends a session for a transaction: snapshots and streams need one of their own"
_DIRECT: Final = (
    "database.hostname and database.port of PostgreSQL itself, or of a proxy that passes bytes on"
)


def unreachable(problem: PostgresError) -> Finding:
    """Why no session was to be had."""
    if "unsupported startup parameter" in str(problem):
        return error(_PLACE, "pooler", f"{problem}: a pooler answers there", _POOLED, _DIRECT)
    return error(
        _PLACE, "unreachable", str(problem), "nothing can be captured", problem.hint or "see the message"
    )


def look_at_pooler(session: Session) -> Iterator[Finding]:
    """Whether somebody else than PostgreSQL answers: the process that greets is not the one that works."""
    if int(session.value("SELECT pg_backend_pid()")) != session.pid:
        yield error(
            _PLACE, "pooler", "a pooler answers in PostgreSQL's place: its process is another than the session's", _POOLED, _DIRECT
        )  # fmt: skip


def look_at_stream(endpoint: Endpoint) -> Iterator[Finding]:
    """Whether a WAL sender can be had; it is asked who it is, and let go."""
    try:
        sender = Replication(endpoint)
        try:
            sender.identify()
        finally:
            sender.close()
    except PostgresError as problem:
        yield error(
            _PLACE, "stream-refused", f"no replication connection: {problem}", "the connector is refused the stream",
            problem.hint or f"allow the role in pg_hba.conf; {_DIRECT}",
        )  # fmt: skip


class Silence:
    """A session that says nothing for a while, as a connector's does when the database is quiet.

    Args:
        seconds: how long, from now on.

    Raises:
        PostgresError: it cannot be opened.
    """

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        self._seconds = seconds
        self._session = Session(replace(endpoint, answer_seconds=_ANSWER_SECONDS))
        self._began = time.monotonic()

    def end(self) -> Iterator[Finding]:
        """Wait for the rest of the time, and see whether the session is still there."""
        try:
            time.sleep(max(0.0, self._began + self._seconds - time.monotonic()))
            self._session.value("SELECT 1")
        except PostgresError as problem:
            yield warning(
                _PLACE, "idle-cut", f"a session that was silent for {self._seconds:g} s is gone: {problem}",
                "a proxy, load balancer or firewall on the way ends what is silent, and each time the connector connects anew",
                "raise its idle timeout above status.update.interval.ms and heartbeat.interval.ms, or lower these",
            )  # fmt: skip

    def close(self) -> None:
        """End the session."""
        self._session.close()
