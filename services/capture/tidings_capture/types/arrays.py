"""One-dimensional arrays of any type that has a conversion.

Format: PostgreSQL documentation, "Array Input and Output Syntax": braces, commas, elements in double quotes where
needed with backslash escapes, an unquoted NULL, and an optional ``[lower:upper]=`` in front.
"""

import re
from typing import Any, Final

from tidings_capture.conversion_options import BinaryHandling, ConversionOptions, TimePrecision
from tidings_capture.types.conversion import CellError, Conversion
from tidings_capture.types.texts import placeholder_uuid
from tidings_envelope import semantic

_ELEMENT = re.compile(rb'"((?:[^"\\]|\\.)*)"|([^",{}\\]+)', re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_BOUNDS = re.compile(rb"\[-?\d+:-?\d+\]=")
_TEXT_ARRAYS: Final = frozenset(("text", "varchar", "bpchar", "json", "jsonb"))
_NUMBER_ARRAYS: Final = frozenset(("int4", "date", "int8"))


def array(element: Conversion, element_name: str, options: ConversionOptions, *, is_enum: bool) -> Conversion:
    """An array; elements may be null, except, as Debezium has it, in arrays of enums."""
    schema = semantic.array(element.schema if is_enum else element.schema.as_optional())
    convert_element = element.convert

    def convert(cell: bytes) -> list[Any] | None:
        elements = split_array(cell)
        if is_enum and None in elements:
            return None  # Debezium's schema does not allow it, and so the whole value is left out
        return [None if item is None else convert_element(item) for item in elements]

    return Conversion(schema, convert, [], unchanged=_unchanged(element_name, options))


def split_array(cell: bytes) -> list[bytes | None]:
    """The elements of an array in text format.

    Raises:
        CellError: not an array, or one of several dimensions.
    """
    bounds = _BOUNDS.match(cell)
    start = bounds.end() if bounds else 0
    if cell[start : start + 1] != b"{" or not cell.endswith(b"}"):
        raise CellError("not a one-dimensional array")
    position, end = start + 1, len(cell) - 1
    elements: list[bytes | None] = []
    while position < end or elements:
        match = _ELEMENT.match(cell, position, end)
        if match is None:
            raise CellError("not a one-dimensional array")
        quoted, plain = match.groups()
        if quoted is not None:
            elements.append(_ESCAPE.sub(rb"\1", quoted) if b"\\" in quoted else quoted)
        else:
            elements.append(None if plain == b"NULL" else plain)
        position = match.end()
        if position == end:
            break
        if cell[position : position + 1] != b",":
            raise CellError("not a one-dimensional array")
        position += 1
    return elements


def _unchanged(element_name: str, options: ConversionOptions) -> Any:
    """Debezium's placeholders for unchanged TOASTed arrays; none for the other element types."""
    placeholder = options.unavailable_value_placeholder
    if element_name in _TEXT_ARRAYS:
        return [placeholder]
    if element_name == "date" and options.time_precision is TimePrecision.CONNECT:
        return None
    if element_name in _NUMBER_ARRAYS:
        return list(placeholder.encode())
    if element_name == "bytea" and options.binary_handling is BinaryHandling.BYTES:
        return [placeholder.encode()]
    if element_name == "uuid":
        return [placeholder_uuid(placeholder)]
    return None
