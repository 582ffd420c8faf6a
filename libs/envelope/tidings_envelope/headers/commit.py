"""Which commit a record is of, where the source's own ids have no order: a header of rows and of transaction markers.

Capture writes it for MySQL, with ``provide.transaction.metadata``; see `tidings_envelope.commit_number`. A row that an incremental
snapshot has read has the number that the next commit would have at the least. Debezium writes no such header.
"""

from typing import Final

from tidings_envelope.commit_number import checked
from tidings_envelope.errors import DecodeError
from tidings_envelope.headers.reading import Headers

HEADER: Final = "tidings.commit"
"""The commit's number, in decimal digits."""
_MOST_DIGITS: Final = 16


def commit_of(headers: Headers) -> int | None:
    """The number in a record's headers; None when they have none.

    Raises:
        DecodeError: it is not a number of a commit.
    """
    for name, value in headers:
        if name == HEADER:
            text = value or b""
            if not text.isdigit() or len(text) > _MOST_DIGITS:
                raise DecodeError(f"the header {HEADER} is not the number of a commit")
            return checked(int(text))
    return None
