"""From the rows of a result, as the server writes them, straight to encoded records, by a function that is compiled for the table. Pure.

`TablePlan` and the converters say what a row becomes; this gives the same bytes without the values between.

Format: MySQL's and MariaDB's protocol, "Text Resultset Row": each cell is its length and its text; a length is one byte below
251, or 252, 253 or 254 and 2, 3 or 8 bytes behind it; 251 is NULL.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tidings_capture.mysql.binlog.row_code import Code
from tidings_capture.mysql.encoding.fields import StructFields
from tidings_capture.mysql.encoding.row_struct import RowStructs
from tidings_capture.mysql.encoding.selected import BYTES, GEOMETRIES
from tidings_capture.mysql.encoding.text_pieces import text_pieces
from tidings_capture.mysql.schemas.catalog import Column
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Record

_BINARY: Final = BYTES | GEOMETRIES | {"bit", "vector"}
_MARKS: Final = " or ".join(f"b'\\x{mark:02x}' in data" for mark in range(251, 256))
"""A row of texts has these bytes as NULL or before a long cell only: UTF-8 has none of them."""
Headers = list[tuple[str, bytes]] | None
EncodeRows = Callable[[Sequence[bytes], bytes, bytes, Headers, Callable[[Record], None]], None]


def row_cells(data: bytes) -> list[bytes | None]:
    """The cells of a row.

    Raises:
        ValueError: the bytes are no row.
    """
    cells: list[bytes | None] = []
    at, end = 0, len(data)
    while at < end:
        if data[at] == 251:
            cells.append(None)
            at += 1
            continue
        start, size = _sized(data, at)
        at = start + size
        if at > end:
            break
        cells.append(data[start:at])
    if at != end:
        raise ValueError("a row is cut off")
    return cells


def _sized(data: bytes, at: int) -> tuple[int, int]:
    """Where a cell's text starts, and its length."""
    first = data[at]
    if first < 251:
        return at + 1, first
    width = {252: 2, 253: 3, 254: 8}.get(first)
    if width is None:
        raise ValueError("a row has a length that none has")
    return at + 1 + width, int.from_bytes(data[at + 1 : at + 1 + width], "little")


class TextEncoder:
    """Encodes the rows of a result that selects all columns of a table.

    Args:
        row: the row's struct.
        key: the key's; None: the table has none.
        topic: the table's.
        converters: for keys and values; both have codecs.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        row: StructFields,
        key: StructFields | None,
        topic: str,
        converters: tuple[Converter, Converter],
    ) -> None:
        self._columns = columns
        code = Code()
        code.names["sized"] = _sized
        self._structs = RowStructs(
            row, key, topic, converters, code, lambda codec: text_pieces(columns, codec, code)
        )
        self._used = {index for fields in (row, key) if fields for index, _ in fields.fields}
        exec("\n".join(self._lines()), code.names)  # noqa: S102 - names and numbers of our own only
        self.encode: EncodeRows = code.names["encode"]
        """Hands on a record for each row, with what stands before and behind its row, and its headers.

        Raises:
            Exception: one of `row_encoder.IRREGULAR`, at a row that `TablePlan` has to write; those before it were handed on.
        """

    def _lines(self) -> list[str]:
        any_row = self._lines_of_any()
        if not any(column.type in _BINARY for column in self._columns):
            any_row = [
                f"if not data.isascii() and ({_MARKS}):",  # most have neither
                *(f" {line}" for line in any_row),
                "else:",
                *(f" {line}" for line in self._lines_of_short()),
            ]
        return [
            "def encode(rows, before, behind, headers, take):",
            " for data in rows:",
            *(f"  {line}" for line in any_row),
            "  take((key, join((before, row, behind)), headers))",
        ]

    def _lines_of_short(self) -> list[str]:
        """For a row without nulls and with short cells only."""
        lines = ["at = 0"]
        for index in range(len(self._columns)):
            if index in self._used:
                lines.append(f"v{index} = data[at + 1:(at := at + 1 + data[at])]")
            else:
                lines.append("at += 1 + data[at]")
        return [
            *lines,
            "if at != len(data): raise ValueError('a row is cut off')",
            *self._structs.lines(0),
        ]

    def _lines_of_any(self) -> list[str]:
        lines = ["at = 0"]
        for index in range(len(self._columns)):
            lines += [
                "if data[at] == 251:",
                " at += 1",
                *(f" {line}" for line in self._structs.null_lines(index)),
                "else:",
                " at, size = sized(data, at)",
                f" v{index} = data[at:(at := at + size)]",
                *(f" {line}" for line in self._structs.present_lines(index)),
            ]
        return [
            *lines,
            "if at != len(data): raise ValueError('a row is cut off')",
            *self._structs.joined_lines(),
        ]
