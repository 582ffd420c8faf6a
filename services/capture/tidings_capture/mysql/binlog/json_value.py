"""MySQL's JSON, as its log has it (binary), as the text that Debezium makes of it. Pure.

Objects have their keys in the server's order (by length, then by bytes); there are no blanks; a decimal has all of its digits,
and so has a double beyond 10 million or below 0.001; a date or time has a fraction where it is not 0, and bytes are Base64.

Format: ``sql/json_binary.h`` and ``sql/json_diff.h`` of MySQL; ``com.github.shyiko.mysql.binlog...JsonStringFormatter``. Its text of a
negative time is not a time (``839:0-60:0-59``): here it has a sign.
"""

import base64
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from tidings_capture.mysql.binlog.cells import decimal_cell, decimal_size
from tidings_envelope.java.numbers import double_json

Document = dict[str, "Document"] | list["Document"] | str
"""Objects, arrays, and the JSON text of anything else."""

_DEEPEST: Final = 100
"""The server allows no deeper document."""
_SMALL_OBJECT: Final = 0x00
_LARGE_OBJECT: Final = 0x01
_SMALL_ARRAY: Final = 0x02
_LARGE_ARRAY: Final = 0x03
_LITERAL: Final = 0x04
_NUMBERS: Final = {
    0x05: struct.Struct("<h"), 0x06: struct.Struct("<H"), 0x07: struct.Struct("<i"), 0x08: struct.Struct("<I"),
    0x09: struct.Struct("<q"), 0x0A: struct.Struct("<Q"), 0x0B: struct.Struct("<d"),
}  # fmt: skip
_TEXT: Final = 0x0C
_OPAQUE: Final = 0x0F
_INLINED: Final = ({_LITERAL, 0x05, 0x06}, {_LITERAL, 0x05, 0x06, 0x07, 0x08})
"""Kinds that stand in the entry itself, of small and of large objects and arrays."""
_LITERALS: Final = {0: "null", 1: "true", 2: "false"}
_TIMESTAMP: Final = 7
_DATE: Final = 10
_TIME: Final = 11
_DATETIME: Final = 12
_DECIMAL: Final = 246
_SPECIAL: Final = re.compile(r'[\x00-\x1f"\\]')
_ESCAPES: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def json_text(data: bytes) -> str:
    """The text of a document.

    Raises:
        ValueError: it is malformed.
    """
    return written(document(data))


def json_cell(*, nullable: bool) -> Callable[[bytes], str | None]:
    """Reads a column. What is no document, as `ALTER TABLE ... ADD j JSON NOT NULL` leaves in the rows that are there, is null
    as in Debezium's records, or an empty object where the column takes no null."""
    empty = None if nullable else "{}"
    return lambda data: json_text(data) if data else empty


def document(data: bytes) -> Document:
    """A document's objects and arrays.

    Raises:
        ValueError: it is malformed.
    """
    if not data:
        raise ValueError("a JSON document is empty")
    return _Reader(data).value(data[0], 1, 0)


def written(value: Document) -> str:
    """The text of a document."""
    pieces: list[str] = []
    _write(value, pieces)
    return "".join(pieces)


def _write(value: Document, into: list[str]) -> None:
    if isinstance(value, str):
        into.append(value)
        return
    into.append("{" if isinstance(value, dict) else "[")
    separator = ""
    for name in value:
        into.append(separator)
        if isinstance(value, dict):
            into += (_quoted(str(name)), ":")
            _write(value[str(name)], into)
        else:
            _write(name, into)
        separator = ","
    into.append("}" if isinstance(value, dict) else "]")


def _quoted(text: str) -> str:
    return f'"{_SPECIAL.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}"


class _Reader:
    """Reads one document. What it has read in all is bounded by the document's length, wherever its offsets lead."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = len(data)

    def value(self, kind: int, at: int, depth: int) -> Document:
        """A value of a kind at a byte."""
        self._spend(1)
        if kind <= _LARGE_ARRAY:
            return self._container(kind, at, depth)
        if kind == _LITERAL:
            return self._literal(self._take(at, 1)[0])
        if (number := _NUMBERS.get(kind)) is not None:
            return _number(number.unpack(self._take(at, number.size))[0])
        if kind == _TEXT:
            size, at = self._length(at)
            return _quoted(self._text(at, size))
        if kind == _OPAQUE:
            inner = self._take(at, 1)[0]
            size, at = self._length(at + 1)
            self._spend(size)
            return _opaque(inner, self._take(at, size))
        raise ValueError("a JSON value is of a kind that is not known")

    def _container(self, kind: int, at: int, depth: int) -> Document:
        if depth >= _DEEPEST:
            raise ValueError("a JSON document is too deep")
        large = kind in {_LARGE_OBJECT, _LARGE_ARRAY}
        width = 4 if large else 2
        count, size = self._number(at, width), self._number(at + width, width)
        start, end = at, at + size
        is_object = kind in {_SMALL_OBJECT, _LARGE_OBJECT}
        keys_at = at + 2 * width
        values_at = keys_at + (count * (width + 2) if is_object else 0)
        if end > len(self._data) or values_at + count * (width + 1) > end:
            raise ValueError("a JSON object or array is cut off")
        self._spend(count)
        values = []
        for place in range(values_at, values_at + count * (width + 1), width + 1):
            inner = self._data[place]
            inlined = inner in _INLINED[large]
            values.append(
                self.value(inner, place + 1 if inlined else start + self._number(place + 1, width), depth + 1)
            )
        if not is_object:
            return values
        keys = [
            self._text(start + self._number(place, width), self._number(place + width, 2))
            for place in range(keys_at, values_at, width + 2)
        ]
        return dict(zip(keys, values, strict=True))

    def _literal(self, number: int) -> str:
        found = _LITERALS.get(number)
        if found is None:
            raise ValueError("a JSON literal is not known")
        return found

    def _text(self, at: int, size: int) -> str:
        self._spend(size)
        return self._take(at, size).decode()

    def _length(self, at: int) -> tuple[int, int]:
        """A length of seven bits a byte, least first, and where it ends."""
        length = 0
        for place in range(5):
            byte = self._take(at + place, 1)[0]
            length |= (byte & 0x7F) << 7 * place
            if not byte & 0x80:
                return length, at + place + 1
        raise ValueError("a JSON length has more than five bytes")

    def _number(self, at: int, width: int) -> int:
        return int.from_bytes(self._take(at, width), "little")

    def _take(self, at: int, size: int) -> bytes:
        taken = self._data[at : at + size]
        if len(taken) != size:
            raise ValueError("a JSON document is cut off")
        return taken

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise ValueError("a JSON document has the same bytes in several values")


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    if value - value != 0:
        raise ValueError("a JSON number is not finite")
    text = double_json(value).decode()
    return f"{Decimal(value):f}" if "E" in text else text


def _opaque(kind: int, data: bytes) -> str:
    if kind == _DECIMAL:
        return _decimal(data)
    if kind in {_DATE, _TIME, _DATETIME, _TIMESTAMP}:
        if len(data) != 8:
            raise ValueError("a time in a JSON document has not 8 bytes")
        packed = int.from_bytes(data, "little", signed=True)
        return f'"{_time(packed) if kind == _TIME else _datetime(packed, kind)}"'
    return f'"{base64.b64encode(data).decode()}"'


def _decimal(data: bytes) -> str:
    if len(data) < 2 or not 1 <= data[0] <= 65 or data[1] > min(30, data[0]):
        raise ValueError("a decimal in a JSON document has a wrong precision")
    precision, scale = data[0], data[1]
    if len(data) - 2 != decimal_size(precision, scale):
        raise ValueError("a decimal in a JSON document is cut off")
    return f"{decimal_cell(precision, scale)(data[2:]):f}"


def _fraction(micros: int) -> str:
    return f".{micros:06d}".rstrip("0") if micros else ""


def _clock(packed: int) -> str:
    return f"{packed >> 12:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"


def _time(packed: int) -> str:
    sign = "-" if packed < 0 else ""
    packed = abs(packed)
    return f"{sign}{_clock(packed >> 24 & 0x3FFFFF)}{_fraction(packed & 0xFFFFFF)}"


def _datetime(packed: int, kind: int) -> str:
    if packed < 0:
        raise ValueError("a date in a JSON document is negative")
    whole = packed >> 24
    months, day = whole >> 22, whole >> 17 & 31
    text = f"{months // 13:04d}-{months % 13:02d}-{day:02d}"
    if kind == _DATE:
        return text
    return f"{text} {_clock(whole & 0x1FFFF)}{_fraction(packed & 0xFFFFFF)}"
