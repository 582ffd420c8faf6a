"""As of which position a snapshot's row is: a header of rows that capture reads in the middle of its stream.

Capture streams up to the snapshot before it writes its rows, so whoever has all transactions that were committed up to this
position has them before the row, and gets all others behind it. Debezium writes no such header: its rows may hold what the
stream has yet to tell.
"""

from tidings_envelope.errors import DecodeError
from tidings_envelope.headers.reading import Headers

HEADER = "tidings.as.of"
"""An LSN, in decimal digits."""
_MOST_DIGITS = 20


def as_of(headers: Headers) -> int | None:
    """The LSN in a record's headers; None when they have none.

    Raises:
        DecodeError: it is not a number of 64 bits.
    """
    for name, value in headers:
        if name == HEADER:
            text = value or b""
            if not text.isdigit() or len(text) > _MOST_DIGITS or int(text) >> 64:
                raise DecodeError(f"the header {HEADER} is not an LSN")
            return int(text)
    return None
