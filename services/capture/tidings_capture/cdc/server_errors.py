"""Errors of servers that speak MySQL's protocol: which may not come again."""

from typing import Final

_PASSING: Final = frozenset(
    {
        *(1020, 1205, 1206, 1213, 1317, 1412, 1637, 1969, 3024),
        *(1040, 1053, 1079, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1927, 3169, 4031),
        *(1021, 1026, 1037, 1038, 1041),
    }
)
"""Locks and statements that were given up, and tables that were just altered; then servers that shut down or have too many
connections, and connections that were ended; then disks and memory that are full."""
_FIRST: Final = 1000
"""Numbers before it are of the server's files."""


def is_passing(number: int | None) -> bool:
    """Whether an error is of a connection, of the server's machine, or of what others were doing.

    Args:
        number: the server's, or the client library's; None: it did not answer.
    """
    return number is None or number < _FIRST or number in _PASSING or 2000 <= number < 3000
