"""What a column becomes in records: its Connect schema, and what makes a value of a cell (`cells`). As Debezium's. Pure.

Reference: ``io.debezium.connector.mariadb.jdbc.MariaDbValueConverters``, ``io.debezium.connector.binlog.jdbc``; each
statement here was compared with what the connector 3.5.0 writes.
"""

import base64
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

from tidings_capture.cdc.encoding.column_mappers import ColumnMappers
from tidings_capture.cdc.encoding.options import (
    BinaryHandling,
    DecimalHandling,
    FailureHandling,
    TimePrecision,
)
from tidings_capture.cdc.naming import KeyField, NameAdjustment, adjusted
from tidings_capture.cdc.types.conversion import NoRepresentationError
from tidings_capture.mysql.binlog.cells import ZERO
from tidings_capture.mysql.encoding.kinds import Convert, Kind, same
from tidings_capture.mysql.encoding.selected import (
    BYTES,
    GEOMETRIES,
    TEXTS,
    date_of_text,
    datetime_of_text,
    time_of_text,
)
from tidings_capture.mysql.encoding.time_fields import MAY_FAIL, time_kind
from tidings_capture.mysql.errors import UnsupportedError
from tidings_capture.mysql.schemas.catalog import Column
from tidings_connect.errors import RecordError
from tidings_connect.java.regex import JavaPattern
from tidings_envelope import semantic
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType
from tidings_envelope.toast import UNAVAILABLE
from tidings_service import get_logger

_log = get_logger(__name__)
_YEAR: Final = ConnectSchema(ConnectType.INT32, name="io.debezium.time.Year", version=1)
_GEOMETRY: Final = (
    ("wkb", ConnectSchema(ConnectType.BYTES)),
    ("srid", ConnectSchema(ConnectType.INT32, optional=True)),
)
_POINT: Final = (
    ("x", ConnectSchema(ConnectType.FLOAT64)),
    ("y", ConnectSchema(ConnectType.FLOAT64)),
    ("wkb", ConnectSchema(ConnectType.BYTES, optional=True)),
    ("srid", ConnectSchema(ConnectType.INT32, optional=True)),
)
_VECTOR: Final = ConnectSchema(
    ConnectType.ARRAY,
    name="io.debezium.data.FloatVector",
    version=1,
    items=ConnectSchema(ConnectType.FLOAT32),
)
_UNSIGNED_DIGITS: Final = 20
"""Of a BIGINT UNSIGNED."""
_LONGEST: Final = (1 << 63) - 1
"""What Debezium makes of a greater default of BIGINT UNSIGNED."""
_LITERAL: Final = re.compile(r"'((?:[^']|'')*)'")
_BITS: Final = re.compile(r"b'([01]*)'")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_MOST_DIGITS: Final = Context(prec=65, traps=[InvalidOperation])
"""Those of a DECIMAL."""
_ESCAPES: Final = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """The options that decide about values."""

    decimals: DecimalHandling = DecimalHandling.PRECISE
    times: TimePrecision = TimePrecision.ADAPTIVE_TIME_MICROSECONDS
    unsigned: str = "long"
    """``bigint.unsigned.handling.mode``: ``long`` or ``precise``."""
    binaries: BinaryHandling = BinaryHandling.BYTES
    unavailable: bytes = UNAVAILABLE.encode()
    """``unavailable.value.placeholder``."""
    failures: FailureHandling = FailureHandling.WARN
    names: NameAdjustment = NameAdjustment.NONE
    """``field.name.adjustment.mode``."""
    comments: bool = False
    """``include.schema.comments``."""
    mappers: ColumnMappers = field(default_factory=ColumnMappers)
    """What ``column.mask.*`` and its like do to columns."""
    propagated_columns: tuple[JavaPattern, ...] = ()
    """``column.propagate.source.type``: names ``database.table.column``."""
    propagated_types: tuple[JavaPattern, ...] = ()
    """``datatype.propagate.source.type``: names ``database.table.type``."""


@dataclass(frozen=True, slots=True)
class RowField:
    """A column's field in records."""

    name: str
    """The column's, as far as ``field.name.adjustment.mode`` lets it."""
    schema: ConnectSchema
    convert: Convert
    """From a cell that is not NULL."""
    regular: Convert
    """The same, for cells that are not `ZERO`."""
    unavailable: Any
    """What stands for a value that the log does not tell; `NO_DEFAULT`: its type has none."""
    null: Any = None
    """What stands for NULL."""
    is_changed: bool = False
    """Whether an option masks, cuts or hashes its values (`column.mask.*` and its like)."""


@dataclass(frozen=True, slots=True)
class StructFields:
    """A struct's fields, and where its cells stand."""

    schema: ConnectSchema
    fields: Sequence[tuple[int, RowField]]
    """Each with its column's number."""
    constant: KeyField | None = None
    """A field behind them that no column has: a key's, of a topic that tables share."""


def row_field(column: Column, options: FieldOptions) -> RowField:
    """What becomes of a column.

    Raises:
        UnsupportedError: for a type that is not read.
    """
    schema, regular, zero = _kind(column, options)
    if column.nullable:
        schema = schema.as_optional()
    if regular in MAY_FAIL:
        regular = _tolerant(column, regular, options.failures)
    if options.comments and column.comment:
        schema = replace(schema, doc=column.comment)
    convert = regular if zero is None else _with_zero(regular, None if column.nullable else zero[0])
    default = _default(column, convert)
    schema = replace(schema, default=default)
    if zero is not None and default is not NO_DEFAULT and not column.nullable:
        convert = _with_zero(regular, default)  # as Debezium, which takes such a date for a null
    name = adjusted(column.name, options.names, field=True)
    return RowField(name, schema, convert, regular, _unavailable(column, schema, options))


def _tolerant(column: Column, convert: Convert, failures: FailureHandling) -> Convert:
    """As ``event.converting.failure.handling.mode`` says."""
    warned = False

    def tolerant(cell: Any) -> Any:
        nonlocal warned
        try:
            return convert(cell)
        except NoRepresentationError as error:
            if not column.nullable or failures is FailureHandling.FAIL:
                raise RecordError(
                    f"column {column.name!r}: {error}",
                    hint="set time.precision.mode=adaptive_time_microseconds",
                ) from None
            if failures is FailureHandling.WARN and not warned:
                warned = True
                _log.warning("a value became null", column=column.name, type=column.type, reason=str(error))
            return None

    return tolerant


def _unavailable(column: Column, schema: ConnectSchema, options: FieldOptions) -> Any:
    if column.type not in TEXTS | BYTES:
        return NO_DEFAULT
    placeholder = options.unavailable
    return placeholder if schema.type is ConnectType.BYTES else placeholder.decode(errors="replace")


def _with_zero(convert: Convert, zero: Any) -> Convert:
    return lambda cell: zero if cell is ZERO else convert(cell)


def _kind(column: Column, options: FieldOptions) -> Kind:  # noqa: PLR0911 - one for each group of types
    kind = column.type
    whole = _WHOLE.get((kind, column.unsigned))
    if whole is not None:
        return ConnectSchema(whole), same, None
    if kind == "bigint":
        return _unsigned_bigint(options)
    if kind in {"float", "double"}:
        # FLOAT(7,3) is a double, and FLOAT a float.
        single = kind == "float" and "(" not in column.declared
        if single:
            return ConnectSchema(ConnectType.FLOAT32), shortest_float, None
        return ConnectSchema(ConnectType.FLOAT64), same, None
    if kind == "decimal":
        return _decimal(column.precision or 10, column.scale or 0, options.decimals)
    if kind == "bit":
        return _bit(column.precision or 1)
    if kind in {"date", "time", "datetime", "timestamp"}:
        return time_kind(column, options.times)
    if kind in {"enum", "set"}:
        return _labels(column), same, None
    if kind in {"json", "vector"}:
        return (semantic.JSON, same, None) if kind == "json" else (_VECTOR, _floats, None)
    if kind in TEXTS | {"year"}:
        return _YEAR if kind == "year" else semantic.STRING, same, None
    if kind in BYTES | GEOMETRIES:
        return _binary(options.binaries) if kind in BYTES else _geometry(kind)
    raise UnsupportedError(
        f"column {column.name!r} is of type {column.type}, which is not read",
        hint="leave its table out with table.exclude.list",
    )


_FLOAT: Final = struct.Struct("<f")


def shortest_float(cell: float) -> float:
    """The number with the fewest digits that is the same of 32 bits: what Java writes, and people mean."""
    for digits in range(2, 9):
        short = float(f"{cell:.{digits}g}")
        if abs(short) <= _LARGEST_FLOAT and _FLOAT.unpack(_FLOAT.pack(short))[0] == cell:
            return short
    return float(f"{cell:.9g}")


_LARGEST_FLOAT: Final = 3.4028235677973362e38
"""Beyond it `struct` refuses to round."""
_WHOLE: Final = {
    ("tinyint", False): ConnectType.INT16,
    ("tinyint", True): ConnectType.INT16,
    ("smallint", False): ConnectType.INT16,
    ("smallint", True): ConnectType.INT32,
    ("mediumint", False): ConnectType.INT32,
    ("mediumint", True): ConnectType.INT32,
    ("int", False): ConnectType.INT32,
    ("int", True): ConnectType.INT64,
    ("bigint", False): ConnectType.INT64,
}


def _unsigned_bigint(options: FieldOptions) -> Kind:
    if options.unsigned == "precise":
        return semantic.decimal(0, _UNSIGNED_DIGITS), Decimal, None

    def wrapped(cell: int) -> int:
        """As Java's long."""
        return cell - (1 << 64) if cell >> 63 else cell

    return semantic.INT64, wrapped, None


def _decimal(precision: int, scale: int, mode: DecimalHandling) -> Kind:
    if mode is DecimalHandling.STRING:
        return semantic.STRING, lambda cell: f"{cell:f}", None
    if mode is DecimalHandling.DOUBLE:
        return ConnectSchema(ConnectType.FLOAT64), float, None
    return semantic.decimal(scale, precision), same, None


def _bit(length: int) -> Kind:
    if length == 1:
        return ConnectSchema(ConnectType.BOOLEAN), bool, None
    size = (length + 7) // 8
    return semantic.bits(length), lambda cell: cell.to_bytes(size, "little"), None


def labels_of(column: Column) -> list[str]:
    """Of an ENUM or a SET."""
    body = column.declared[column.declared.index("(") + 1 : column.declared.rindex(")")]
    return [label.replace("''", "'") for label in _LITERAL.findall(body)]


def _labels(column: Column) -> ConnectSchema:
    schema = semantic.enum([label.replace(",", "\\,") for label in labels_of(column)])
    return schema if column.type == "enum" else replace(schema, name="io.debezium.data.EnumSet")


def _binary(mode: BinaryHandling) -> Kind:
    if mode is BinaryHandling.BYTES:
        return ConnectSchema(ConnectType.BYTES), same, None
    encode: dict[BinaryHandling, Convert] = {
        BinaryHandling.BASE64: lambda cell: base64.b64encode(cell).decode(),
        BinaryHandling.BASE64_URL_SAFE: lambda cell: base64.urlsafe_b64encode(cell).decode(),
        BinaryHandling.HEX: bytes.hex,
    }
    return semantic.STRING, encode[mode], None


def _geometry(kind: str) -> Kind:
    if kind == "point":
        return (
            replace(
                semantic.struct("io.debezium.data.geometry.Point", _POINT, version=1),
                doc="Geometry (POINT)",
            ),
            _point,
            None,
        )
    return (
        replace(semantic.struct("io.debezium.data.geometry.Geometry", _GEOMETRY, version=1), doc="Geometry"),
        _shape,
        None,
    )


def _floats(cell: bytes) -> list[float]:
    """A vector's cell is its numbers of four bytes, least significant byte first."""
    if len(cell) % 4:
        raise RecordError("a VECTOR has not four bytes for each number")
    return [shortest_float(number) for number in struct.unpack(f"<{len(cell) // 4}f", cell)]


def _shape(cell: bytes) -> dict[str, Any]:
    """A geometry's cell is its SRID, of four bytes, and WKB."""
    srid = int.from_bytes(cell[:4], "little")
    return {"wkb": cell[4:], "srid": srid or None}


def _point(cell: bytes) -> dict[str, Any]:
    order, _kind, x, y = struct.unpack("<BI2d", cell[4:25])
    if order != 1:
        raise RecordError("a POINT is not little-endian")
    return {"x": x, "y": y, **_shape(cell)}


def _default(column: Column, convert: Convert) -> Any:
    """The default as a value; `NO_DEFAULT` where it has none that a schema could say."""
    text = column.default
    if column.generated:
        return NO_DEFAULT
    if text is None or text == "NULL":
        return NO_DEFAULT
    cell = default_cell(column, text)
    if cell is NO_DEFAULT:
        return NO_DEFAULT
    try:
        value = convert(min(cell, _LONGEST) if column.type == "bigint" else cell)
    except RecordError:  # its rows say so, if there are any
        return NO_DEFAULT
    return NO_DEFAULT if value is None else value


def default_cell(column: Column, text: str) -> Any:  # noqa: PLR0911 - one for each group of types
    """The cell of a default's expression; `NO_DEFAULT` where it is not a constant."""
    kind = column.type
    if kind == "bit":
        bits = _BITS.fullmatch(text)
        return int(bits[1] or "0", 2) if bits else NO_DEFAULT
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        if kind in {"timestamp", "datetime"} and text.lower().startswith("current_timestamp"):
            return 0 if kind == "timestamp" else NO_DEFAULT
        if not _NUMBER.fullmatch(text):
            return NO_DEFAULT
    value = _unescaped(literal[1]) if literal else text
    if kind in {"date", "datetime", "timestamp", "time"}:
        reads: dict[str, Callable[[str], Any]] = {"date": date_of_text, "time": time_of_text}
        return reads.get(kind, datetime_of_text)(value)
    if kind == "decimal":
        return Decimal(value).quantize(Decimal(1).scaleb(-(column.scale or 0)), ROUND_HALF_UP, _MOST_DIGITS)
    if kind in {"float", "double"}:
        return float(value)
    if kind in TEXTS:
        return value
    if kind in BYTES:
        return value.encode().ljust(column.length or 0, b"\0") if kind == "binary" else value.encode()
    return int(value) if _NUMBER.fullmatch(value) and kind not in GEOMETRIES else NO_DEFAULT


def _unescaped(text: str) -> str:
    text = text.replace("''", "'")
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)
