"""Direct ways from a cell as the server writes it in a result, as text, to its encoded form: generated code. Pure.

Each gives the bytes that `selected.reader`, `RowField.convert` and the codec would give, or raises one of `row_encoder.IRREGULAR`;
a test compares them. A cell that has not the usual form of its column goes the long way, or is refused there.
"""

from abc import ABC, abstractmethod
from binascii import b2a_base64
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from tidings_capture.cdc.encoding.remembered import TWO_DIGITS, Memory, Sizes
from tidings_capture.mysql.binlog.cells import ZERO, days_of
from tidings_capture.mysql.binlog.row_code import Code
from tidings_capture.mysql.encoding.fields import RowField
from tidings_capture.mysql.encoding.kinds import same
from tidings_capture.mysql.encoding.row_struct import Piece, PieceMaker
from tidings_capture.mysql.encoding.selected import TEXTS, WHOLE, Read, sent
from tidings_capture.mysql.encoding.time_fields import millis
from tidings_capture.mysql.schemas.catalog import Column
from tidings_envelope.avro.codec import long_avro, present_branch
from tidings_envelope.codec import Codec, Encoder
from tidings_envelope.decimals import CONNECT_DECIMAL
from tidings_envelope.json_codec import DecimalFormat, JsonCodec, string_json
from tidings_envelope.schema import ConnectType

_EPOCH: Final = b"1970-01-01 00:01"
"""Times that sort behind this, as texts, are positive."""
_DATE: Final = 10
_SECONDS: Final = 19
"""The lengths of ``2026-11-28`` and ``2026-11-28 12:34:56``."""


def text_pieces(columns: Sequence[Column], codec: Codec, code: Code) -> PieceMaker:
    """What makes the code for the fields of a table's columns."""
    kind = _Json if isinstance(codec, JsonCodec) else _Avro

    def piece(name: str, index: int, field: RowField) -> Piece:
        return kind(name, f"v{index}", columns[index], field, codec, code).piece()

    return piece


def _minute_seconds(minute: bytes) -> int:
    days = days_of(int(minute[:4]), int(minute[5:7]), int(minute[8:10]))
    if days is ZERO:
        raise ValueError("no calendar has this date")
    return (days * 1_440 + int(minute[11:13]) * 60 + int(minute[14:16])) * 60


_MINUTES: Final = Memory(_minute_seconds)
"""Seconds since the epoch of ``2026-11-28 12:34``."""


def _day_known(day: bytes) -> bool:
    return days_of(int(day[:4]), int(day[5:7]), int(day[8:])) is not ZERO


_DAYS: Final = Memory(_day_known)
"""Whether a calendar has ``2026-11-28``."""


class _Cell(ABC):
    """What becomes of a column's cells.

    Args:
        name: for variables of its own.
        v: the variable with the cell.
    """

    def __init__(self, name: str, v: str, column: Column, field: RowField, codec: Codec, code: Code) -> None:
        self.name, self.v, self.column, self.field, self.codec, self.code = (
            name,
            v,
            column,
            field,
            codec,
            code,
        )
        self.schema = field.schema
        self.read: Read = sent(column)
        self.encode: Encoder = codec.encoder(field.schema)

    def piece(self) -> Piece:
        """The code."""
        kind, schema, convert = self.column.type, self.schema, self.field.convert
        if kind in WHOLE and convert is same:
            return self.whole()
        if kind in {"enum", "set", "date"}:
            return self.remembered()
        if kind in TEXTS | {"json"} and convert is same and schema.type is ConnectType.STRING:
            return self.text()
        if kind == "decimal" and schema.name == CONNECT_DECIMAL and (self.column.scale or 0) > 0:
            return self.decimal(-(self.column.scale or 0) - 1)
        if kind == "double" and convert is same:
            return self.double()
        if kind == "datetime" and self.field.regular in {millis, same}:
            return self.datetime(3 if self.field.regular is millis else 6)
        if kind == "timestamp" and not self.field.is_changed:
            return self.zoned()
        return Piece([], self.other())

    @abstractmethod
    def whole(self) -> Piece:
        """A whole number."""

    @abstractmethod
    def text(self) -> Piece:
        """A text that is its own value."""

    @abstractmethod
    def decimal(self, point: int) -> Piece:
        """A DECIMAL with its point at an index from the end."""

    def double(self) -> Piece:
        """A DOUBLE."""
        return Piece([], self.other())

    @abstractmethod
    def datetime(self, digits: int) -> Piece:
        """A DATETIME as milli- or microseconds."""

    @abstractmethod
    def zoned(self) -> Piece:
        """A TIMESTAMP as text."""

    def remembered(self) -> Piece:
        """A cell of which there are few."""
        return Piece([], f"{self.own('m', Memory(self._encoded()))}[{self.v}]")

    def other(self) -> str:
        """The long way, as an expression."""
        return f"{self.own('o', self._encoded())}({self.v})"

    def own(self, base: str, value: Any) -> str:
        """A name for something of this field's own."""
        return self.code.name(f"{base}_{self.name}", value)

    def shared(self, **values: Any) -> None:
        """Names that mean the same for all fields."""
        self.code.names.update(values)

    def checked(self, condition: str, some: str) -> Piece:
        """An expression where the cell has its usual form."""
        return Piece([f"{self.name} = {some} if {condition} else {self.other()}"], self.name)

    def _encoded(self) -> Callable[[bytes], bytes]:
        read, convert, encode = self.read, self.field.convert, self.encode
        if convert is same:
            return lambda cell: encode(read(cell))
        return lambda cell: encode(convert(read(cell)))

    def seconds(self) -> str:
        """The seconds of a DATETIME since the epoch."""
        self.shared(MINUTES=_MINUTES, TWO_DIGITS=TWO_DIGITS)
        return f"MINUTES[{self.v}[:16]] + TWO_DIGITS[{self.v}[17:19]]"

    def is_time(self) -> str:
        """Whether a time is one after 1970, with its column's decimals."""
        decimals = self.column.decimals or 0
        self.shared(EPOCH=_EPOCH)
        return f"len({self.v}) == {_SECONDS + (decimals + 1 if decimals else 0)} and {self.v} > EPOCH"

    def fraction(self, digits: int) -> str:
        """That many digits behind the seconds."""
        decimals = self.column.decimals or 0
        if not decimals:
            return repr(b"0" * digits)
        return f"{self.v}[20:{20 + digits}].ljust({digits}, b'0')"


class _Json(_Cell):
    """In JSON."""

    def whole(self) -> Piece:
        """A number is its own JSON, but for zeros before it."""
        v = self.v
        return Piece([], f"({v} if {v}[0] > 48 and {v}.isdigit() else b'%d' % int({v}))")

    def text(self) -> Piece:
        """As the functions of the log do: see `row_struct.Struct`."""
        if self.name.startswith("r"):
            self.shared(dumps=orjson.dumps)
            return Piece([], f"dumps({self.v}.decode())", is_loose=True)
        self.shared(string_json=string_json)
        return Piece([], f"string_json({self.v}.decode())")

    def decimal(self, point: int) -> Piece:
        """The base64 of the digits as a number."""
        if isinstance(self.codec, JsonCodec) and self.codec.decimal_format is DecimalFormat.NUMERIC:
            return Piece([], self.other())
        self.shared(b2a_base64=b2a_base64)
        lines = [
            f"n = int({self.v}.replace(b'.', b'')) if {self.v}[{point}] == 46 else -1",
            "if n >= 0:",
            f"    {self.name} = b'\"%b\"' % b2a_base64(n.to_bytes(n.bit_length() // 8 + 1, 'big'), newline=False)",
            "else:",
            f"    {self.name} = {self.other()}",
        ]
        return Piece(lines, self.name)

    def double(self) -> Piece:
        """The server writes as many digits as Java does; where Java has no exponent and both a point, they are the same."""
        a, b = f"{self.name}_whole", f"{self.name}_decimals"
        lines = [f"{a}, _, {b} = {self.v}.partition(b'.')"]
        usual = f"{a}.isdigit() and {b}.isdigit() and len({a}) < 8 and ({a} != b'0' or {b}[:3] != b'000') and {b}[-1] != 48"
        return Piece([*lines, *self.checked(usual, self.v).lines], self.name)

    def datetime(self, digits: int) -> Piece:
        """Seconds, and digits behind them."""
        return self.checked(self.is_time(), f"b'%d%b' % ({self.seconds()}, {self.fraction(digits)})")

    def zoned(self) -> Piece:
        """With T and Z."""
        self.shared(DAYS=_DAYS)
        v = self.v
        return self.checked(
            f"{self.is_time()} and DAYS[{v}[:{_DATE}]]", f"b'\"%bT%bZ\"' % ({v}[:{_DATE}], {v}[11:])"
        )


class _Avro(_Cell):
    """In Avro's binary encoding."""

    def __init__(self, name: str, v: str, column: Column, field: RowField, codec: Codec, code: Code) -> None:
        super().__init__(name, v, column, field, codec, code)
        self.branch = present_branch(field.schema)

    def whole(self) -> Piece:
        """A varint."""
        self.shared(long=long_avro)
        return Piece([], f"long(int({self.v}))", before=self.branch)

    def text(self) -> Piece:
        """Its length in bytes, and itself."""
        lines = [f"if not {self.v}.isascii(): {self.v}.decode()  # or it is refused"]
        return Piece(lines, f"{self.own('s', Sizes(self.branch))}[len({self.v})] + {self.v}")

    def decimal(self, point: int) -> Piece:
        """The digits as a number, of bytes."""
        sizes = self.own("s", Sizes(self.branch))
        lines = [
            f"n = int({self.v}.replace(b'.', b'')) if {self.v}[{point}] == 46 else -1",
            "if n >= 0:",
            f"    {self.name} = n.to_bytes(n.bit_length() // 8 + 1, 'big')",
            f"    {self.name} = {sizes}[len({self.name})] + {self.name}",
            "else:",
            f"    {self.name} = {self.other()}",
        ]
        return Piece(lines, self.name)

    def datetime(self, digits: int) -> Piece:
        """A varint."""
        self.shared(long=long_avro)
        number = f"({self.seconds()}) * {10**digits} + int({self.fraction(digits)})"
        return self.checked(self.is_time(), f"{self.own('b', self.branch)} + long({number})")

    def zoned(self) -> Piece:
        """With T and Z; all are of one length."""
        self.shared(DAYS=_DAYS)
        decimals = self.column.decimals or 0
        size = _SECONDS + 1 + (decimals + 1 if decimals else 0)
        form = self.own("f", self.branch + long_avro(size) + b"%bT%bZ")
        v = self.v
        return self.checked(
            f"{self.is_time()} and DAYS[{v}[:{_DATE}]]", f"{form} % ({v}[:{_DATE}], {v}[11:])"
        )
