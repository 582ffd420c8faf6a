"""What generated code looks up in place of computing it again: what became of a cell, and the length before a text in Avro. Pure."""

from collections.abc import Callable
from typing import Final, TypeVar

from tidings_envelope.avro.codec import long_avro

_MEMORY: Final = 4_096
"""Cells that are remembered per column; the memory starts anew when it is full."""
TWO_DIGITS: Final = {b"%02d" % n: n for n in range(60)}
"""Minutes and seconds, by their text."""

K = TypeVar("K")
T = TypeVar("T")


class Memory(dict[K, T]):
    """Remembers results where there are few different cells."""

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[K], T]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, cell: K) -> T:
        result = self._compute(cell)
        if len(self) >= _MEMORY:
            self.clear()
        self[cell] = result
        return result


class Sizes(dict[int, bytes]):
    """Union branch and length of a text or of bytes, by length."""

    __slots__ = ("_branch",)

    def __init__(self, branch: bytes) -> None:
        super().__init__()
        self._branch = branch

    def __missing__(self, size: int) -> bytes:
        encoded = self._branch + long_avro(size)
        if size < 4_096:
            self[size] = encoded
        return encoded
