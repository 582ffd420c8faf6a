"""Integers, floats, numeric, oid, bit."""

from decimal import Decimal
from typing import Any, Final

from tidings_capture.conversion_options import ConversionOptions, DecimalHandling
from tidings_capture.types.conversion import CellError, Conversion, Kind
from tidings_envelope import semantic
from tidings_envelope.decimals import int_to_bytes
from tidings_envelope.schema import ConnectSchema, ConnectType

_MOST_DIGITS: Final = 4000
"""Python refuses to read longer integers from text directly."""
_NUMERIC_TYPMOD_OFFSET: Final = 4
_SPECIAL: Final = {b"NaN": "NAN", b"Infinity": "POSITIVE_INFINITY", b"-Infinity": "NEGATIVE_INFINITY"}


def integer(connect_type: ConnectType) -> Conversion:
    """smallint, integer, bigint, oid."""
    return Conversion(ConnectSchema(connect_type), int, 0, kind=Kind.INTEGER)


def boolean() -> Conversion:
    return Conversion(ConnectSchema(ConnectType.BOOLEAN), convert_boolean, zero=False, kind=Kind.BOOLEAN)


def convert_boolean(cell: bytes) -> bool:
    if cell not in (b"t", b"f"):
        raise CellError("a boolean is t or f")
    return cell == b"t"


def real() -> Conversion:
    """A Python float of the shortest digits, not of the 32 bits: its digits are what Java prints."""
    return Conversion(ConnectSchema(ConnectType.FLOAT32), float, 0.0)


def double() -> Conversion:
    return Conversion(ConnectSchema(ConnectType.FLOAT64), float, 0.0, kind=Kind.DOUBLE)


def numeric(typmod: int, options: ConversionOptions) -> Conversion:
    """numeric in the connector's ``decimal.handling.mode``."""
    fixed = None if typmod == -1 else precision_and_scale(typmod)
    mode = options.decimal_handling
    if mode is DecimalHandling.DOUBLE:
        return Conversion(
            ConnectSchema(ConnectType.FLOAT64), float, 0.0
        )  # digits like 12.50 are not JSON as they are
    if mode is DecimalHandling.STRING:
        zero = "0" if fixed is None else decimal_text(Decimal(0).scaleb(-fixed[1]))
        placeholder = options.unavailable_value_placeholder
        return Conversion(
            ConnectSchema(ConnectType.STRING), convert_numeric_text, zero, unchanged=placeholder
        )
    if fixed is None:
        return Conversion(
            semantic.VARIABLE_SCALE_DECIMAL, convert_variable_scale, {"scale": 0, "value": b"\0"}
        )
    precision, scale = fixed
    schema = semantic.decimal(scale, precision)
    return Conversion(
        schema, convert_decimal, Decimal(0).scaleb(-scale), kind=Kind.DECIMAL, parameters={"scale": scale}
    )


def precision_and_scale(typmod: int) -> tuple[int, int]:
    """Precision and scale of ``numeric(p,s)``; the scale is a signed 11-bit number since PostgreSQL 15."""
    packed = typmod - _NUMERIC_TYPMOD_OFFSET
    return packed >> 16 & 0xFFFF, (packed & 0x7FF ^ 0x400) - 0x400


def convert_decimal(cell: bytes) -> Decimal:
    value = Decimal(cell.decode("ascii"))
    if not value.is_finite():
        raise CellError("NaN and infinity have no place in a Decimal; decimal.handling.mode=string has")
    return value


def convert_numeric_text(cell: bytes) -> str:
    return _SPECIAL.get(cell) or cell.decode("ascii")


def decimal_text(value: Decimal) -> str:
    """Digits without an exponent."""
    return f"{value:f}"


def convert_variable_scale(cell: bytes) -> dict[str, Any]:
    """The struct of scale and unscaled bytes, without trailing zeros behind the point."""
    if cell in _SPECIAL:
        raise CellError(
            "NaN and infinity have no place in a VariableScaleDecimal; decimal.handling.mode=string has"
        )
    whole, _, fraction = cell.partition(b".")
    fraction = fraction.rstrip(b"0")
    return {"scale": len(fraction), "value": int_to_bytes(unscaled_from_digits(whole + fraction))}


def unscaled_from_digits(digits: bytes) -> int:
    """An integer of any length from its digits."""
    return int(digits) if len(digits) < _MOST_DIGITS else int(Decimal(digits.decode("ascii")))


def bits(length: int) -> Conversion:
    """bit and bit varying: one bit is a boolean, more are little-endian bytes without leading zero bytes."""
    if length <= 1:
        return Conversion(ConnectSchema(ConnectType.BOOLEAN), lambda cell: int(cell, 2) != 0, zero=False)
    return Conversion(semantic.bits(length), convert_bits, b"")


def convert_bits(cell: bytes) -> bytes:
    value = int(cell, 2) if cell else 0
    return value.to_bytes((value.bit_length() + 7) // 8, "little")
