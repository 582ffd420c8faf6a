"""Finds the decimals of a row by its schema, and turns them into `decimal.Decimal`; and the times that are asked for.

Connect's Decimal is the unscaled value as big-endian two's complement bytes, with the scale in the schema; Debezium's
VariableScaleDecimal is a struct of scale and such bytes. In JSON bytes are base64.
"""

import base64
import binascii
import decimal
import functools
from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal
from typing import Any, Final, TypeAlias

from tidings_envelope.errors import DecodeError
from tidings_envelope.times import time_conversion

CONNECT_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE_SCALE_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"

EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
"""Moves the point of numbers of any length; PostgreSQL's numeric has up to 147,455 digits."""

_MOST_SCALE = 150_000
"""Digits behind or before the point: more than PostgreSQL's numeric has (16,383 and 131,072)."""
_MOST_BYTES = 65_536
"""Of an unscaled number: 147,455 digits take 61,233."""
MOST_DIGITS: Final = 300_000
"""Of a whole number that is converted: a number with the most digits, brought to the largest scale."""
_SHORT_BYTES: Final = 64
_UNITS: Final = {scale: Decimal((0, (1,), -scale)) for scale in range(-10, 40)}
"""What a number of most scales counts: its multiplication is the fastest way to a short one."""
_DIRECT_DIGITS: Final = 1_000
"""Up to so many digits Python's own conversions are the fastest."""
_DIRECT: Final = 1 << 3_000
_PART_DIGITS: Final = 500
_PART_BYTES: Final = 128

RowConversion: TypeAlias = Callable[[dict[str, Any]], None]
"""Replaces values of a row in place."""
_ValueConversion: TypeAlias = Callable[[Any], Any]
_MISFITS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a conversion can raise on a value of another type."""


def decimal_from_bytes(unscaled: bytes, scale: int) -> Decimal:
    """The number whose unscaled value is these two's complement bytes.

    Raises:
        DecodeError: no database has a number of such a scale or length.
    """
    if len(unscaled) <= _SHORT_BYTES and (unit := _UNITS.get(scale)) is not None:
        return EXACT.multiply(int.from_bytes(unscaled, "big", signed=True), unit)
    if not -_MOST_SCALE <= scale <= _MOST_SCALE or len(unscaled) > _MOST_BYTES:
        raise DecodeError("a decimal has a scale or a length that no database's has")
    return EXACT.scaleb(decimal_from_int(int.from_bytes(unscaled, "big", signed=True)), -scale)


def decimal_to_bytes(value: Decimal, scale: int) -> bytes:
    """The shortest two's complement bytes of the value's unscaled number at that scale.

    The value must not have more decimals than `scale`.

    Raises:
        ValueError: no database has so large a number; its bytes would take seconds.
    """
    return int_to_bytes(int_from_decimal(EXACT.scaleb(value, scale)))


def int_from_decimal(value: Decimal) -> int:
    """The whole part of a number, as `int` has it, in a time that hardly grows faster than its digits.

    Raises:
        ValueError: it has more digits than any database's, as 1E+999999 has, or is not a number.
        OverflowError: it is infinite.
    """
    if not value or value.adjusted() < _DIRECT_DIGITS:  # of what is not finite it is 0
        return int(value) if value else 0
    if value.adjusted() >= MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS} digits")
    return int_from_digits(f"{value.to_integral_value(ROUND_DOWN, EXACT):f}".encode("ascii"))


def int_from_digits(digits: bytes) -> int:
    """An integer from its decimal digits, with or without a sign in front.

    `int` takes a time that grows with the square of their number, and refuses more than 4,300. Here parts of a length that
    it reads fast are put together two by two, by Python's own multiplication of large numbers.

    Raises:
        ValueError: there are more digits than any database's number has, or something else than digits.
    """
    if len(digits) <= _DIRECT_DIGITS:
        return int(digits)
    sign, digits = (digits[:1], digits[1:]) if digits[:1] in (b"-", b"+") else (b"", digits)
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS} digits")
    if not digits.isdigit():
        raise ValueError("not a whole number in decimal digits")
    number = _joined(digits)
    return -number if sign == b"-" else number


def _joined(digits: bytes) -> int:
    first = len(digits) % _PART_DIGITS
    parts = [int(digits[:first])] if first else []
    parts += [int(digits[at : at + _PART_DIGITS]) for at in range(first, len(digits), _PART_DIGITS)]
    level = 0
    while len(parts) > 1:
        power, shift = _power_of_five(level), _PART_DIGITS << level
        odd = len(parts) % 2
        pairs = zip(parts[odd::2], parts[odd + 1 :: 2], strict=True)
        parts = parts[:odd] + [(high * power << shift) + low for high, low in pairs]
        level += 1
    return parts[0]


def decimal_from_int(number: int) -> Decimal:
    """An integer of any size as an exact `Decimal`, in a time that hardly grows faster than its digits.

    `Decimal` itself takes a time that grows with the square of them; its multiplication does not.
    """
    if -_DIRECT < number < _DIRECT:
        return Decimal(number)
    size = abs(number)
    data = size.to_bytes(-(-size.bit_length() // (_PART_BYTES * 8)) * _PART_BYTES, "big")
    parts = [
        Decimal(int.from_bytes(data[at : at + _PART_BYTES], "big")) for at in range(0, len(data), _PART_BYTES)
    ]
    level = 0
    while len(parts) > 1:
        power = _power_of_bytes(level)
        odd = len(parts) % 2
        pairs = zip(parts[odd::2], parts[odd + 1 :: 2], strict=True)
        parts = parts[:odd] + [EXACT.fma(high, power, low) for high, low in pairs]
        level += 1
    return parts[0] if number > 0 else parts[0].copy_negate()


@functools.cache
def _power_of_five(level: int) -> int:
    """Of ten's, without the factors two: those are a shift."""
    return int(5 ** (_PART_DIGITS << level))


@functools.cache
def _power_of_bytes(level: int) -> Decimal:
    if not level:
        return Decimal(1 << 8 * _PART_BYTES)
    half = _power_of_bytes(level - 1)
    return EXACT.multiply(half, half)


def int_to_bytes(number: int) -> bytes:
    """Shortest big-endian two's complement, as ``java.math.BigInteger.toByteArray`` writes it."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def row_conversion(schema: Any, times: frozenset[str] = frozenset()) -> RowConversion | None:
    """What to do with rows (or a key) of a schema, in JSON or Avro form; None when there is nothing to do.

    Args:
        schema: of an envelope (its ``after`` field's) or of a key.
        times: columns whose timestamps or times of day are to become text (`tidings_envelope.times`).
    """
    if "namespace" in schema or schema.get("type") == "record":
        fields = _avro_row_fields(schema)
        conversions = {
            name: found
            for name, type_ in fields.items()
            if (found := _avro_value(type_) or (_avro_time(type_) if name in times else None)) is not None
        }
    else:
        fields = _json_row_fields(schema)
        conversions = {
            name: found
            for name, field in fields.items()
            if (
                found := _json_value(field) or (time_conversion(field.get("name")) if name in times else None)
            )
            is not None
        }
    return _row_conversion(conversions) if conversions else None


def _row_conversion(conversions: dict[str, _ValueConversion]) -> RowConversion:
    def convert(row: dict[str, Any]) -> None:
        for name, conversion in conversions.items():
            value = row.get(name)
            if value is not None:
                try:
                    row[name] = conversion(value)
                except _MISFITS as error:
                    raise DecodeError(
                        f"column {name}: the value is not of the type that its schema tells"
                    ) from error

    return convert


def _json_row_fields(schema: dict[str, Any]) -> dict[str, Any]:
    fields = {field["field"]: field for field in schema.get("fields", ())}
    return _json_row_fields(fields["after"]) if "after" in fields and "source" in fields else fields


def _json_value(schema: dict[str, Any]) -> _ValueConversion | None:
    if schema.get("name") == CONNECT_DECIMAL:
        scale = int(schema["parameters"]["scale"])
        return lambda value: (
            value if isinstance(value, (int, float)) else decimal_from_bytes(_from_base64(value), scale)
        )
    if schema.get("name") == VARIABLE_SCALE_DECIMAL:
        return lambda value: decimal_from_bytes(_from_base64(value["value"]), value["scale"])
    if schema.get("type") == "array":
        return _of_items(_json_value(schema["items"]))
    return None


def _avro_row_fields(schema: dict[str, Any]) -> dict[str, Any]:
    fields = {field["name"]: field["type"] for field in schema.get("fields", ())}
    if "before" in fields and "source" in fields:
        row = next((branch for branch in fields["before"] if isinstance(branch, dict)), {})
        return _avro_row_fields(row)
    return fields


def _avro_value(type_: Any) -> _ValueConversion | None:
    if isinstance(type_, list):
        return next((found for branch in type_ if (found := _avro_value(branch)) is not None), None)
    if not isinstance(type_, dict):
        # fastavro itself reads the logical type decimal; a name is a repeated record
        return _variable_scale if type_ == VARIABLE_SCALE_DECIMAL else None
    if type_.get("connect.name") == VARIABLE_SCALE_DECIMAL:
        return _variable_scale
    if type_.get("type") == "array":
        return _of_items(_avro_value(type_["items"]))
    if type_.get("connect.name") == CONNECT_DECIMAL and "logicalType" not in type_:
        scale = int(type_["connect.parameters"]["scale"])
        return lambda value: decimal_from_bytes(value, scale)
    return None


def _avro_time(type_: Any) -> _ValueConversion | None:
    if isinstance(type_, list):
        return next((found for branch in type_ if (found := _avro_time(branch)) is not None), None)
    return time_conversion(type_.get("connect.name")) if isinstance(type_, dict) else None


def _variable_scale(value: dict[str, Any]) -> Decimal:
    return decimal_from_bytes(value["value"], value["scale"])


def _of_items(item: _ValueConversion | None) -> _ValueConversion | None:
    if item is None:
        return None
    return lambda values: [None if value is None else item(value) for value in values]


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError) as error:
        raise DecodeError("a decimal's bytes are not base64") from error
