"""The errors of query sources."""

from typing import ClassVar

from tidings_connect.errors import ConnectError
from tidings_service.errors import Retry


class QueryError(ConnectError):
    """The database refused a query, or could not be reached; the message names the table."""

    code: ClassVar[str] = "query_source"
    default_retry = Retry.TIMED


class TableError(ConnectError):
    """A table cannot be read as configured; the message names the table, the column and the option."""

    code: ClassVar[str] = "table"
    default_retry = Retry.NEVER
