"""Generates a relation version's functions from PostgreSQL's tuples to the encoded row and key.

`RowFunctions.read` walks pgoutput's TupleData in a message once, column after column without a loop;
`RowFunctions.lines` takes lines of COPY. Cells are replaced by what `cdc.encoding.plan_code` generates.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn, TypeAlias

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.encoding.plan_code import (
    CellCode,
    ColumnCode,
    EncodedRow,
    RowLayout,
    compile_encode,
    indented,
    row_code,
)
from tidings_capture.postgres.wire.copy_format import parse_copy_line

WalkTuple: TypeAlias = Callable[[bytes, int], tuple[bytes, bytes | None, int]]
"""From a buffer and a tuple's start to the encoded row, the encoded key, and the position after the tuple."""


class RowFunctions(NamedTuple):
    """What is generated for one relation version; each is compiled when it is first called."""

    read: WalkTuple
    encode: Callable[[Cells], EncodedRow]
    """From cells to the encoded row and the encoded key."""
    lines: Callable[[Sequence[bytes], Callable[[EncodedRow], None]], None]
    """From lines of COPY's text format to the encoded row and the encoded key of each, handed on one by one: what is
    handed on before an exception stays good."""


def _irregular(*_: object) -> NoReturn:
    raise ValueError


NO_FUNCTIONS: Final = RowFunctions(_irregular, _irregular, _irregular)
"""Functions that take nothing, so that every row goes the checked way."""


def compile_row_functions(columns: Sequence[ColumnCode], layout: RowLayout) -> RowFunctions:
    """Generates the functions for one relation version."""
    code = row_code(columns, layout)
    code.names |= {
        "COUNT": len(columns).to_bytes(2, "big"),
        "PADDING": bytes(4),
        "kind_and_size": struct.Struct(">BI").unpack_from,
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
    # A backslash is a null or an escape. Most lines have none, and then their cells are what stands between the tabs.
    lines = [
        "def encode_lines(lines, add):",
        "  for line in lines:",
        "    if ESCAPE in line:",
        "        add(encode_row(parse_copy_line(line)))",
        "        continue",
        f"    {code.variables} = line[:-1].split(TAB)",
    ]
    for index, cell in enumerate(code.cells):
        read += _read_lines(f"c{index}", cell)
        lines += [f"    {line}" for line in cell.present]
    encode = compile_encode(code)
    return RowFunctions(
        code.compile("read_row", [*read, *code.result, "    return row, key, p"]),
        encode,
        code.compile("encode_lines", [*lines, *code.result, "    add((row, key))"]),
    )


def _read_lines(cell: str, code: CellCode) -> list[str]:
    """The code that reads a cell from the buffer; one that is not used is skipped."""
    return [
        "    kind, size = kind_and_size(data, p)",
        "    if kind == 116:",
        "        q = p + 5",
        "        p = q + size",
        *indented(2, [f"{cell} = data[q:p]", *code.present] if code.used else []),
        "    elif kind == 110:",
        *indented(2, code.null),
        "        p += 1",
        "    elif kind == 117:",
        *indented(2, code.unchanged),
        "        p += 1",
        "    else:",
        "        raise ValueError",
    ]
