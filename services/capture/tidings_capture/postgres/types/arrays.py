"""Arrays of any type that has a conversion.

Format: PostgreSQL documentation, "Array Input and Output Syntax": braces, commas (or the type's own ``typdelim``), elements
in double quotes where needed with backslash escapes, an unquoted NULL, and an optional ``[lower:upper]=`` in front.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from tidings_capture.cdc.encoding.options import BinaryHandling, ConversionOptions, TimePrecision
from tidings_capture.cdc.types.conversion import CellError, Conversion, NoRepresentationError
from tidings_capture.postgres.types.texts import placeholder_uuid
from tidings_envelope import semantic

_ELEMENT = re.compile(rb'"((?:[^"\\]|\\.)*)"|([^",{}\\]+)', re.DOTALL)
_PARTS = rb'"((?:[^"\\]|\\.)*)"|([^"%s{}\\]+)'
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_BOUNDS = re.compile(rb"(?:\[-?\d+:-?\d+\])+=")
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)
_TEXT_ARRAYS: Final = frozenset(("text", "varchar", "bpchar", "json", "jsonb"))
_NUMBER_ARRAYS: Final = frozenset(("int4", "date", "int8"))
_DATES_THAT_ARE_NO_NUMBERS: Final = (TimePrecision.CONNECT, TimePrecision.ISOSTRING, TimePrecision.STRUCTURED)


@dataclass(frozen=True, slots=True)
class Traits:
    """What Debezium does with arrays of an element type."""

    nulls: bool
    """Whether the schema allows null elements; where it does not, an array that holds one has no representation."""
    breaks_on_null: bool = False
    """The schema allows null elements, but Debezium fails on them."""
    one_dimension: bool = False
    """An array of several dimensions has no representation at all."""
    no_values: bool = False
    """Debezium's schema of the elements takes nothing but nulls."""
    unchanged: Any = None
    """What stands for an unchanged TOASTed array."""
    delimiter: bytes = b","
    """Between elements."""


def array(element: Conversion, traits: Traits) -> Conversion:
    """An array of one dimension; of one with several, Debezium writes as many nulls as the outer one has elements."""
    schema = element.schema.as_optional() if traits.nulls else element.schema
    convert_element = element.convert
    nulls = schema.optional and not traits.breaks_on_null
    delimiter = traits.delimiter
    pattern = _ELEMENT if delimiter == b"," else re.compile(_PARTS % re.escape(delimiter), re.DOTALL)

    def convert(cell: bytes) -> list[Any]:
        if traits.no_values:
            return _nulls(cell)
        elements = split_array(cell, delimiter, pattern)
        if traits.one_dimension and b"{" in cell[1:]:
            raise NoRepresentationError("Debezium does not read an array of several dimensions")
        values = [None if item is None else convert_element(item) for item in elements]
        if not nulls and None in values:
            raise NoRepresentationError("Debezium's schema of the array has no place for a null element")
        return values

    return Conversion(semantic.array(schema), convert, [], unchanged=traits.unchanged)


def vector(element: Conversion) -> Conversion:
    """oidvector and int2vector: numbers with spaces between them."""
    convert_element = element.convert
    return Conversion(
        semantic.array(element.schema), lambda cell: [convert_element(item) for item in cell.split()], []
    )


def split_array(
    cell: bytes, delimiter: bytes = b",", pattern: re.Pattern[bytes] = _ELEMENT
) -> list[bytes | None]:
    """The elements of an array in text format; of an array of several dimensions as many nulls as the first one has.
    `pattern` matches an element between delimiters.

    Raises:
        CellError: not an array.
    """
    bounds = _BOUNDS.match(cell)
    start = bounds.end() if bounds else 0
    if cell[start : start + 1] != b"{" or not cell.endswith(b"}"):
        raise CellError("not an array")
    if cell[start + 1 : start + 2] == b"{":
        return [None] * _outer_size(cell, start)
    position, end = start + 1, len(cell) - 1
    elements: list[bytes | None] = []
    while position < end or elements:
        match = pattern.match(cell, position, end)
        if match is None:
            raise CellError("not an array")
        quoted, plain = match.groups()
        if quoted is not None:
            elements.append(_ESCAPE.sub(rb"\1", quoted) if b"\\" in quoted else quoted)
        else:
            elements.append(None if plain == b"NULL" else plain)
        position = match.end()
        if position == end:
            break
        if cell[position : position + 1] != delimiter:
            raise CellError("not an array")
        position += 1
    return elements


def _nulls(cell: bytes) -> list[Any]:
    """The elements of an array that holds nothing but nulls, of any delimiter.

    Raises:
        NoRepresentationError: it holds something else.
    """
    start = bounds.end() if (bounds := _BOUNDS.match(cell)) else 0
    body = cell[start + 1 : -1]
    elements = re.split(rb"[,;]", body) if body else []
    if any(element != b"NULL" for element in elements):
        raise NoRepresentationError("Debezium's schema of the array takes no element of the type")
    return [None] * len(elements)


def _outer_size(cell: bytes, start: int) -> int:
    """How many elements the first of several dimensions has.

    Raises:
        CellError: the braces do not match.
    """
    depth = size = 0
    for token in _STRUCTURE.finditer(cell, start):
        if token.group() == b"{":
            depth += 1
            size += depth == 2
        elif token.group() == b"}":
            depth -= 1
            if depth <= 0:
                break
    if depth != 0 or token.end() != len(cell):
        raise CellError("not an array")
    return size


def unchanged(element_name: str, options: ConversionOptions) -> Any:
    """Debezium's placeholders for unchanged TOASTed arrays; none for the other element types."""
    placeholder = options.unavailable_value_placeholder
    octets = options.unavailable_value
    if element_name in _TEXT_ARRAYS:
        return [placeholder]
    if element_name == "date" and options.time_precision in _DATES_THAT_ARE_NO_NUMBERS:
        return None
    if element_name in _NUMBER_ARRAYS:
        return [octet - 256 if octet > 127 else octet for octet in octets]  # as Java has bytes
    if element_name == "bytea" and options.binary_handling is BinaryHandling.BYTES:
        return [octets]
    if element_name == "uuid":
        return [placeholder_uuid(octets)]
    return None
