"""The usual forms of cells as regular expressions, with direct ways from their parts to JSON.

A `Shape` takes a cell of the form that nearly all of a column's cells have, and gives the same bytes as the column's
snippet in `fast_json` does, which takes over for every other cell. Its pattern checks what a snippet asks in several
steps, and its groups hand over the parts that a snippet cuts out. `postgres.row_reader` puts the patterns of all columns together.
"""

from binascii import b2a_base64
from collections.abc import Mapping
from typing import Final

from tidings_capture.cdc.encoding.remembered import TWO_DIGITS, Memory
from tidings_capture.cdc.encoding.snippets import Shape
from tidings_capture.cdc.types.conversion import Conversion, Kind
from tidings_capture.postgres.encoding.fast_json import MINUTES
from tidings_envelope.json_codec import FALSE, TRUE

_QUOTED: Final = (b'"', "{c}", b'"')
_FROM_QUOTED: Final = ("{c} = {c}[1:-1]",)


def shape(conversion: Conversion) -> Shape | None:
    """The usual form of a column's cells; None where there is none that would help."""
    if conversion.kind is Kind.DECIMAL:
        scale = conversion.parameters["scale"]
        return _decimal(scale) if scale > 0 else None
    return _SHAPES.get(conversion.kind)


def _decimal(scale: int) -> Shape:
    """A number that is not negative, with exactly the column's decimals, as PostgreSQL writes them."""
    return Shape(
        rb"([0-9]+)\.([0-9]{%d})" % scale,
        parts=("{c}", "{c}_decimals"),
        size=f"len({{c}}) + {scale + 1}",
        lines=(
            "n = int({c} + {c}_decimals)",
            "if 32768 <= n < 8388608:  # three bytes",
            "    {c} = BASE64[n >> 12] + BASE64[n & 4095]",
            "else:",
            "    {c} = b2a_base64(n.to_bytes(n.bit_length() // 8 + 1, 'big'), newline=False)",
        ),
        result=_QUOTED,
        from_whole=_FROM_QUOTED,
        names={"b2a_base64": b2a_base64, "BASE64": _BASE64},
    )


_BASE64: Final = tuple(b2a_base64((n << 4).to_bytes(2, "big"))[:2] for n in range(4_096))
"""The two characters of twelve bits."""

_END_TEXTS: Final = {
    start: {
        second: (total // 100, b"%02d" % (total % 100))
        for second, number in TWO_DIGITS.items()
        for total in (start + number,)
    }
    for start in range(0, 100, 20)
}
"""By the last two digits of a minute's seconds since the epoch, and by the second of the minute: whether a hundred is
carried, and the last two digits of the sum."""


def _minute_texts(minute: bytes) -> tuple[tuple[bytes, bytes], dict[bytes, tuple[int, bytes]]]:
    """What stands before the last two digits, without and with a hundred more, and how to get those."""
    hundreds, rest = divmod(MINUTES[minute], 100)
    return (b"%d" % hundreds, b"%d" % (hundreds + 1)), _END_TEXTS[rest]


_MINUTE_TEXTS: Final = Memory(_minute_texts)
# The sizes tell whether a point stands before the decimals; PostgreSQL leaves trailing zeros out, and the point with them.
_MICROSECONDS: Final = Shape(
    rb"(2[-0-9 :]{15}):([0-9]{2})\.?([0-9]{0,6})",
    parts=("{c}", "{c}_second", "{c}_decimals"),
    size="len({c}_decimals) + 20 if {c}_decimals else 19",
    lines=(
        "hundreds, ends = MINUTE_TEXTS[{c}]",
        "carry, {c}_second = ends[{c}_second]",
        "{c} = hundreds[carry]",
        "{c}_decimals = {c}_decimals.ljust(6, b'0')",
    ),
    result=("{c}", "{c}_second", "{c}_decimals"),
    from_whole=("{c}_second = {c}_decimals = b''",),
    names={"MINUTE_TEXTS": _MINUTE_TEXTS},
)
"""From the year 2000 to 2999."""

_ZONED: Final = Shape(
    rb"([-0-9]{10}) ([0-9:]{8})\.?([0-9]{0,6})\+00",
    parts=("{c}", "{c}_time", "{c}_decimals"),
    size="len({c}_decimals) + 23 if {c}_decimals else 22",
    lines=("{c}_decimals = {c}_decimals.ljust(6, b'0')",),
    result=(b'"', "{c}", b"T", "{c}_time", b".", "{c}_decimals", b'Z"'),
    from_whole=(
        "{c}, _, {c}_time = {c}[1:-2].partition(b'T')",
        "{c}_time, point, {c}_decimals = {c}_time.partition(b'.')",
        "if not point: raise ValueError",
    ),
)
"""A year of four digits."""

_DOUBLE: Final = Shape(
    rb"(-?(?!0\.000)[0-9]{1,7})\.?([0-9]*)",
    parts=("{c}", "{c}_decimals"),
    size="len({c}) + 1 + len({c}_decimals) if {c}_decimals else len({c})",
    lines=("{c}_decimals = {c}_decimals or b'0'",),
    result=("{c}", b".", "{c}_decimals"),
    from_whole=("{c}, point, {c}_decimals = {c}.partition(b'.')", "if not point: raise ValueError"),
)
"""What Java writes without an exponent: zero, and from a thousandth up to ten million."""

_SHAPES: Final[Mapping[Kind, Shape]] = {
    Kind.INTEGER: Shape(rb"([-0-9]+)", always=True),
    Kind.BOOLEAN: Shape(
        rb"([tf])",
        size=1,
        lines=("{c} = TRUE if {c} == b't' else FALSE",),
        always=True,
        names={"TRUE": TRUE, "FALSE": FALSE},
    ),
    # ASCII without quotes, backslashes and control characters is its own JSON.
    Kind.TEXT: Shape(rb"([ !#-\[\]-~]*)", result=_QUOTED, from_whole=_FROM_QUOTED),
    Kind.PLAIN_TEXT: Shape(rb"([^\0]*)", result=_QUOTED, always=True),
    Kind.DOUBLE: _DOUBLE,
    Kind.MICROSECONDS: _MICROSECONDS,
    Kind.ZONED_MICROSECONDS: _ZONED,
}
