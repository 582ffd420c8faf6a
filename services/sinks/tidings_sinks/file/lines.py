"""Lines of a stream that grows: what is complete, and where it ends. Pure.

A line ends with ``\\n``, ``\\r\\n`` or ``\\r``; whether ``\\r`` at the very end is followed by ``\\n`` is not known yet, so that it
waits. A last line without an end waits too. In UTF-8 no other character has one of these bytes.
"""

import re
from typing import Final

POSITION: Final = "position"
"""The field of offsets that says where a file's next line begins, in bytes."""
_END: Final = re.compile(rb"\r\n|\n|\r(?=[^\n])", re.DOTALL)


class Lines:
    """Takes bytes and gives lines.

    Args:
        position: of the first byte.
    """

    def __init__(self, position: int = 0) -> None:
        self._buffer = b""
        self._start = 0
        """Where the next line begins in the buffer."""
        self._seen = 0
        """Up to here the buffer has no end of it."""
        self._base = position
        """The position of the buffer's first byte."""

    @property
    def position(self) -> int:
        """The position after the last line that was given."""
        return self._base + self._start

    @property
    def waiting(self) -> int:
        """Bytes that were taken and are no part of a line that was given."""
        return len(self._buffer) - self._start

    def take(self, data: bytes) -> None:
        """More of the stream."""
        self._base += self._start
        self._seen = max(0, self._seen - self._start)
        self._buffer = self._buffer[self._start :] + data
        self._start = 0

    def next(self) -> str | None:
        """The next line without its end; None: none is complete. What is not UTF-8 is replaced, as Java does."""
        found = _END.search(self._buffer, max(self._start, self._seen))
        if found is None:
            self._seen = max(self._start, len(self._buffer) - 1)  # a last \\r is looked at again
            return None
        line = self._buffer[self._start : found.start()].decode("utf-8", "replace")
        self._start = found.end()
        return line
