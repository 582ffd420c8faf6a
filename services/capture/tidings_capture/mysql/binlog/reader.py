"""Bounded reads of little-endian numbers and texts, as the binary log and its protocol have them. Pure."""

from tidings_capture.mysql.errors import BinlogError


class Reader:
    """Reads from a part of a buffer, never beyond it.

    Args:
        what: what is read, for errors.

    Raises:
        BinlogError: from every method: the bytes end too early.
    """

    __slots__ = ("_what", "data", "end", "position")

    def __init__(self, data: bytes, position: int, end: int, what: str) -> None:
        self.data = data
        self.position = position
        self.end = end
        self._what = what

    def take(self, count: int) -> bytes:
        """So many bytes."""
        start = self.position
        if count > self.end - start:
            raise self.error(f"needs {count} bytes, and {self.end - start} are left")
        self.position = start + count
        return self.data[start : start + count]

    def skip(self, count: int) -> None:
        """Pass so many bytes."""
        self.take(count)

    def number(self, size: int) -> int:
        """An unsigned number of so many bytes."""
        return int.from_bytes(self.take(size), "little")

    def packed(self) -> int:
        """A number of variable length ("length-encoded integer")."""
        first = self.number(1)
        if first < 251:
            return first
        sizes = {252: 2, 253: 3, 254: 8}
        if first not in sizes:
            raise self.error(f"has no number that begins with {first}")
        return self.number(sizes[first])

    def sized(self) -> bytes:
        """Bytes with their length before them."""
        return self.take(self.packed())

    def text(self) -> str:
        """UTF-8 with its length before it."""
        return self.decoded(self.sized())

    def decoded(self, data: bytes) -> str:
        """UTF-8 as a text."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self.error("has a name that is not UTF-8") from None

    def rest(self) -> bytes:
        """Everything to the end."""
        return self.take(self.end - self.position)

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return self.end - self.position

    def error(self, why: str) -> BinlogError:
        """What is wrong at the present position."""
        return BinlogError(f"{self._what} {why} (at byte {self.position})")
