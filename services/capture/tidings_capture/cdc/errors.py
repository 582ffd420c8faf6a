"""The error of a database, whichever it is."""

from tidings_connect.errors import ConnectError


class DatabaseError(ConnectError):
    """The database refused something or could not be reached; `retry` tells whether another attempt can help. A connector
    raises its own, with a code of its own."""
