"""Generates a relation version's own functions from tuples to the encoded row and key.

`RowFunctions.read` walks pgoutput's TupleData in a message once, column after column without a loop, and replaces each
cell by its encoded form: by a snippet of `fast_json` where there is one, else by the column's encoder.
`RowFunctions.encode` does the same for cells that have been taken apart already, and `RowFunctions.lines` for lines of
COPY. All are strict about the form they know (text cells, nulls, unchanged values) and raise one of `IRREGULAR` on
anything else; the caller then goes the checked way, which says what is wrong, or gives the result.
"""

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.types.conversion import ConversionError
from tidings_capture.postgres.copy_format import parse_copy_line
from tidings_capture.postgres.fast_json import LOOK_AGAIN, Snippet
from tidings_capture.postgres.json_shapes import Shape
from tidings_capture.postgres.plan_columns import ColumnEncoder

IRREGULAR: Final = (LookupError, ValueError, ArithmeticError, struct.error, ConversionError)
"""What the generated function raises for a tuple that it does not take."""


EncodedRow: TypeAlias = tuple[bytes, bytes | None]
"""Row and key."""

WalkTuple: TypeAlias = Callable[[bytes, int], tuple[bytes, bytes | None, int]]
"""From a buffer and a tuple's start to the encoded row, the encoded key, and the position after the tuple."""

Piece: TypeAlias = bytes | str
"""Of a row or a key: a constant, or the name of a variable."""


class RowFunctions(NamedTuple):
    """What is generated for one relation version; each is compiled when it is first called."""

    read: WalkTuple
    encode: Callable[[Cells], tuple[bytes, bytes | None]]
    """From cells to the encoded row and the encoded key."""
    lines: Callable[[Sequence[bytes], Callable[[EncodedRow], None]], None]
    """From lines of COPY's text format to the encoded row and the encoded key of each, handed on one by one: what is
    handed on before an exception stays good."""


def _irregular(*_: object) -> NoReturn:
    raise ValueError


NO_FUNCTIONS: Final = RowFunctions(_irregular, _irregular, _irregular)
"""Functions that take nothing, so that every row goes the checked way."""


@dataclass(frozen=True, slots=True)
class ColumnCode:
    """What the generated function does with one column."""

    encoder: ColumnEncoder | None
    """None: the column is skipped."""
    snippet: Snippet | None
    """A direct way instead of the encoder's."""
    shape: Shape | None = None
    """A more direct way for the cells of one form."""
    key_encoder: ColumnEncoder | None = None
    """Encodes the cell for the key as well, where that gives other bytes than for the value."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Where the encoded cells go."""

    fragments: tuple[bytes, ...]
    """Around the row's fields."""
    key_fragments: tuple[bytes, ...] | None
    """Around the key's fields, with the key's frame; None without a key."""
    key_indexes: tuple[int, ...]
    """The key's columns, in key order."""
    is_json: bool = False
    """Whether the row is JSON, which needs another look for the characters that the snippets leave out."""


def compile_row_functions(columns: Sequence[ColumnCode], layout: RowLayout) -> RowFunctions:
    """Generates the functions for one relation version."""
    names: dict[str, Any] = {
        "COUNT": len(columns).to_bytes(2, "big"),
        **LOOK_AGAIN[1],
        "PADDING": bytes(4),
        "kind_and_size": struct.Struct(">BI").unpack_from,
        "join": b"".join,
        "TAB": b"\t",
        "parse_copy_line": parse_copy_line,
    }
    read = [
        "def read_row(data, p):",
        "    if data[p:p + 2] != COUNT:",
        "        raise ValueError",
        "    p += 2",
        "    data += PADDING  # a last null has no size, but kind_and_size reads one",
    ]
    cells = "".join(f"c{index}, " for index in range(len(columns)))
    encode = ["def encode_row(cells):", f"    {cells or '()'} = cells"]
    # A backslash is a null or an escape. Most lines have none, and then their cells are what stands between the tabs.
    lines = [
        "def encode_lines(lines, add):",
        "  for line in lines:",
        "    if ESCAPE in line:",
        "        add(encode_row(parse_copy_line(line)))",
        "        continue",
        f"    {cells or '()'} = line[:-1].split(TAB)",
    ]
    for index, column in enumerate(columns):
        used = column.encoder is not None or column.key_encoder is not None
        present = present_lines(index, column, names) if used else []
        null = _fixed_lines(index, column, "null", names) if used else []
        unchanged = _fixed_lines(index, column, "unchanged", names) if used else []
        read += _read_lines(f"c{index}", present, null, unchanged)
        encode += _encode_lines(f"c{index}", present, null, unchanged) if used else []
        lines += [f"    {line}" for line in present]
    result = _result_lines(columns, layout, names)
    read += [*result, "    return row, key, p"]
    encode += [*result, "    return row, key"]
    lines += [*result, "    add((row, key))"]
    for name, source in (("read_row", read), ("encode_row", encode), ("encode_lines", lines)):
        names[name] = _compiled_when_called(name, "\n".join(source), names)
    return RowFunctions(names["read_row"], names["encode_row"], names["encode_lines"])


def _compiled_when_called(name: str, source: str, names: dict[str, Any]) -> Callable[..., Any]:
    # Compiling all three takes most of the time until a table's first row, which needs one of them.
    function: Callable[..., Any] | None = None

    def call(*arguments: Any) -> Any:
        nonlocal function
        if function is None:
            # The source is made of this module's text and of indexes; names from the database are only in `names`' values.
            exec(_code(source), names)  # noqa: S102
            function = names[name]
        return function(*arguments)

    return call


@functools.lru_cache(maxsize=128)
def _code(source: str) -> CodeType:
    """The code of a function's source; tables whose columns have the same types share it."""
    return compile(source, "<row functions>", "exec")


def _read_lines(cell: str, present: list[str], null: list[str], unchanged: list[str]) -> list[str]:
    """The code that reads a cell from the buffer; empty `present` skips it."""
    return [
        "    kind, size = kind_and_size(data, p)",
        "    if kind == 116:",
        "        q = p + 5",
        "        p = q + size",
        *indented(2, [f"{cell} = data[q:p]", *present] if present else []),
        "    elif kind == 110:",
        *indented(2, null),
        "        p += 1",
        "    elif kind == 117:",
        *indented(2, unchanged),
        "        p += 1",
        "    else:",
        "        raise ValueError",
    ]


def _encode_lines(cell: str, present: list[str], null: list[str], unchanged: list[str]) -> list[str]:
    """The code that replaces a cell that is in its variable already."""
    return [
        f"    if {cell} is None:",
        *indented(2, null),
        f"    elif {cell}.__class__ is bytes:",
        *indented(2, present),
        "    else:",
        *indented(2, unchanged),
    ]


def _result_lines(columns: Sequence[ColumnCode], layout: RowLayout, names: dict[str, Any]) -> list[str]:
    row = interleaved(
        layout.fragments, [[f"c{i}"] for i, column in enumerate(columns) if column.encoder is not None]
    )
    lines = [f"row = {joined('f', row, names)}"]
    if layout.is_json:
        lines += [line.replace("{c}", "row") for line in LOOK_AGAIN[0]]
    key = "None"
    if layout.key_fragments is not None:
        fields: list[list[Piece]] = [[key_variable(columns, index)] for index in layout.key_indexes]
        key = joined("g", interleaved(layout.key_fragments, fields), names)
    return indented(1, [*lines, f"key = {key}"])


def present_lines(index: int, column: ColumnCode, names: dict[str, Any]) -> list[str]:
    """The code that replaces a cell by its encoded form, for the key and for the row."""
    cell = f"c{index}"
    lines = []
    if column.key_encoder is not None:
        names[f"key_encode_{index}"] = column.key_encoder.present
        lines.append(f"k{index} = key_encode_{index}({cell})")
    if column.snippet is not None:
        templates, used = column.snippet
        names.update(used)
        lines += [template.replace("{c}", cell) for template in templates]
    elif column.encoder is not None:
        names[f"encode_{index}"] = column.encoder.present
        lines.append(f"{cell} = encode_{index}({cell})")
    return lines


def _fixed_lines(index: int, column: ColumnCode, which: str, names: dict[str, Any]) -> list[str]:
    """The code for a null or an unchanged value."""
    lines = []
    for variable, encoder in ((f"c{index}", column.encoder), (f"k{index}", column.key_encoder)):
        if encoder is None:
            continue
        value = encoder.null if which == "null" else encoder.unchanged
        if value is None:
            return ["raise ValueError"]
        names[f"{which}_{variable}"] = value
        lines.append(f"{variable} = {which}_{variable}")
    return lines


def key_variable(columns: Sequence[ColumnCode], index: int) -> str:
    """The variable with a column's encoded form for the key."""
    return f"{'c' if columns[index].key_encoder is None else 'k'}{index}"


def interleaved(fragments: Sequence[bytes], fields: Sequence[Sequence[Piece]]) -> list[Piece]:
    """The pieces of a struct: its fragments, one more than fields, and its fields in turn."""
    pieces: list[Piece] = []
    for fragment, field in zip(fragments, fields, strict=False):
        pieces += (fragment, *field)
    return [*pieces, fragments[-1]]


def joined(prefix: str, pieces: Sequence[Piece], names: dict[str, Any]) -> str:
    """An expression for the pieces behind one another. Constants that meet become one; they are put into `names`, under names
    that begin with `prefix`."""
    parts: list[str] = []
    constant = b""
    for piece in [*pieces, ""]:
        if isinstance(piece, bytes):
            constant += piece
            continue
        if constant:
            name = f"{prefix}{len(parts)}"
            names[name] = constant
            parts.append(name)
            constant = b""
        if piece:
            parts.append(piece)
    return parts[0] if len(parts) == 1 else f"join(({''.join(f'{part}, ' for part in parts)}))"


def indented(levels: int, lines: Sequence[str]) -> list[str]:
    """The same lines of source code, further to the right."""
    return [f"{' ' * (4 * levels)}{line}" for line in lines]
