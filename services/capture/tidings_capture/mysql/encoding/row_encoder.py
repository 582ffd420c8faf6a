"""From the log's bytes straight to encoded rows and keys, by functions that are compiled for each version of a table. Pure.

`TableRows` and `TablePlan` say what a row becomes; this gives the same bytes without the values between. Functions are made
per set of nulls, which are few in most tables; rows with further sets are read by one function that looks at each.
"""

import struct
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

import orjson

from tidings_capture.mysql.binlog.cells import ZERO, Cells
from tidings_capture.mysql.binlog.row_code import Code, Decode, cell_lines, one_cell
from tidings_capture.mysql.binlog.table_map import LoggedColumn
from tidings_capture.mysql.encoding.fields import RowField, StructFields
from tidings_capture.mysql.encoding.kinds import same
from tidings_capture.mysql.encoding.log_cells import encoded_cell
from tidings_capture.mysql.encoding.row_struct import Piece, RowStructs
from tidings_capture.mysql.encoding.time_fields import millis
from tidings_connect.converters.encoding import Converter
from tidings_connect.errors import RecordError
from tidings_envelope.avro.codec import long_avro, present_branch, string_avro
from tidings_envelope.codec import Codec
from tidings_envelope.decimals import CONNECT_DECIMAL
from tidings_envelope.json_codec import JsonCodec, string_json
from tidings_envelope.schema import ConnectType

EncodedRow = tuple[bytes, bytes | None]
"""Row and key."""
IRREGULAR: Final = (LookupError, ValueError, ArithmeticError, TypeError, struct.error, RecordError)
"""What reading raises for rows that `TableRows` and `TablePlan` have to be asked about."""
_ReadRow = Callable[[bytes, int], tuple[int, bytes, bytes | None]]
_INTEGERS: Final = frozenset({ConnectType.INT16, ConnectType.INT32, ConnectType.INT64})
_MOST_SETS: Final = 64
"""Sets of nulls with a function of their own."""


class RowEncoder:
    """Encodes the rows of one version of a table.

    Args:
        decoders: as for `TableRows`.
        row: the row's struct.
        key: the key's; None: the table has none.
        topic: the table's.
        converters: for keys and values; both have codecs.
    """

    def __init__(
        self,
        columns: Sequence[LoggedColumn],
        decoders: Sequence[Decode | None],
        row: StructFields,
        key: StructFields | None,
        topic: str,
        converters: tuple[Converter, Converter],
    ) -> None:
        self._columns = columns
        self._size = (len(columns) + 7) // 8
        self._mask = (1 << len(columns)) - 1
        code = self._code = Code()
        in_key = {index for index, _ in key.fields} if key is not None else set()
        self._decoders = list(decoders)
        decoded = set()
        for index, field in row.fields:
            made = None if index in in_key else encoded_cell(field, columns[index], converters[1].codec)
            if made is not None:
                self._decoders[index] = made
                decoded.add(index)
        self._structs = RowStructs(
            row,
            key,
            topic,
            converters,
            code,
            lambda codec: partial(_piece, codec=codec, code=code, decoded=decoded),
        )
        self._by_nulls: dict[int, _ReadRow] = {}
        self._any: _ReadRow | None = None

    def read(self, data: bytes, at: int, end: int) -> list[EncodedRow]:
        """The rows between two positions of a buffer.

        Raises:
            Exception: one of `IRREGULAR`.
        """
        found: list[EncodedRow] = []
        size, mask, known = self._size, self._mask, self._by_nulls
        number = int.from_bytes
        while at < end:
            nulls = number(data[at : at + size], "little") & mask
            read = known.get(nulls) or self._function(nulls)
            at, row, key = read(data, at)
            if at > end:
                raise ValueError("a row is cut off")
            found.append((row, key))
        return found

    def _function(self, nulls: int) -> _ReadRow:
        if len(self._by_nulls) < _MOST_SETS:
            made = self._by_nulls[nulls] = self._compiled(self._lines_of_set(nulls))
            return made
        if self._any is None:
            self._any = self._compiled(self._lines_of_any())
        return self._any

    def _compiled(self, lines: list[str]) -> _ReadRow:
        source = "\n".join(["def read_row(data, at):", *(f" {line}" for line in lines)])
        exec(source, self._code.names)  # noqa: S102 - names and numbers of our own only
        made: _ReadRow = self._code.names["read_row"]
        return made

    def _lines_of_set(self, nulls: int) -> list[str]:
        there = [index for index in range(len(self._columns)) if not nulls >> index & 1]
        return [
            f"at += {self._size}",
            *cell_lines(self._columns, self._decoders, self._code, there),
            *self._structs.lines(nulls),
            "return at, row, key",
        ]

    def _lines_of_any(self) -> list[str]:
        lines = [
            f"nulls = number(data[at:at + {self._size}], 'little') & {self._mask}",
            f"at += {self._size}",
        ]
        for index, (column, decode) in enumerate(zip(self._columns, self._decoders, strict=True)):
            lines.append(f"if nulls & {1 << index}:")
            lines += [f" {line}" for line in self._structs.null_lines(index)] or [" pass"]
            lines.append("else:")
            lines += [f" {line}" for line in one_cell(index, column, decode, self._code)]
            lines += [f" {line}" for line in self._structs.present_lines(index)]
        return [*lines, *self._structs.joined_lines(), "return at, row, key"]


class CellEncoder:
    """Encodes rows of cells, as a snapshot reads them; arguments as of `RowEncoder`."""

    def __init__(
        self,
        width: int,
        row: StructFields,
        key: StructFields | None,
        topic: str,
        converters: tuple[Converter, Converter],
    ) -> None:
        code = Code()
        structs = RowStructs(
            row, key, topic, converters, code, lambda codec: partial(_piece, codec=codec, code=code)
        )
        lines = ["def encode(cells):", f" {''.join(f'v{index}, ' for index in range(width))}= cells"]
        for index in range(width):
            present = [f"  {line}" for line in structs.present_lines(index)]
            if present:
                lines += [
                    f" if v{index} is None:",
                    *(f"  {line}" for line in structs.null_lines(index)),
                    " else:",
                    *present,
                ]
        lines += [*(f" {line}" for line in structs.joined_lines()), " return row, key"]
        exec("\n".join(lines), code.names)  # noqa: S102 - names and numbers of our own only
        self.encode: Callable[[Cells], EncodedRow] = code.names["encode"]
        """The row and its key; raises one of `IRREGULAR`."""


def _piece(
    name: str, index: int, field: RowField, *, codec: Codec, code: Code, decoded: Collection[int] = ()
) -> Piece:
    """What becomes of a cell (`row_struct.PieceMaker`).

    Args:
        decoded: columns whose cells are encoded when they are read.
    """
    schema, v = field.schema, f"v{index}"
    is_json = isinstance(codec, JsonCodec)
    if index in decoded:
        return Piece([], v)
    if schema.type is ConnectType.FLOAT64 and field.convert is same:
        return _double(name, v, field, codec, code)
    if schema.name == CONNECT_DECIMAL or schema.type not in _INTEGERS | {ConnectType.STRING}:
        return _general(name, v, field, codec, code)
    if schema.type is ConnectType.STRING:
        if field.convert is not same:
            return _general(name, v, field, codec, code)
        if is_json and name.startswith("r"):
            return Piece([], f"{code.name('dumps', orjson.dumps)}({v})", is_loose=True)
        if is_json:
            return Piece([], f"{code.name('text', string_json)}({v})")
        return Piece([], f"{code.name('text', string_avro)}({v})", before=present_branch(schema))
    return _whole_piece(name, v, field, codec, code)


def _double(name: str, v: str, field: RowField, codec: Codec, code: Code) -> Piece:
    """Python writes what Java writes where neither has an exponent."""
    if not isinstance(codec, JsonCodec):
        return Piece(
            [], f"{code.name('double', struct.Struct('<d').pack)}({v})", before=present_branch(field.schema)
        )
    encode = code.name(f"e_{name}", codec.encoder(field.schema))
    return Piece([], f"(b'%a' % {v} if 0.001 <= {v} < 1e7 else {encode}({v}))")


def _whole_piece(name: str, v: str, field: RowField, codec: Codec, code: Code) -> Piece:
    """Of a whole number."""
    schema, is_json = field.schema, isinstance(codec, JsonCodec)
    if field.regular is not same and field.regular is not millis:
        return _general(name, v, field, codec, code)
    number = v if field.regular is same else f"{v} // 1000"
    if field.convert is not field.regular:
        code.name("ZERO", ZERO)
        nothing = code.name(f"z_{name}", codec.encoder(schema)(field.convert(ZERO)))
        some = f"b'%d' % ({number})"
        if not is_json:
            branch = code.name(f"b_{name}", present_branch(schema))
            some = f"{branch} + {code.name('long', long_avro)}({number})"
        return Piece([f"{name} = {nothing} if {v} is ZERO else {some}"], name)
    if is_json:
        return Piece([], number, "%d")
    return Piece([], f"{code.name('long', long_avro)}({number})", before=present_branch(schema))


def _general(name: str, v: str, field: RowField, codec: Codec, code: Code) -> Piece:
    """Through its value."""
    encode, convert = code.name(f"e_{name}", codec.encoder(field.schema)), field.convert
    if convert is same:
        return Piece([], f"{encode}({v})")
    return Piece([], f"{encode}({code.name(f'x_{name}', convert)}({v}))")
