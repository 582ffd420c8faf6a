"""Direct ways from a cell to Avro's binary encoding, as source code for the plan's generated functions.

The same as `fast_json` for the other format: each snippet replaces the cell in variable ``{c}`` by its encoded form, the
union branch of an optional column included, and gives the same bytes as the codec's encoder does for the converted
value. Avro writes text as its length and its UTF-8, so that most cells need no decoding at all.
"""

import functools
import struct
from collections.abc import Mapping
from typing import Any, Final

from tidings_capture.cdc.encoding.remembered import Memory, Sizes
from tidings_capture.cdc.encoding.snippets import Snippet
from tidings_capture.cdc.types.conversion import Conversion, Kind
from tidings_capture.postgres.encoding.fast_json import EPOCH, MINUTES
from tidings_envelope.avro.codec import ENDS, PAIRS, AvroCodec, long_avro, present_branch
from tidings_envelope.schema import ConnectSchema

_ZONED_BYTES: Final = 27
"""The length of ``2026-11-20T12:34:56.123456Z``."""


def snippet(conversion: Conversion, schema: ConnectSchema, codec: AvroCodec, name: str) -> Snippet | None:
    """The code for one column, or None where there is no direct way.

    Args:
        conversion: the column's conversion.
        schema: the column's schema, which may be optional.
        codec: what other values are encoded with.
        name: a unique identifier for names of this column's own.
    """
    branch = present_branch(schema)
    if conversion.kind is Kind.DECIMAL and conversion.parameters["scale"] <= 0:
        return None
    template = _TEMPLATES.get(conversion.kind)
    if template is None:
        return None
    lines, names = template
    encode = codec.encoder(schema)

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
        "double": struct.Struct(f"<{len(branch)}sd").pack,
        "ends": _behind(branch, ENDS),
        "pairs": _behind(branch, PAIRS),
    }
    if conversion.kind is Kind.DECIMAL:
        lines = tuple(line.replace("{point}", str(-conversion.parameters["scale"] - 1)) for line in lines)
    used = {key: value for key, value in own.items() if any(f"{{{key}}}" in line for line in lines)}
    for key in used:
        lines = tuple(line.replace(f"{{{key}}}", f"{name}_{key}") for line in lines)
    return lines, {**names, **{f"{name}_{key}": value for key, value in used.items()}}


@functools.cache
def _behind(branch: bytes, table: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """A table of varint bytes with the union branch before each; shared by all columns."""
    return tuple(branch + entry for entry in table) if branch else table


def _minute_micros_twice(minute: bytes) -> int:
    return MINUTES[minute] * 2_000_000


MINUTE_MICROS_TWICE: Final = Memory(_minute_micros_twice)
"""The zigzag form of a minute's microseconds since the epoch."""

_TEXT: Final[Snippet] = (("{c} = {sizes}[len({c})] + {c}",), {})
_REMEMBERED: Final[Snippet] = (("{c} = {remembered}[{c}]",), {})
_TEMPLATES: Final[Mapping[Kind, Snippet]] = {
    Kind.INTEGER: (
        (
            "n = int({c}) << 1",
            "if 0 <= n < 16384:",
            "    {c} = {ends}[n]",
            "elif 0 < n < 268435456:",
            "    {c} = {pairs}[n & 16383] + ENDS[n >> 14]",
            "else:",
            "    {c} = {branch} + long_avro(n >> 1)",
        ),
        {"ENDS": ENDS, "long_avro": long_avro},
    ),
    Kind.BOOLEAN: (
        ("{c} = {true} if {c} == b't' else {false} if {c} == b'f' else {other}({c})",),
        {},
    ),
    Kind.TEXT: _TEXT,
    Kind.PLAIN_TEXT: _TEXT,
    Kind.LABEL: _REMEMBERED,
    Kind.DATE: _REMEMBERED,
    Kind.DOUBLE: (("{c} = {double}({branch}, float({c}))",), {}),
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
            "size = len({c})",
            "if {c} > EPOCH and (size == 19 or 20 < size < 27 and {c}[19] == 46) and {c}[4] == 45 and {c}[-1] < 58:",
            "    n = MINUTE_MICROS_TWICE[{c}[:16]] + (int({c}[17:19] + {c}[20:].ljust(6, b'0')) << 1)",
            "    if 4398046511104 <= n < 72057594037927936:  # eight bytes: from January 1970 to the year 3111",
            "        {c} = {pairs}[n & 16383] + PAIRS[n >> 14 & 16383] + PAIRS[n >> 28 & 16383] + ENDS[n >> 42]",
            "    else:",
            "        {c} = {other}({c})",
            "else:",
            "    {c} = {other}({c})",
        ),
        {
            "ENDS": ENDS,
            "EPOCH": EPOCH,
            "MINUTE_MICROS_TWICE": MINUTE_MICROS_TWICE,
            "PAIRS": PAIRS,
        },
    ),
    Kind.ZONED_MICROSECONDS: (
        (
            "if len({c}) > 23 and {c}[19] == 46 and {c}[-3:] == b'+00':",
            "    {c} = {zoned} % ({c}[:10], {c}[11:-3].ljust(15, b'0'))",
            "else:",
            "    {c} = {other}({c})",
        ),
        {},
    ),
}
