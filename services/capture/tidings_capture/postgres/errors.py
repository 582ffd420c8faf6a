"""The errors of PostgreSQL and of capture, and the one table that says which SQLSTATEs a retry can cure."""

from collections.abc import Sequence
from typing import Final

from tidings_capture.cdc.errors import DatabaseError
from tidings_connect.errors import ConnectError
from tidings_service.errors import Retry


class PostgresError(DatabaseError):
    """PostgreSQL refused something or could not be reached.

    Args:
        sqlstate: the five characters of the SQLSTATE, None when the server could not be asked.
    """

    code = "postgres"

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str | None = None,
        hint: str | None = None,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retry=retry or retry_of_sqlstate(sqlstate))
        self.sqlstate = sqlstate


class CatalogError(ConnectError):
    """The database does not hold what the options ask for: a table, a publication, ``wal_level=logical``."""

    code = "catalog"


class LossError(ConnectError):
    """What follows the stored offset cannot be had in full: going on would lose changes silently.

    Args:
        reason: a short stable word for metrics.
        tables: the tables (schema, name) that it is about; None: all that are captured.
    """

    code = "loss"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        tables: Sequence[tuple[str, str]] | None = None,
        hint: str | None = None,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retry=retry)
        self.reason = reason
        self.tables = tables


class SlotError(LossError):
    """The replication slot is missing, lost, or not where it was."""

    code = "slot"


class PublicationError(LossError):
    """The publication has not held every captured table all the time."""

    code = "publication"


class HistoryError(LossError):
    """The server is another one, or its history is not the one that the stored offset is a position of."""

    code = "history"


class GuardError(ConnectError):
    """The guard interrupted something, so that the slot moves on."""

    code = "guard"
    default_retry = Retry.TIMED


_RETRY_OF_SQLSTATE: Final[dict[str | None, Retry]] = {
    # Looked up by the whole SQLSTATE first, then by its class. PostgreSQL documentation, "PostgreSQL Error Codes".
    None: Retry.TIMED,  # no server answered, or the connection was cut
    "55006": Retry.TIMED,  # the slot is still held by a walsender that has not noticed its client's end
    "08": Retry.TIMED,  # connection exception
    "25": Retry.TIMED,  # transaction state, after a failover
    "28": Retry.NEVER,  # wrong password or role: trying again only locks the account
    "40": Retry.TIMED,  # rollback: serialization failure, deadlock
    "53": Retry.TIMED,  # insufficient resources: connections, memory, disk
    "57": Retry.TIMED,  # operator intervention: shutdown, starting up, terminated
    "58": Retry.TIMED,  # the server's own input and output
}


def retry_of_sqlstate(sqlstate: str | None) -> Retry:
    """Whether a retry can cure an error of PostgreSQL's."""
    if sqlstate in _RETRY_OF_SQLSTATE:
        return _RETRY_OF_SQLSTATE[sqlstate]
    return _RETRY_OF_SQLSTATE.get((sqlstate or "")[:2], Retry.MANUAL)
