"""BSON's own types, from the library that comes with pymongo, and how values become them. Reads and writes no connection."""

from collections.abc import Mapping
from decimal import Decimal, DecimalException, Inexact, Overflow, Underflow
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID

from bson import Binary, CodecOptions, Decimal128, Int64, ObjectId, decode, encode, json_util
from bson.codec_options import DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import create_decimal128_context
from bson.errors import BSONError

from tidings_sinks.errors import RowError

__all__ = [
    "DATES",
    "UUIDS",
    "BSONError",
    "Binary",
    "DatetimeMS",
    "Decimal128",
    "Int64",
    "ObjectId",
    "decimal_of",
    "document_of_bson",
    "document_of_text",
    "key_of",
    "object_id_of",
    "problem_of",
    "uuid_of",
]
DATES: Final = DatetimeConversion.DATETIME_MS
"""How dates are read: as milliseconds, which Python's calendar need not have."""
UUIDS: Final = frozenset((3, 4))
"""The subtypes of Binary that hold a UUID."""
_CODEC: Final[CodecOptions[dict[str, Any]]] = CodecOptions(document_class=dict, datetime_conversion=DATES)
_JSON: Final = json_util.JSONOptions(document_class=dict, datetime_conversion=DATES, tz_aware=True)
_CONTEXT: Final = create_decimal128_context()
for signal in (Inexact, Overflow, Underflow):  # the library's own context rounds without a word
    _CONTEXT.traps[signal] = True
_COEFFICIENT_BITS: Final = 113
_BIAS: Final = 6176
_MOST_DIGITS: Final = 10**34
_LOW_BITS: Final = 2**64 - 1
_SHORT: Final = 35
"""Characters of a number that is sure to have no more digits than that, with its point."""


def decimal_of(value: Decimal) -> Decimal128:
    """A number with its digits and its scale.

    Raises:
        RowError: it has more than 34 digits, which is what Decimal128 has.
    """
    text = f"{value:f}"
    whole, point, fraction = text.partition(".")
    if point and len(text) <= _SHORT:  # with decimals it is written as it is, and read thrice as fast
        bits = ((_BIAS - len(fraction)) << _COEFFICIENT_BITS) | int(whole.removeprefix("-") + fraction)
        if text[0] == "-":
            bits |= 1 << 127
        return Decimal128((bits >> 64, bits & _LOW_BITS))  # type: ignore[arg-type]  # two halves are taken, too
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, int) and -_BIAS <= exponent <= 6111:
        coefficient = int("".join(map(str, digits)))
        if coefficient < _MOST_DIGITS:
            bits = (sign << 127) | ((exponent + _BIAS) << _COEFFICIENT_BITS) | coefficient
            return Decimal128.from_bid(bits.to_bytes(16, "little"))
    try:
        return Decimal128(_CONTEXT.create_decimal(value))
    except DecimalException:
        raise RowError("a number has more than the 34 digits of Decimal128") from None


def object_id_of(timestamp: int | None, place: str) -> ObjectId:
    """An ObjectId that is the same for the same record: its time in seconds, and a hash of its place."""
    seconds = ((timestamp or 0) // 1000) & 0xFFFFFFFF
    return ObjectId(seconds.to_bytes(4, "big") + blake2b(place.encode(), digest_size=8).digest())


def uuid_of(value: UUID) -> Binary:
    """A UUID as Binary of subtype 4."""
    return Binary(value.bytes, 4)


def document_of_text(text: str) -> dict[str, Any] | None:
    """The document of (extended) JSON; None: the text is none."""
    try:
        found = json_util.loads(text, json_options=_JSON)
    except (ValueError, TypeError, KeyError, BSONError):
        return None
    return found if isinstance(found, dict) else None


def document_of_bson(data: bytes) -> dict[str, Any] | None:
    """The document of bytes; None: they are none."""
    try:
        return decode(data, _CODEC)
    except (BSONError, ValueError):
        return None


def problem_of(document: Mapping[str, Any], most_bytes: int) -> str | None:
    """Why a document cannot be sent; None: it can."""
    try:
        size = len(encode(document))
    except (BSONError, OverflowError, ValueError, TypeError) as error:
        return f"a value or a field's name has no form in BSON ({type(error).__name__})"
    return (
        None
        if size <= most_bytes
        else f"the document is larger than the {most_bytes} bytes that the server takes"
    )


def key_of(value: Any) -> bytes:
    """What is the same for ids that a server takes for the same, but for numbers of other types."""
    return encode({"": value})
