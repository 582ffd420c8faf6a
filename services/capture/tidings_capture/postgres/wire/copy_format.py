"""The text format of COPY (PostgreSQL documentation, "COPY", "Text Format"). Pure."""

import re
from typing import Final

from tidings_capture.cdc.cells import Cells

_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def parse_copy_line(line: bytes) -> Cells:
    """The cells of a line of COPY's text format (PostgreSQL documentation, "COPY", "Text Format")."""
    cells: list[bytes] = line.rstrip(b"\n").split(b"\t")
    if b"\\" not in line:
        return list(cells)
    return [None if cell == b"\\N" else _unescape(cell) for cell in cells]


def _unescape(cell: bytes) -> bytes:
    if b"\\" not in cell:
        return cell
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match.group(1), match.group(1)), cell)
