"""Generates a relation version's own function from cells to the encoded row and key, and helps a database to generate others.

`compile_functions` gives `encode_row`, for cells that have been taken apart already; a database adds functions that read its
own bytes and end alike. Each cell is replaced by its encoded form: by a snippet where there is one, else by the column's
encoder. All are strict about the form they know (text cells, nulls, unchanged values) and raise one of `IRREGULAR` on
anything else; the caller then goes the checked way, which says what is wrong, or gives the result.
"""

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final, TypeAlias

from tidings_capture.cdc.encoding.plan_columns import ColumnEncoder
from tidings_capture.cdc.encoding.snippets import LOOK_AGAIN, Shape, Snippet
from tidings_capture.cdc.types.conversion import ConversionError

IRREGULAR: Final = (LookupError, ValueError, ArithmeticError, struct.error, ConversionError)
"""What the generated function raises for a tuple that it does not take."""


EncodedRow: TypeAlias = tuple[bytes, bytes | None]
"""Row and key."""

Piece: TypeAlias = bytes | str
"""Of a row or a key: a constant, or the name of a variable."""


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


@dataclass(frozen=True, slots=True)
class CellCode:
    """The code that replaces one column's cell by its encoded form."""

    present: list[str]
    null: list[str]
    unchanged: list[str]

    @property
    def used(self) -> bool:
        """Whether the column comes out at all."""
        return bool(self.present)


@dataclass(slots=True)
class RowCode:
    """The code of a relation version's functions, while it is generated."""

    columns: Sequence[ColumnCode]
    layout: RowLayout
    names: dict[str, Any]
    """What the code uses."""
    cells: list[CellCode]
    """Of each column; the variable is ``c`` and its number."""
    result: list[str]
    """What puts ``row`` and ``key`` together, one level in."""

    @property
    def variables(self) -> str:
        """The left side of an assignment of all cells."""
        return "".join(f"c{index}, " for index in range(len(self.columns))) or "()"

    def compile(self, name: str, lines: Sequence[str]) -> Callable[..., Any]:
        """A function of these lines, which is compiled when it is first called."""
        self.names[name] = _compiled_when_called(name, "\n".join(lines), self.names)
        return self.names[name]  # type: ignore[no-any-return]


def row_code(columns: Sequence[ColumnCode], layout: RowLayout) -> RowCode:
    """What the functions of one relation version have in common."""
    names: dict[str, Any] = {**LOOK_AGAIN[1], "join": b"".join}
    cells = []
    for index, column in enumerate(columns):
        used = column.encoder is not None or column.key_encoder is not None
        cells.append(
            CellCode(
                present_lines(index, column, names) if used else [],
                _fixed_lines(index, column, "null", names) if used else [],
                _fixed_lines(index, column, "unchanged", names) if used else [],
            )
        )
    return RowCode(columns, layout, names, cells, _result_lines(columns, layout, names))


def compile_encode(code: RowCode) -> Callable[..., EncodedRow]:
    """``encode_row``: from cells to the encoded row and the encoded key."""
    lines = ["def encode_row(cells):", f"    {code.variables} = cells"]
    for index, cell in enumerate(code.cells):
        if cell.used:
            lines += _encode_lines(f"c{index}", cell)
    return code.compile("encode_row", [*lines, *code.result, "    return row, key"])


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


def _encode_lines(cell: str, code: CellCode) -> list[str]:
    """The code that replaces a cell that is in its variable already."""
    return [
        f"    if {cell} is None:",
        *indented(2, code.null),
        f"    elif {cell}.__class__ is bytes:",
        *indented(2, code.present),
        "    else:",
        *indented(2, code.unchanged),
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
