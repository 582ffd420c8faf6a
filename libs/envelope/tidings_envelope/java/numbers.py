"""Floating point numbers as Java writes them, because Connect's JsonConverter does.

Specified by ``java.lang.Double.toString`` and ``Float.toString`` (Java 19 and later: the shortest digits that read back
as the same number): plain notation from 0.001 up to 10 million, else computerised scientific notation, always with one
digit behind the point. Not-a-number and infinity are JSON strings (Jackson's QUOTE_NON_NUMERIC_NUMBERS).
"""

import math
import struct

_SMALLEST_PLAIN = 1e-3
_SMALLEST_SCIENTIFIC = 1e7
_FLOAT32 = struct.Struct("f")


def double_json(value: float) -> bytes:
    """A double as JSON."""
    if _SMALLEST_PLAIN <= value < _SMALLEST_SCIENTIFIC or -_SMALLEST_SCIENTIFIC < value <= -_SMALLEST_PLAIN:
        return repr(value).encode()  # in this range Python writes what Java writes
    return _unusual(value, value)


def float_json(value: float) -> bytes:
    """A 32-bit float as JSON; `value` holds its shortest decimal digits (a double of the text ``3.3``)."""
    if _SMALLEST_PLAIN <= value < _SMALLEST_SCIENTIFIC or -_SMALLEST_SCIENTIFIC < value <= -_SMALLEST_PLAIN:
        return repr(value).encode()
    return _unusual(value, value if math.isinf(value) else _FLOAT32.unpack(_FLOAT32.pack(value))[0])


def _unusual(value: float, exact: float) -> bytes:
    if math.isnan(value):
        return b'"NaN"'
    if math.isinf(value):
        return b'"Infinity"' if value > 0 else b'"-Infinity"'
    if value == 0:
        return b"0.0" if math.copysign(1, value) > 0 else b"-0.0"
    mantissa, _, exponent = _scientific(value).partition("e")
    if "." not in mantissa:
        # Java writes at least two digits and takes the two that are nearest: 4.9E-324, where Python has 5e-324.
        mantissa, _, exponent = f"{exact:.1e}".partition("e")
    return f"{mantissa}E{int(exponent)}".encode()


def _scientific(value: float) -> str:
    """The shortest digits in scientific notation."""
    text = repr(value)
    if "e" in text:
        return text
    sign = "-" if text[0] == "-" else ""
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return f"{sign}{digits[0]}{'.' + digits[1:] if len(digits) > 1 else ''}e{point - 1}"
