"""Takes whole tuples apart with one regular expression each: the fastest way that Python has through a message.

A text cell of pgoutput has no NUL, since a type's output function gives a C string, and a size below sixteen megabytes
begins with one. So the places where cells meet can be told from their bytes alone, and the expression for a table finds
every cell's parts in one call. What it finds is only believed where every size in the message says the same.

An expression is for rows with nulls in certain columns and no others; it would be ambiguous otherwise ("a", null and
"an" look alike but for their sizes), and could take exponential time. `TupleReader` makes one for the nulls that it meets.
Each column's part is atomic, so that a row that does not match is given up in linear time.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidings_capture.cdc.encoding.plan_code import (
    ColumnCode,
    EncodedRow,
    Piece,
    RowLayout,
    indented,
    interleaved,
    joined,
    key_variable,
    present_lines,
)
from tidings_capture.cdc.encoding.plan_columns import ColumnEncoder
from tidings_capture.cdc.encoding.snippets import LOOK_AGAIN, TEXT, Shape
from tidings_capture.postgres.encoding.row_code import RowFunctions

_ANY: Final = Shape(rb"([^\0]*)", always=True)
_BYTES: Final = bytes(range(256))
_SIZES: Final = tuple(_BYTES[size : size + 1] for size in range(256))
"""Slices, as the groups are: of them Python has one object for every single byte, so that identity tells whether they are
equal. Where it has not, the row takes the checked way."""
_LONG_SIZES: Final = tuple(size.to_bytes(2, "big") for size in range(4_096))
"""Behind their end the row takes the checked way; with that many bytes in a cell it makes little difference."""
_NEW: Final = ord("N")
_NEW_TUPLE: Final = 5
"""Where it stands in an Insert or a plain Update: after the tag and the relation's oid."""
_TUPLE: Final = 6
_BEGINS_SIZE: Final = b"\0\0\0"
_NULL_KIND, _TEXT_KIND = b"nt"
_LEARNS_EVERY: Final = 16
"""Rows that match nothing, between two looks at one."""
_MOST: Final = 32
"""Expressions of one table; there could be as many as subsets of its nullable columns."""


ReadRow: TypeAlias = Callable[[bytes, int], EncodedRow]


@dataclass(frozen=True, slots=True)
class TupleForm:
    """What an expression is for."""

    nulls: frozenset[int]
    """The columns that are null."""
    longs: frozenset[int]
    """Those whose cells have more than 255 bytes."""


class TupleReader:
    """Reads a relation version's messages: Insert, and Update without an old tuple.

    Args:
        columns: what becomes of each column.
        layout: where the encoded cells go.
        functions: take every tuple that the expressions do not take, or raise.
    """

    def __init__(self, columns: Sequence[ColumnCode], layout: RowLayout, functions: RowFunctions) -> None:
        self._columns = columns
        self._layout = layout
        self._walk, self.encode, self.lines = functions
        self._misses = 0
        self._known: dict[TupleForm, ReadRow] = {}
        self._by_count: dict[int, ReadRow] = {}
        self.read: ReadRow = self._missed
        """From a buffer that ends with a message, and the message's start, to the encoded row and key; raises one of
        `plan_code.IRREGULAR`."""

    def _missed(self, data: bytes, start: int) -> EncodedRow:
        if data[start] not in b"IU" or data[start + _NEW_TUPLE] != _NEW:
            raise ValueError
        row, key, end = self._walk(data, start + _TUPLE)
        if end != len(data):
            raise ValueError
        self._misses += 1
        if self._misses % _LEARNS_EVERY == 0:
            self._learn(data, start)
        return row, key

    def _chosen(self, data: bytes, start: int) -> EncodedRow:
        # Rows with as many cells that are not null have mostly the same ones.
        return self._by_count.get(data.count(_BEGINS_SIZE, start), self._missed)(data, start)

    def _learn(self, data: bytes, start: int) -> None:
        """Makes sure that a tuple like this one, which has been read, is taken the next time."""
        form = _form(data, start + _TUPLE + 2, len(self._columns))
        if form is None:
            return
        if form not in self._known:
            if len(self._known) >= _MOST:
                return
            self._known[form] = compile_match(self._columns, self._layout, form, self._missed)
        read = self._by_count[data.count(_BEGINS_SIZE, start)] = self._known[form]
        self.read = read if len(self._by_count) == 1 else self._chosen


def _form(data: bytes, position: int, columns: int) -> TupleForm | None:
    """The form of a well-formed tuple; None where a column is neither null nor text, or too long."""
    nulls, longs = [], []
    for index in range(columns):
        kind = data[position]
        position += 1
        if kind == _TEXT_KIND:
            size = int.from_bytes(data[position : position + 4])
            if size >= len(_LONG_SIZES):
                return None
            if size >= len(_SIZES):
                longs.append(index)
            position += 4 + size
        elif kind == _NULL_KIND:
            nulls.append(index)
        else:
            return None
    return TupleForm(frozenset(nulls), frozenset(longs))


def compile_match(
    columns: Sequence[ColumnCode], layout: RowLayout, form: TupleForm, missed: ReadRow
) -> ReadRow:
    """Compiles the function for messages with tuples of one form.

    Args:
        missed: takes every other message.
    """
    names: dict[str, Any] = {
        **LOOK_AGAIN[1],
        "missed": missed,
        "join": b"".join,
        "SIZES": _SIZES,
        "LONG_SIZES": _LONG_SIZES,
    }
    shapes = [_shape_of(column) for column in columns]
    pattern = [b"[IU]....N", re.escape(len(columns).to_bytes(2, "big")), _separator(0, shapes, form)]
    variables: list[str] = []
    lines: list[str] = []
    for index, (column, shape) in enumerate(zip(columns, shapes, strict=True)):
        if index not in form.nulls:
            is_long = index in form.longs
            pattern.append(_cell_pattern(shape, _separator(index + 1, shapes, form), is_long=is_long))
            variables += _variables(index, shape, is_long=is_long)
            lines += _cell_lines(index, column, shape, names, is_long=is_long)
    names["match"] = re.compile(b"".join(pattern), re.DOTALL).match

    def field(variable: str, index: int, encoder: ColumnEncoder | None) -> list[Piece]:
        assert encoder is not None
        return [encoder.null] if index in form.nulls else _pieces(shapes[index], variable)

    fields = [field(f"c{i}", i, c.encoder) for i, c in enumerate(columns) if c.encoder is not None]
    row, key = joined("f", interleaved(layout.fragments, fields), names), "None"
    if layout.key_fragments is not None:
        fields = [
            field(key_variable(columns, i), i, columns[i].key_encoder or columns[i].encoder)
            for i in layout.key_indexes
        ]
        key = joined("g", interleaved(layout.key_fragments, fields), names)
    source = [
        "def match_row(data, p):",
        "    m = match(data, p)",
        "    if m is None:",
        "        return missed(data, p)",
        f"    {''.join(f'{variable}, ' for variable in variables) or '()'} = m.groups()",
        *lines,
        f"    return {row}, {key}",
    ]
    # As in `plan_code`: of this module's text and of indexes; what comes from the database is only in `names`' values.
    exec(compile("\n".join(source), "<match function>", "exec"), names)  # noqa: S102
    function: ReadRow = names["match_row"]
    return function


def _shape_of(column: ColumnCode) -> Shape:
    # Another form of the key needs the whole cell.
    return _ANY if column.shape is None or column.key_encoder is not None else column.shape


def _separator(index: int, shapes: Sequence[Shape], form: TupleForm) -> bytes:
    """What stands before a cell's size: nulls, the kind, and the size's zeros."""
    nulls = b""
    while index in form.nulls:
        nulls += b"n"
        index += 1
    if index == len(shapes):
        return nulls + rb"\Z"
    return nulls + (rb"t\0\0" if index in form.longs else rb"t\0\0\0")


def _cell_pattern(shape: Shape, following: bytes, *, is_long: bool) -> bytes:
    """The pattern of what varies in the size, of the cell, and of the separator behind it."""
    fixed = re.escape(_SIZES[shape.size]) if isinstance(shape.size, int) else b"(.)"
    size = b"(..)" if is_long else fixed
    if shape.always:
        return size + shape.pattern + following
    return size + b"(?>" + shape.pattern + following + rb"|([^\0]*)" + following + b")"


def _variables(index: int, shape: Shape, *, is_long: bool) -> list[str]:
    """One for every group of `_cell_pattern`."""
    size = [] if isinstance(shape.size, int) and not is_long else [f"s{index}"]
    parts = [part.replace("{c}", f"c{index}") for part in shape.parts]
    return [*size, *parts, *([] if shape.always else [f"whole{index}"])]


def _cell_lines(
    index: int, column: ColumnCode, shape: Shape, names: dict[str, Any], *, is_long: bool
) -> list[str]:
    """The code that checks the cell's size and makes its encoded form of its parts."""
    cell = f"c{index}"
    names.update(shape.names)

    def checked(size: str) -> str:
        sizes = f"!= LONG_SIZES[{size}]" if is_long else f"is not SIZES[{size}]"
        return f"if s{index} {sizes}: raise ValueError"

    whole = [checked("len({c})"), *present_lines(index, column, names)]
    if column.snippet is TEXT:
        whole += LOOK_AGAIN[0]
    if shape is _ANY:
        usual = whole
    else:
        usual = [*([checked(shape.size)] if isinstance(shape.size, str) else []), *shape.lines]
    if not shape.always:
        usual = [
            f"if whole{index} is None:",
            *indented(1, usual),
            "else:",
            *indented(1, [f"{{c}} = whole{index}", *whole, *shape.from_whole]),
        ]
    return indented(1, [line.replace("{c}", cell) for line in usual])


def _pieces(shape: Shape, variable: str) -> list[Piece]:
    return [part if isinstance(part, bytes) else part.replace("{c}", variable) for part in shape.result]
