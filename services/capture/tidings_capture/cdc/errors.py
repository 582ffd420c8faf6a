"""The error of a database, whichever it is."""

from tidings_connect.errors import ConnectError


class DatabaseError(ConnectError):
    """A database refused something, or could not be reached. Each connector raises a kind of its own."""
