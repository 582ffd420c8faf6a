"""Column defaults in schemas, as far as Debezium reads them.

Debezium does not evaluate expressions: it takes a literal's text out of ``pg_get_expr``'s form (``'EUR'::bpchar``),
puts a fixed placeholder where the default calls a function, and gives up, without a default, on everything else.
Reference: ``io.debezium.connector.postgresql.connection.PostgresDefaultValueConverter``.
"""

import re
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from tidings_capture.cdc.encoding.options import ConversionOptions, DecimalHandling, TimePrecision
from tidings_capture.cdc.tables import Column
from tidings_capture.cdc.types.conversion import Conversion
from tidings_capture.cdc.types.iso_times import iso_timestamp
from tidings_capture.postgres.types.numbers import precision_and_scale
from tidings_capture.postgres.types.temporal import timestamp_us
from tidings_envelope import semantic
from tidings_envelope.decimals import EXACT
from tidings_envelope.schema import NO_DEFAULT, ConnectType

_LITERAL = re.compile(r"'([^']*(?:''[^']*)*)'")
_FUNCTION = re.compile(r"[(]?[A-Za-z0-9_.]+\(.*\)")
_CURRENT: Final = frozenset(
    ("current_timestamp", "current_time", "current_date", "localtime", "localtimestamp")
)
_INTEGER = re.compile(r"[+-]?\d+\Z")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z")
_RANGES: Final = {ConnectType.INT16: 1 << 15, ConnectType.INT32: 1 << 31, ConnectType.INT64: 1 << 63}

_JAVA_DATES: Final = {
    "infinity": (169_560_311, "+999999999-12-31Z"),
    "-infinity": (-170_999_002, "-999999999-01-01Z"),
}
"""Java's last and first LocalDate, in which the driver puts the infinities of defaults: days in 32 bits, and text."""
_JAVA_TIMESTAMPS: Final = {
    "infinity": (-9_223_372_036_853_775_810, "+999999999-12-31T23:59:59.999999999Z"),
    "-infinity": (-(2**63), "-999999999-01-01T00:00:00Z"),
}
"""The same for LocalDateTime: microseconds in 64 bits, with what is left of the fraction, and text."""

_Parse = Callable[[str, Column, Conversion, ConversionOptions], Any]


class _UnreadableError(ValueError):
    """The default is an expression that Debezium does not understand."""


def default_for(column: Column, conversion: Conversion, options: ConversionOptions) -> Any:
    """The default of a column's schema, or `NO_DEFAULT`."""
    expression = column.default_expression
    if expression is None or column.domain_name is not None or column.element is not None:
        return NO_DEFAULT
    if conversion.schema.type is ConnectType.STRUCT:  # cannot be a default in Connect (KAFKA-12694)
        return NO_DEFAULT
    if column.enum_labels:
        return _enum_default(column.type_name, expression)
    entry = _PARSERS.get(column.type_name)
    if entry is None:
        return NO_DEFAULT
    placeholder, parse = entry
    text = _literal(expression, placeholder)
    if text is None:
        return NO_DEFAULT
    try:
        value = parse(text, column, conversion, options)
    except (ValueError, ArithmeticError):
        return NO_DEFAULT
    return NO_DEFAULT if value is None else value


def _literal(expression: str, placeholder: str) -> str | None:
    """The text of a literal, the placeholder for a function, None for an explicit NULL."""
    if _FUNCTION.match(expression) or expression.lower() in _CURRENT:
        return placeholder
    if "'" not in expression:
        return None if expression.startswith("NULL::") else expression.strip()
    match = _LITERAL.search(expression)
    return match.group(1).replace("''", "'") if match else None


def _enum_default(type_name: str, expression: str) -> Any:
    """The label before a cast to the enum; Debezium leaves doubled quotes as they are."""
    value, cast, cast_type = expression.rpartition("::")
    if not cast or cast_type.replace('"', "").rpartition(".")[2] != type_name:
        return NO_DEFAULT
    if not (value.startswith("'") and value.endswith("'")):
        return NO_DEFAULT
    return value[1:-1]


def _boolean(text: str, _: Column, __: Conversion, ___: ConversionOptions) -> bool:
    return text.lower() == "true"


def _text(text: str, _: Column, __: Conversion, ___: ConversionOptions) -> str:
    return text


def _integer(text: str, _: Column, conversion: Conversion, __: ConversionOptions) -> int:
    if not _INTEGER.match(text):
        raise _UnreadableError
    value = int(text)
    limit = _RANGES[conversion.schema.type]
    if not -limit <= value < limit:
        raise _UnreadableError
    return value


def _float(text: str, _: Column, __: Conversion, ___: ConversionOptions) -> float:
    if text not in ("NaN", "Infinity", "-Infinity") and not _NUMBER.match(text):
        raise _UnreadableError
    return float(text)


def _numeric(text: str, column: Column, _: Conversion, options: ConversionOptions) -> Any:
    if not _NUMBER.match(text):
        raise _UnreadableError
    value = Decimal(text)
    if column.typmod != -1:
        value = _at_scale(value, precision_and_scale(column.typmod)[1])
    elif options.decimal_handling is DecimalHandling.PRECISE:
        return NO_DEFAULT  # a struct cannot be a default in Connect (KAFKA-12694)
    if options.decimal_handling is DecimalHandling.STRING:
        return f"{value:f}"
    return float(value) if options.decimal_handling is DecimalHandling.DOUBLE else value


def _at_scale(value: Decimal, scale: int) -> Decimal:
    """The same number with exactly that scale; a default with more decimals is not readable."""
    scaled = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    if scaled != value:
        raise _UnreadableError
    return scaled


def _uuid(text: str, _: Column, __: Conversion, ___: ConversionOptions) -> str:
    return str(uuid.UUID(text))


def _cell(text: str, _: Column, conversion: Conversion, __: ConversionOptions) -> Any:
    """Types whose literals have the form of their cells."""
    return conversion.convert(text.encode())


def _bits(text: str, _: Column, conversion: Conversion, __: ConversionOptions) -> Any:
    """Of several bits Debezium takes whatever is not a 1 for a 0, also in an expression."""
    if conversion.schema.type is ConnectType.BYTES:
        text = "".join("1" if character == "1" else "0" for character in text)
    return conversion.convert(text.encode())


def _date(text: str, _: Column, conversion: Conversion, options: ConversionOptions) -> Any:
    if text in _JAVA_DATES:
        days, iso = _JAVA_DATES[text]
        return iso if options.time_precision is TimePrecision.ISOSTRING else days
    return conversion.convert(text.removesuffix(" BC").partition(" ")[0].encode() + _era(text))


def _time(text: str, _: Column, conversion: Conversion, options: ConversionOptions) -> Any:
    """24:00 is Java's last nanosecond of the day."""
    if text != "24:00:00":
        return conversion.convert(text.encode())
    match options.time_precision:
        case TimePrecision.ISOSTRING:
            return "23:59:59.999999999Z"
        case TimePrecision.NANOSECONDS:
            return 86_399_999_999_999
        case _:
            return conversion.convert(b"23:59:59.999999")


def _timestamp(text: str, _: Column, conversion: Conversion, options: ConversionOptions) -> Any:
    if text in _JAVA_TIMESTAMPS:
        micros, iso = _JAVA_TIMESTAMPS[text]
        if options.time_precision is TimePrecision.ISOSTRING:
            return iso
        if conversion.schema != semantic.MICRO_TIMESTAMP:
            raise _UnreadableError
        return micros
    return conversion.convert(_with_clock(text).encode())


def _era(text: str) -> bytes:
    return b" BC" if text.endswith(" BC") else b""


def _timestamptz(text: str, column: Column, __: Conversion, ___: ConversionOptions) -> str:
    width = 6 if column.typmod == -1 else column.typmod
    return iso_timestamp(timestamp_us(_with_clock(text).encode()), width)


def _with_clock(text: str) -> str:
    if text.endswith(" BC"):
        return f"{_with_clock(text.removesuffix(' BC'))} BC"
    return text if " " in text else f"{text} 00:00:00"


_PARSERS: Final[Mapping[str, tuple[str, _Parse]]] = {
    "bool": ("false", _boolean),
    "bpchar": ("", _text),
    "varchar": ("", _text),
    "text": ("", _text),
    "numeric": ("0.0", _numeric),
    "float4": ("0.0", _float),
    "float8": ("0.0", _float),
    "int2": ("0", _integer),
    "int4": ("0", _integer),
    "int8": ("0", _integer),
    "json": ("{}", _text),
    "jsonb": ("{}", _text),
    "xml": ("", _text),
    "uuid": ("00000000-0000-0000-0000-000000000000", _uuid),
    "date": ("1970-01-01", _date),
    "time": ("00:00:00", _time),
    "timestamp": ("1970-01-01", _timestamp),
    "timestamptz": ("1970-01-01", _timestamptz),
    "bit": ("00", _bits),
    "varbit": ("0", _bits),
    "interval": ("00:00:00", _cell),
}
"""The literal that stands in place of a function's result, and how a literal is read, by type."""
