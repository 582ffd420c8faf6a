"""The functions that read rows, compiled for each version of a table: bytes in, tuples of cells out (`cells`). Pure."""

import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidings_capture.mysql.binlog import table_map as kinds
from tidings_capture.mysql.binlog.cells import (
    MISSING,
    Cells,
    date_cell,
    datetime_cell,
    decimal_cell,
    decimal_size,
    fraction_scale,
    label_cell,
    set_cell,
    time_cell,
    timestamp_cell,
    year_cell,
)
from tidings_capture.mysql.binlog.events import MOST_BYTES, PARTIAL_UPDATE_ROWS, ROWS, Event, decompressed
from tidings_capture.mysql.binlog.partial_rows import ReadImage, read_partial_rows
from tidings_capture.mysql.binlog.row_images import completed
from tidings_capture.mysql.binlog.table_map import LoggedColumn, TableMap
from tidings_capture.mysql.errors import BinlogError

Decode = Callable[[bytes], Any]
"""Makes a cell of its bytes."""
ReadRows = Callable[[bytes, int, int, Callable[[Cells], None]], None]
"""Reads rows from a buffer, between two positions, and hands each on."""
_MOST_IMAGES: Final = 256
"""Sets of columns that are remembered for one version of a table."""
_TIMES: Final = {kinds.DATE: 3, kinds.DATETIME2: 5, kinds.TIMESTAMP2: 4}
"""Bytes of times for which there may be a decoder, without their fractions."""
_FIXED: Final = {
    (kinds.TINY, False): "b",
    (kinds.TINY, True): "B",
    (kinds.SHORT, False): "h",
    (kinds.SHORT, True): "H",
    (kinds.LONG, False): "i",
    (kinds.LONG, True): "I",
    (kinds.LONGLONG, False): "q",
    (kinds.LONGLONG, True): "Q",
    (kinds.FLOAT, False): "f",
    (kinds.FLOAT, True): "f",
    (kinds.DOUBLE, False): "d",
    (kinds.DOUBLE, True): "d",
}


@dataclass(frozen=True, slots=True)
class RowsEvent:
    """Rows of one operation."""

    op: str
    data: bytes
    start: int
    width: int
    """How many columns the event speaks of."""
    images: tuple[bytes, ...]
    """Which of them each image has: one, and of an update two, before and after."""
    partial: bool = False
    """Whether rows after an update may have only what has changed in JSON documents (`partial_rows`)."""


def read_rows_event(event: Event) -> RowsEvent:
    """Of an event of rows, decompressed.

    Raises:
        BinlogError: it is malformed.
    """
    op, version, compressed = ROWS[event.type]
    reader = event.reader("of rows")
    reader.skip(8)
    if version == 2:
        extra = reader.number(2)
        if extra < 2:
            raise reader.error("has extra data of less than two bytes")
        reader.skip(extra - 2)
    width = reader.packed()
    if width > MOST_BYTES:
        raise reader.error("has too many columns")
    images = tuple(reader.take((width + 7) // 8) for _ in range(2 if op == "u" else 1))
    if compressed:
        return RowsEvent(op, decompressed(reader), 0, width, images)
    return RowsEvent(op, event.data, reader.position, width, images, event.type == PARTIAL_UPDATE_ROWS)


@dataclass
class Code:
    """Source code and what it names."""

    names: dict[str, Any] = field(default_factory=lambda: {"number": int.from_bytes})
    lines: list[str] = field(default_factory=list)

    def name(self, base: str, value: Any) -> str:
        self.names[base] = value
        return base


def compile_rows(
    columns: Sequence[LoggedColumn], decoders: Sequence[Decode | None], images: Sequence[Sequence[int]]
) -> ReadRows:
    """What reads rows; a cell that an image leaves out is `MISSING`.

    Args:
        decoders: for each column what makes a cell of its bytes, where that is not told by its type: for texts.
        images: the columns of each image, which follow each other again and again.
    """
    code = Code()
    code.names["MISSING"] = MISSING
    code.lines += ["def rows(data, at, end, take):", " while at < end:"]
    for there in images:
        code.lines += [f"  {line}" for line in _image_lines(columns, decoders, there, code)]
    exec("\n".join(code.lines), code.names)  # noqa: S102 - names and numbers of our own only
    made: ReadRows = code.names["rows"]
    return made


def compile_image(
    columns: Sequence[LoggedColumn], decoders: Sequence[Decode | None], there: Sequence[int]
) -> ReadImage:
    """What reads one image; arguments as of `compile_rows`."""
    code = Code()
    code.names["MISSING"] = MISSING
    code.lines += ["def image(data, at, take):", " end = len(data)"]
    code.lines += [f" {line}" for line in _image_lines(columns, decoders, there, code)]
    code.lines.append(" return at")
    exec("\n".join(code.lines), code.names)  # noqa: S102 - names and numbers of our own only
    made: ReadImage = code.names["image"]
    return made


def _image_lines(
    columns: Sequence[LoggedColumn], decoders: Sequence[Decode | None], there: Sequence[int], code: Code
) -> list[str]:
    """The code that reads one image and hands it on. Its bits for nulls are counted by the columns that are there."""
    size = (len(there) + 7) // 8
    lines = [
        f"nulls = number(data[at:at + {size}], 'little') & {(1 << len(there)) - 1}",
        f"at += {size}",
        "if not nulls:",
    ]
    lines += [f" {line}" for line in cell_lines(columns, decoders, code, there)] or [" pass"]
    lines.append("else:")
    for bit, index in enumerate(there):
        lines += [f" if nulls & {1 << bit}:", f"  v{index} = None", " else:"]
        lines += [f"  {line}" for line in one_cell(index, columns[index], decoders[index], code)]
    if not there:
        lines.append(" pass")
    values = "".join(f"v{index}, " if index in there else "MISSING, " for index in range(len(columns)))
    return [*lines, "if at > end: raise ValueError('a row is cut off')", f"take(({values}))"]


def cell_lines(
    columns: Sequence[LoggedColumn], decoders: Sequence[Decode | None], code: Code, there: Sequence[int]
) -> list[str]:
    """The code that reads the cells of a row, but for those that are null, into variables ``v`` with the column's number.

    It begins and ends at ``at`` of ``data``. Neighbours of fixed width are read at once.

    Args:
        there: the columns that have a cell.
    """
    lines: list[str] = []
    while there:
        form, names = "<", ""
        first = there[0]
        for index in there:
            fixed = _FIXED.get((columns[index].type, columns[index].unsigned))
            if fixed is None:
                break
            form, names = form + fixed, names + f"v{index}, "
        if not names:
            lines += one_cell(first, columns[first], decoders[first], code)
            there = there[1:]
            continue
        unpack = code.name(f"u{first}_{form[1:]}", struct.Struct(form).unpack_from)
        lines.append(f"{names}= {unpack}(data, at); at += {struct.calcsize(form)}")
        there = there[len(form) - 1 :]
    return lines


def one_cell(index: int, column: LoggedColumn, decode: Decode | None, code: Code) -> list[str]:
    """The code that reads one cell; see `cell_lines`."""
    kind, meta, v = column.type, column.meta, f"v{index}"
    fixed = _FIXED.get((kind, column.unsigned))
    if fixed is not None:
        unpack = code.name(f"f{index}", struct.Struct("<" + fixed).unpack_from)
        return [f"{v}, = {unpack}(data, at); at += {struct.calcsize('<' + fixed)}"]
    if kind == kinds.INT24:
        return [f"{v} = number(data[at:at + 3], 'little', signed={not column.unsigned}); at += 3"]
    if kind in {kinds.VARCHAR, kinds.STRING}:
        return _sized(v, 2 if meta > 255 else 1, _shown(index, column, decode, code))
    if kind in {kinds.BLOB, kinds.GEOMETRY, kinds.JSON, kinds.VECTOR}:
        return _sized(v, meta, _shown(index, column, decode, code))
    if decode is not None and kind in _TIMES:
        size = _TIMES[kind] + (0 if kind == kinds.DATE else (meta + 1) // 2)
        return [f"{v} = {code.name(f'd{index}', decode)}(data[at:at + {size}]); at += {size}"]
    size, shown = _number(index, column, decode, code)
    return [f"{v} = {shown}; at += {size}"]


def _sized(v: str, size: int, shown: str) -> list[str]:
    known = {1: "data[at]", 2: "(data[at] | data[at + 1] << 8)"}
    length = known.get(size, f"number(data[at:at + {size}], 'little')")
    return [f"e = at + {size} + {length}", f"{v} = {shown.format(f'data[at + {size}:e]')}", "at = e"]


def _shown(index: int, column: LoggedColumn, decode: Decode | None, code: Code) -> str:
    """What becomes of the bytes, which stand for ``{}``."""
    if decode is not None:
        return f"{code.name(f'd{index}', decode)}({{}})"
    if column.type == kinds.STRING:  # without the zeros at its end
        return f"{{}}.ljust({column.meta}, b'\\0')"
    return "{}"


def _number(index: int, column: LoggedColumn, decode: Decode | None, code: Code) -> tuple[int, str]:
    """Size, and what becomes of the bytes."""
    meta = column.meta

    def big(start: int, end: int) -> str:
        return f"number(data[at + {start}:at + {end}], 'big')"

    def little(size: int) -> str:
        return f"number(data[at:at + {size}], 'little')"

    def call(function: Callable[..., Any], *arguments: str) -> str:
        return f"{code.name(f'c{index}', function)}({', '.join(arguments)})"

    fraction, scale = (meta + 1) // 2, fraction_scale(meta) if meta <= 6 else 1
    match column.type:
        case kinds.YEAR:
            return 1, call(year_cell, little(1))
        case kinds.DATE:
            return 3, call(date_cell, little(3))
        case kinds.TIME2:
            return 3 + fraction, call(time_cell, big(0, 3 + fraction), str(fraction), str(scale))
        case kinds.DATETIME2:
            return 5 + fraction, call(datetime_cell, big(0, 5), f"{big(5, 5 + fraction)} * {scale}")
        case kinds.TIMESTAMP2:
            return 4 + fraction, call(timestamp_cell, big(0, 4), f"{big(4, 4 + fraction)} * {scale}")
        case kinds.NEWDECIMAL:
            size = decimal_size(meta >> 8, meta & 255)
            return size, call(decode or decimal_cell(meta >> 8, meta & 255), f"data[at:at + {size}]")
        case kinds.BIT:
            size = (meta + 7) // 8
            return size, big(0, size)
        case kinds.ENUM | kinds.SET:
            labels = tuple((decode or bytes.decode)(label) for label in column.labels)
            reads = label_cell(labels) if column.type == kinds.ENUM else set_cell(labels)
            return meta, call(reads, little(meta))
        case _:
            raise BinlogError(f"column {column.name!r} is of type {column.type}, which is not read")


class TableRows:
    """Reads the rows of one version of a table.

    Args:
        unset: see `completed`.
    """

    def __init__(
        self, table: TableMap, decoders: Sequence[Decode | None], unset: Collection[int] = ()
    ) -> None:
        self.table = table
        self._unset = unset
        self._decoders = decoders
        self._full = (1 << len(table.columns)) - 1
        self._by_images: dict[tuple[int, ...], ReadRows] = {}

    def read(self, event: RowsEvent, position: str) -> list[Cells]:
        """The rows of an event; of an update each row before and, behind it, after. See `row_images` for cells that the log
        leaves out.

        Args:
            position: where the event is, for errors.

        Raises:
            BinlogError: the event is malformed.
        """
        name = self.table.name
        if event.width != len(self.table.columns):
            raise BinlogError(
                f"an event at {position} has {event.width} columns in place of {len(self.table.columns)} of {name}"
            )
        images = tuple(int.from_bytes(image, "little") & self._full for image in event.images)
        found: list[Cells] = []
        try:
            if event.partial:
                found += self._partial_rows(event, images)
            else:
                self._reader(images)(event.data, event.start, len(event.data), found.append)
        except (BinlogError, ValueError, IndexError, struct.error, OverflowError):
            # Without its cause, which may quote the value.
            raise BinlogError(
                f"row {len(found) // len(images) + 1} of an event at {position} cannot be read as one of {name}"
            ) from None
        if any(image != self._full for image in images):
            return completed(event.op, found, self.table.columns, self._unset)
        return found

    def _partial_rows(self, event: RowsEvent, images: tuple[int, ...]) -> list[Cells]:
        columns = self.table.columns
        decoders = [
            None if column.type == kinds.JSON else decode
            for column, decode in zip(columns, self._decoders, strict=True)
        ]
        before, after = (
            compile_image(columns, decoders, [i for i in range(len(columns)) if image >> i & 1])
            for image in images
        )
        return read_partial_rows(event.data, event.start, columns, before, after)

    def _reader(self, images: tuple[int, ...]) -> ReadRows:
        known = self._by_images.get(images)
        if known is None:
            if len(self._by_images) >= _MOST_IMAGES:
                self._by_images.clear()
            there = [[i for i in range(len(self.table.columns)) if image >> i & 1] for image in images]
            known = self._by_images[images] = compile_rows(self.table.columns, self._decoders, there)
        return known
