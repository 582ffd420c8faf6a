"""The errors of MariaDB's connector. Messages name tables, columns, options and positions; never a value or a statement."""

from tidings_capture.cdc.errors import DatabaseError
from tidings_connect.errors import ConnectError
from tidings_service.errors import Retry


class MariaDbError(DatabaseError):
    """The server cannot be reached, or answers with an error.

    Args:
        number: the server's number of the error; None where it did not answer.
    """

    code = "mariadb"
    default_retry = Retry.TIMED

    def __init__(
        self, message: str, *, number: int | None = None, hint: str | None = None, retry: Retry | None = None
    ) -> None:
        super().__init__(message, hint=hint, retry=retry)
        self.number = number


class BinlogError(ConnectError):
    """The binary log holds bytes that cannot be understood; the message says where."""

    code = "binlog"


class BinlogLostError(ConnectError):
    """The binary log no longer has, or never had, the position to go on from: changes are missing."""

    code = "binlog_lost"


class OtherServerError(BinlogLostError):
    """The server has never logged the position to go on from: it is another one, or was built anew."""

    code = "binlog_other_server"


class BinlogDivergedError(BinlogLostError):
    """The server has other transactions in place of those that were read: a failover has lost some."""

    code = "binlog_diverged"


class UnsupportedError(ConnectError):
    """The server does or holds something that this connector does not read: it stops in place of leaving changes out."""

    code = "mariadb_unsupported"
