"""Direct ways from a cell to Avro's binary encoding, as source code for the plan's generated functions.

The same as `fast_json` for the other format: each snippet replaces the cell in variable ``{c}`` by its encoded form, the
union branch of an optional column included, and gives the same bytes as the codec's encoder does for the converted
value. Avro writes text as its length and its UTF-8, so that most cells need no decoding at all.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

from tidings_capture.fast_json import EPOCH, MINUTES, TWO_DIGITS, Memory, Snippet
from tidings_capture.types.conversion import Conversion, Kind
from tidings_envelope.avro_codec import AvroCodec, long_avro, present_branch
from tidings_envelope.schema import ConnectSchema

_ZONED_BYTES: Final = 27
"""The length of ``2026-11-20T12:34:56.123456Z``."""


class Sizes(dict[int, bytes]):
    """Union branch and length of a text or of bytes, by length."""

    __slots__ = ("_branch",)

    def __init__(self, branch: bytes) -> None:
        super().__init__()
        self._branch = branch

    def __missing__(self, size: int) -> bytes:
        encoded = self._branch + long_avro(size)
        if size < 4_096:
            self[size] = encoded
        return encoded


def snippet(conversion: Conversion, schema: ConnectSchema, name: str) -> Snippet | None:
    """The code for one column, or None where there is no direct way.

    Args:
        conversion: the column's conversion.
        schema: the column's schema, which may be optional.
        name: a unique identifier for names of this column's own.
    """
    branch = present_branch(schema)
    if conversion.kind is Kind.DECIMAL and conversion.parameters["scale"] <= 0:
        return None
    template = _TEMPLATES.get(conversion.kind)
    if template is None:
        return None
    lines, names = template
    encode = AvroCodec().encoder(schema)

    def other(cell: bytes) -> bytes:
        return encode(conversion.convert(cell))

    own: dict[str, Any] = {
        "sizes": Sizes(branch),
        "remembered": Memory(other),
        "other": other,
        "true": branch + b"\x01",
        "false": branch + b"\x00",
        "zoned": branch + long_avro(_ZONED_BYTES) + b"%bT%bZ",
        "branch": branch,
    }
    if conversion.kind is Kind.DECIMAL:
        lines = tuple(line.replace("{point}", str(-conversion.parameters["scale"] - 1)) for line in lines)
    used = {key: value for key, value in own.items() if any(f"{{{key}}}" in line for line in lines)}
    for key in used:
        lines = tuple(line.replace(f"{{{key}}}", f"{name}_{key}") for line in lines)
    return lines, {**names, **{f"{name}_{key}": value for key, value in used.items()}}


def integer_avro(value: int) -> bytes:
    """A zigzag varint, unrolled for the numbers that keys, amounts and times are."""
    z = value << 1 if value >= 0 else ~(value << 1)
    if z < 0x80:
        return _ONE[z]
    if z < 0x4000:
        return bytes((z & 127 | 128, z >> 7))
    if z < 0x200000:
        return bytes((z & 127 | 128, z >> 7 & 127 | 128, z >> 14))
    if z < 0x10000000:
        return bytes((z & 127 | 128, z >> 7 & 127 | 128, z >> 14 & 127 | 128, z >> 21))
    if z < 0x800000000:
        return bytes((z & 127 | 128, z >> 7 & 127 | 128, z >> 14 & 127 | 128, z >> 21 & 127 | 128, z >> 28))
    return long_avro(value)


_ONE: Final = tuple(bytes((n,)) for n in range(0x80))


def microseconds_avro(micros: int) -> bytes:
    """The varint of a time of this century in microseconds: always eight bytes."""
    z = micros << 1
    if not 0x2000000000000 <= z < 0x100000000000000:
        return long_avro(micros)
    return bytes(
        (
            z & 127 | 128,
            z >> 7 & 127 | 128,
            z >> 14 & 127 | 128,
            z >> 21 & 127 | 128,
            z >> 28 & 127 | 128,
            z >> 35 & 127 | 128,
            z >> 42 & 127 | 128,
            z >> 49,
        )
    )


_TEXT: Final[Snippet] = (("{c} = {sizes}[len({c})] + {c}",), {})
_REMEMBERED: Final[Snippet] = (("{c} = {remembered}[{c}]",), {})
_TEMPLATES: Final[Mapping[Kind, Snippet]] = {
    Kind.INTEGER: (("{c} = {branch} + integer_avro(int({c}))",), {"integer_avro": integer_avro}),
    Kind.BOOLEAN: (
        ("{c} = {true} if {c} == b't' else {false} if {c} == b'f' else {other}({c})",),
        {},
    ),
    Kind.TEXT: _TEXT,
    Kind.PLAIN_TEXT: _TEXT,
    Kind.LABEL: _TEXT,
    Kind.DATE: _REMEMBERED,
    Kind.DOUBLE: (("{c} = {branch} + double(float({c}))",), {"double": struct.Struct("<d").pack}),
    Kind.DECIMAL: (
        (
            "n = int({c}.replace(b'.', b'')) if {c}[{point}] == 46 else -1",
            "if n >= 0:",
            "    {c} = n.to_bytes(n.bit_length() // 8 + 1, 'big')",
            "    {c} = {sizes}[len({c})] + {c}",
            "else:",
            "    {c} = {other}({c})",
        ),
        {},
    ),
    Kind.MICROSECONDS: (
        (
            "if len({c}) == 26 and {c} > EPOCH and {c}[19] == 46 and {c}[25] < 58:",
            "    n = (MINUTES[{c}[:16]] + TWO_DIGITS[{c}[17:19]]) * 1000000 + int({c}[20:])",
            "    {c} = {branch} + microseconds_avro(n)",
            "else:",
            "    {c} = {other}({c})",
        ),
        {
            "EPOCH": EPOCH,
            "MINUTES": MINUTES,
            "TWO_DIGITS": TWO_DIGITS,
            "microseconds_avro": microseconds_avro,
        },
    ),
    Kind.ZONED_MICROSECONDS: (
        (
            "if len({c}) == 29 and {c}[26:] == b'+00' and {c}[19] == 46:",
            "    {c} = {zoned} % ({c}[:10], {c}[11:26])",
            "else:",
            "    {c} = {other}({c})",
        ),
        {},
    ),
}
