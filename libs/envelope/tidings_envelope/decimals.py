"""Finds the decimals of a row by its schema, and turns them into `decimal.Decimal`; and the times that are asked for.

Connect's Decimal is the unscaled value as big-endian two's complement bytes, with the scale in the schema; Debezium's
VariableScaleDecimal is a struct of scale and such bytes. In JSON bytes are base64.
"""

import base64
import binascii
import decimal
from collections.abc import Callable
from decimal import Decimal
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
    if not -_MOST_SCALE <= scale <= _MOST_SCALE or len(unscaled) > _MOST_BYTES:
        raise DecodeError("a decimal has a scale or a length that no database's has")
    return EXACT.scaleb(Decimal(int.from_bytes(unscaled, "big", signed=True)), -scale)


def decimal_to_bytes(value: Decimal, scale: int) -> bytes:
    """The shortest two's complement bytes of the value's unscaled number at that scale.

    The value must not have more decimals than `scale`.
    """
    return int_to_bytes(int(EXACT.scaleb(value, scale)))


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
