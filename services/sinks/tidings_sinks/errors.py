"""The errors of sinks. A message names an option, a table, a column, a file or a position; never a value."""

from tidings_connect.errors import ConnectError


class TargetError(ConnectError):
    """The system that a sink writes to does not take what it is given, for a reason that no single record has: a table or a
    right is missing, its schema is another."""

    code = "target"


class RowError(ConnectError):
    """One record cannot be written, and trying again does not help: it becomes a dead letter, or ends the task."""

    code = "sink_row"


class FileError(ConnectError):
    """A file cannot be opened, read or written, or is not the one that it was."""

    code = "file"


class DataProblemError(ConnectError):
    """The target refused what one of the records holds; the words name a column or a constraint, never a value."""

    code = "sink_row"


class BusyError(ConnectError):
    """The target cannot take it just now."""

    code = "sink_busy"


class LostError(BusyError):
    """The connection is gone, and with it perhaps the answer to a COMMIT."""

    code = "sink_busy"


class TransactionError(ConnectError):
    """A transaction of the source cannot be written as a whole: rows or its end are gone, a record does not say which it
    belongs to, or it does not fit on disk; the message names it."""

    code = "source_transaction"


class RebuildError(ConnectError):
    """A read model cannot be built anew, or not be switched over; the message names the connector. What readers see stays."""

    code = "rebuild"


class CheckError(RebuildError):
    """The new read model was looked at before it was switched over to, and is not what it should be. What readers see stays."""

    code = "rebuild_check"
