"""Which of a server's errors end an incremental snapshot, and which are worth another try."""

import contextlib
from collections.abc import Iterator

from tidings_capture.cdc import server_errors
from tidings_capture.mysql.errors import MariaDbError
from tidings_service.errors import Retry


@contextlib.contextmanager
def asking(what: str) -> Iterator[None]:
    """Errors of a statement: one of its SQL, such as a condition's, comes again however often it is tried.

    Raises:
        MariaDbError: with `Retry.MANUAL` for those.
    """
    try:
        yield
    except MariaDbError as error:
        if is_passing(error) or error.retry is not Retry.TIMED:
            raise
        raise MariaDbError(f"{what}: {error}", number=error.number, retry=Retry.MANUAL) from error


def is_passing(error: MariaDbError) -> bool:
    """Whether an error may not come again: of a connection, or of what others were doing."""
    return server_errors.is_passing(error.number)
