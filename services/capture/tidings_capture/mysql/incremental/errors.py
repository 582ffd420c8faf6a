"""Which of a server's errors end an incremental snapshot, and which are worth another try."""

import contextlib
from collections.abc import Iterator
from typing import Final

from tidings_capture.mysql.errors import MariaDbError
from tidings_service.errors import Retry

_PASSING: Final = frozenset({1020, 1053, 1079, 1205, 1206, 1213, 1317, 1412, 1637, 1927, 1969, 3024})
"""The server's numbers for locks and statements that were given up, tables that were just altered, and ended connections."""


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
    number = error.number
    return number is None or number in _PASSING or 2000 <= number < 3000
