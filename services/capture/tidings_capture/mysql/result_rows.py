"""Takes the rows of a result out of the packets that a server sends; what is in a row is left to who asks.

Format: MySQL's and MariaDB's protocol, "Packets" (three bytes of length, least significant first, and one of number; one of
16,777,215 bytes goes on in the next) and "Text Resultset" (rows end with a packet that begins with 254 and has less than nine
bytes; one that begins with 255 is an error).
"""

from collections.abc import Callable
from typing import Final, Protocol

MOST_PACKET: Final = 0xFFFFFF
_CHUNK: Final = 1 << 18
MOST_BYTES: Final = 1 << 22
"""Bytes of rows that are enough for once, however few rows they are."""
_HEAD: Final = 4


class Stream(Protocol):
    """What the server sends, as a buffered file."""

    def read1(self, size: int, /) -> bytes:
        """What is there, or arrives next; nothing: the connection has ended."""
        ...

    def read(self, size: int, /) -> bytes:
        """As many bytes, or fewer: the connection has ended."""
        ...


class ResultRows:
    """The rows of one result.

    Args:
        stream: stands before the first row.
        refused: makes an exception of an error's packet.
        lost: makes one of a connection that has ended.
    """

    def __init__(
        self, stream: Stream, refused: Callable[[bytes], Exception], lost: Callable[[], Exception]
    ) -> None:
        self._stream = stream
        self._refused = refused
        self._lost = lost
        self._data = b""
        self.ended = False
        """Whether all that the server sends of the result was read."""

    def fetch(self, count: int) -> list[bytes]:
        """The next rows, at most so many, and no more once they have `MOST_BYTES`; none: there are no more.

        Raises:
            Exception: what `refused` and `lost` make; the rows before an error that the server sends are lost with it.
        """
        rows: list[bytes] = []
        taken, number = 0, int.from_bytes
        while not self.ended and len(rows) < count and taken < MOST_BYTES:
            data, at = self._data, 0
            end = len(data)
            taken += end
            while end - at >= _HEAD:
                stop = at + _HEAD + number(data[at : at + 3], "little")
                if stop > end or stop - at - _HEAD == MOST_PACKET:
                    break
                row = data[at + _HEAD : stop]
                at = stop
                if not row or row[0] >= 254:
                    self._data = data[at:]
                    if not self._take_long(row, rows):
                        return rows
                    at, data = 0, self._data
                    end = len(data)
                else:
                    rows.append(row)
                if len(rows) == count:
                    break
            self._data = data[at:]
            if len(rows) < count and taken < MOST_BYTES:
                taken += self._more(rows)
        return rows

    def _take_long(self, packet: bytes, rows: list[bytes]) -> bool:
        """What begins with 254 or 255, or has no bytes: the end, an error, or a row whose first cell has 16 MB or more; whether rows
        go on."""
        if packet[:1] == b"\xff":
            self.ended = True
            raise self._refused(packet)
        if packet[:1] == b"\xfe" and len(packet) < 9:
            self.ended = True
            return False
        rows.append(packet)
        return True

    def _more(self, rows: list[bytes]) -> int:
        """Read on: some packets, or a row of several; that row's bytes."""
        data = self._data
        if len(data) < _HEAD:
            self._data += self._some()
            return 0
        length = int.from_bytes(data[:3], "little")
        if length < MOST_PACKET:
            missing = _HEAD + length - len(data)
            self._data += self._whole(missing) if missing > _CHUNK else self._some()
            return 0
        parts = [data[_HEAD : _HEAD + length]]
        behind = data[_HEAD + length :]
        parts.append(self._whole(length - len(parts[0])))
        while length == MOST_PACKET:
            head = behind[:_HEAD] + self._whole(_HEAD - len(behind[:_HEAD]))
            length, behind = int.from_bytes(head[:3], "little"), behind[_HEAD:]
            part = behind[:length]
            behind = behind[length:]
            parts += [part, self._whole(length - len(part))]
        self._data = behind
        rows.append(b"".join(parts))
        return len(rows[-1])

    def _some(self) -> bytes:
        data = self._stream.read1(_CHUNK)
        if not data:
            raise self._lost()
        return data

    def _whole(self, size: int) -> bytes:
        if not size:
            return b""
        data = self._stream.read(size)
        if len(data) < size:
            raise self._lost()
        return data
