"""Direct ways from a cell to its JSON, as source code for the plan's generated functions.

Each snippet replaces the cell in variable ``{c}`` by its JSON without going through a Python value where the text
allows it. Every snippet must give the same bytes as the codec's encoder does for the converted value, or raise one of
`plan_code.IRREGULAR`; a test compares them. Text is the exception: `dumps` is right but for the rare characters of
`CONTROL` and `ASTRAL`, which the generated function looks for once in the whole row. Cells are trusted to be what
PostgreSQL's output functions write for the type.
"""

from binascii import b2a_base64
from collections.abc import Callable, Mapping
from typing import Final

from tidings_capture.cdc.encoding.remembered import TWO_DIGITS, Memory
from tidings_capture.cdc.encoding.snippets import TEXT, Snippet
from tidings_capture.cdc.types.civil import days_from_civil
from tidings_capture.cdc.types.conversion import Conversion, Kind
from tidings_capture.postgres.types.numbers import convert_boolean, convert_decimal
from tidings_capture.postgres.types.temporal import convert_date, convert_timestamp_us, zoned_timestamp
from tidings_envelope.decimals import decimal_to_bytes
from tidings_envelope.java.numbers import double_json
from tidings_envelope.json_codec import FALSE, TRUE, bytes_json, string_json

_POINT: Final = ord(".")
_DASH: Final = ord("-")
EPOCH: Final = b"1970-01-01 00:01"
"""Timestamps that sort behind this, as text of the same length, are positive."""


def snippet(conversion: Conversion, name: str) -> Snippet | None:
    """The code for one column, or None where there is no direct way.

    Args:
        name: a unique identifier for names of this column's own.
    """
    remembered: Callable[[bytes], bytes]
    match conversion.kind:
        case Kind.LABEL:
            convert = conversion.convert  # which knows the labels
            remembered = lambda cell: string_json(convert(cell))  # noqa: E731 - one of two ways
        case Kind.DECIMAL:
            return _decimal(conversion.parameters["scale"], name)
        case Kind.DATE:
            remembered = _date
        case _:
            return _SNIPPETS.get(conversion.kind)
    return (f"{{c}} = {name}[{{c}}]",), {name: Memory(remembered)}


_ZONED_TEXT: Final = zoned_timestamp(6)


def text(cell: bytes) -> bytes:
    return string_json(cell.decode())


def _other_zoned(cell: bytes) -> bytes:
    if len(cell) == 22 and cell[-3:] == b"+00" and cell[4] == _DASH:
        return b'"%bT%b.000000Z"' % (cell[:10], cell[11:19])
    return b'"' + _ZONED_TEXT(cell).encode() + b'"'


def boolean(cell: bytes) -> bytes:
    return TRUE if convert_boolean(cell) else FALSE


def _decimal(scale: int, name: str) -> Snippet:
    """The base64 of the unscaled value, for cells with exactly the column's decimals, as PostgreSQL writes them."""

    def other(cell: bytes) -> bytes:
        return bytes_json(decimal_to_bytes(convert_decimal(cell), scale))

    if scale <= 0:
        return (f"{{c}} = {name}({{c}})",), {name: other}
    lines = (
        f"n = int({{c}}.replace(b'.', b'')) if {{c}}[{-scale - 1}] == 46 else -1",
        "if n >= 0:",
        "    {c} = b'\"%b\"' % b2a_base64(n.to_bytes(n.bit_length() // 8 + 1, 'big'), newline=False)",
        "else:",
        f"    {{c}} = {name}({{c}})",
    )
    return lines, {name: other, "b2a_base64": b2a_base64}


def _minute_seconds(minute: bytes) -> int:
    days = days_from_civil(int(minute[:4]), int(minute[5:7]), int(minute[8:10]))
    return (days * 1_440 + int(minute[11:13]) * 60 + int(minute[14:16])) * 60


MINUTES: Final = Memory(_minute_seconds)
"""Seconds since the epoch of ``2026-11-20 12:34``."""


def _other_microseconds(cell: bytes) -> bytes:
    size = len(cell)
    if (
        cell > EPOCH
        and cell[4] == _DASH
        and (size == 19 or (20 < size < 26 and cell[19] == _POINT))
        and cell[-1] < 58
    ):
        # Fewer decimals than six: PostgreSQL leaves trailing zeros out.
        return b"%d%b" % (MINUTES[cell[:16]] + int(cell[17:19]), cell[20:].ljust(6, b"0"))
    return b"%d" % convert_timestamp_us(cell)


def _date(cell: bytes) -> bytes:
    return b"%d" % convert_date(cell)


_DOUBLE: Final[Snippet] = (
    (
        "a, _, b = {c}.partition(b'.')",
        "if not (a.isdigit() and b.isdigit() and len(a) < 8 and (a != b'0' or b[:3] != b'000')):",
        "    {c} = double_json(float({c}))",
    ),
    {"double_json": double_json},
)

_MICROSECONDS: Final[Snippet] = (
    (
        "size = len({c})",
        "if size == 26 and {c} > EPOCH and {c}[19] == 46 and {c}[25] < 58:",
        "    {c} = b'%d%b' % (MINUTES[{c}[:16]] + TWO_DIGITS[{c}[17:19]], {c}[20:])",
        "elif size == 19 and {c} > EPOCH and {c}[4] == 45:",
        "    {c} = b'%d000000' % (MINUTES[{c}[:16]] + TWO_DIGITS[{c}[17:]])",
        "else:",
        "    {c} = other_microseconds({c})",
    ),
    {
        "EPOCH": EPOCH,
        "MINUTES": MINUTES,
        "TWO_DIGITS": TWO_DIGITS,
        "other_microseconds": _other_microseconds,
    },
)
"""A timestamp after 1970 with four digits of year and six decimals: it is 26 long, has its point at 19 and does not end
with BC. Or without decimals: then it is 19 long."""

_ZONED: Final[Snippet] = (
    (
        "if len({c}) > 23 and {c}[19] == 46 and {c}[-3:] == b'+00':",
        "    {c} = b'\"%bT%bZ\"' % ({c}[:10], {c}[11:-3].ljust(15, b'0'))",
        "else:",
        "    {c} = other_zoned({c})",
    ),
    {"other_zoned": _other_zoned},
)
"""A timestamp with decimals, of which PostgreSQL leaves trailing zeros out; its point is at 19, so that the year has four
digits, and what ends with +00 does not end with BC."""

_SNIPPETS: Final[Mapping[Kind, Snippet]] = {
    Kind.INTEGER: (("if not {c}.isdigit():", "    {c} = b'%d' % int({c})"), {}),
    Kind.BOOLEAN: (
        ("{c} = TRUE if {c} == b't' else other_boolean({c})",),
        {"TRUE": TRUE, "other_boolean": boolean},
    ),
    Kind.TEXT: TEXT,
    Kind.PLAIN_TEXT: (("{c} = b'\"%b\"' % {c}",), {}),
    Kind.DOUBLE: _DOUBLE,
    Kind.MICROSECONDS: _MICROSECONDS,
    Kind.ZONED_MICROSECONDS: _ZONED,
}
