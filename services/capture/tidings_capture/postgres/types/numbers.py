"""Integers, floats, numeric, money, oid, bit."""

import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from tidings_capture.cdc.encoding.options import ConversionOptions, DecimalHandling
from tidings_capture.cdc.types.conversion import CellError, Conversion, Kind, NoRepresentationError
from tidings_envelope import semantic
from tidings_envelope.decimals import EXACT, int_from_digits, int_to_bytes
from tidings_envelope.schema import ConnectSchema, ConnectType

_AMOUNT = re.compile(
    r"(?P<open>[-(]?)[^-()\d.]?(?P<digits>(?:\d+|\d{1,3}(?:,\d{2,3})*,\d{3})?(?:\.\d+)?)(?P<close>\)?)(?<=[\d)])"
)
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


def numeric(typmod: int, options: ConversionOptions, *, in_array: bool = False) -> Conversion:
    """numeric in the connector's ``decimal.handling.mode``. In arrays Debezium does not read NaN and infinity."""
    plain = _numeric(typmod, options)
    if not in_array:
        return plain

    def convert_element(cell: bytes) -> Any:
        if cell in _SPECIAL:
            raise NoRepresentationError("NaN and infinity have no place in an array of numeric")
        return plain.convert(cell)

    return Conversion(plain.schema, convert_element, plain.zero)


def _numeric(typmod: int, options: ConversionOptions) -> Conversion:
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
        raise NoRepresentationError(
            "NaN and infinity have no place in a Decimal; decimal.handling.mode=string has"
        )
    return value


def convert_numeric_text(cell: bytes) -> str:
    return _SPECIAL.get(cell) or cell.decode("ascii")


def decimal_text(value: Decimal) -> str:
    """Digits without an exponent."""
    return f"{value:f}"


def convert_variable_scale(cell: bytes) -> dict[str, Any]:
    """The struct of scale and unscaled bytes, without trailing zeros behind the point."""
    if cell in _SPECIAL:
        raise NoRepresentationError(
            "NaN and infinity have no place in a VariableScaleDecimal; decimal.handling.mode=string has"
        )
    whole, _, fraction = cell.partition(b".")
    fraction = fraction.rstrip(b"0")
    return {"scale": len(fraction), "value": int_to_bytes(int_from_digits(whole + fraction))}


def money(options: ConversionOptions) -> Conversion:
    """money in the connector's ``decimal.handling.mode``, with ``money.fraction.digits`` decimals in a Decimal."""
    digits = options.money_fraction_digits
    zero = Decimal(0).scaleb(-digits)
    match options.decimal_handling:
        case DecimalHandling.DOUBLE:
            schema = ConnectSchema(ConnectType.FLOAT64)
            return Conversion(schema, lambda cell: float(money_amount(cell)), 0.0)
        case DecimalHandling.STRING:
            schema = ConnectSchema(ConnectType.STRING)
            placeholder = options.unavailable_value_placeholder
            return Conversion(
                schema,
                lambda cell: decimal_text(money_amount(cell)),
                decimal_text(zero),
                unchanged=placeholder,
            )
        case _:
            return Conversion(
                semantic.decimal(digits), lambda cell: _rounded(money_amount(cell), digits), zero
            )


def _rounded(amount: Decimal, digits: int) -> Decimal:
    rounded = amount.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, EXACT)
    return rounded if rounded else rounded.copy_abs()  # Java's decimals have no negative zero


def money_amount(cell: bytes) -> Decimal:
    """The amount in ``$1,234.50``, ``-$1.00`` or ``($1.00)``: one sign of currency in front, commas between thousands.

    Raises:
        CellError: the text is of a locale (``lc_monetary``) that writes amounts in another way.
    """
    match = _AMOUNT.fullmatch(cell.decode())
    if match is None or (match["open"] == "(") != bool(match["close"]):
        raise CellError("not an amount with a decimal point; set lc_monetary to C for the connector's role")
    amount = Decimal(match["digits"].replace(",", ""))
    return -amount if match["open"] else amount


def bits(length: int) -> Conversion:
    """bit and bit varying: one bit is a boolean, more are little-endian bytes without leading zero bytes."""
    if length <= 1:
        return Conversion(ConnectSchema(ConnectType.BOOLEAN), convert_bit, zero=False)
    return Conversion(semantic.bits(length), convert_bits, b"")


def bit_array(length: int) -> Conversion:
    """``bit[]``, to which Debezium gives the schema of a single element, so that no array fits."""

    def refuse(_: bytes) -> None:
        raise NoRepresentationError("Debezium's schema of an array of bits is that of one element")

    return Conversion(bits(length).schema, refuse, bits(length).zero)


def convert_bit(cell: bytes) -> bool:
    if not cell:
        raise NoRepresentationError("an empty bit string is not a boolean")
    return int(cell, 2) != 0


def convert_bits(cell: bytes) -> bytes:
    value = int(cell, 2) if cell else 0
    return value.to_bytes((value.bit_length() + 7) // 8, "little")
