"""The direct ways to JSON give what the encoder gives for the converted value, for cells as PostgreSQL writes them."""

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.encoding.snippets import ASTRAL, CONTROL
from tidings_capture.cdc.tables import Column
from tidings_capture.cdc.types.conversion import Conversion, Kind, UnknownLabelError
from tidings_capture.postgres.encoding.fast_json import snippet
from tidings_capture.postgres.types.selection import conversion_for
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.semantic import STRING

NUMERIC_10_2 = (10 << 16 | 2) + 4


def compiled(name: str, typmod: int = -1, labels: tuple[str, ...] = ()) -> Any:
    """The direct and the checked function of a type."""
    column = Column("c", 1, typmod, name, not_null=True, enum_labels=labels)
    conversion = conversion_for(column, ConversionOptions("shop", "shop"))
    assert isinstance(conversion, Conversion)
    found = snippet(conversion, "memory")
    assert found is not None
    lines, names = found
    source = ["def direct(c):", *[f"    {line.replace('{c}', 'c')}" for line in lines], "    return c"]
    exec("\n".join(source), names)
    convert = names["direct"]
    encode = JsonCodec().encoder(conversion.schema)
    return convert, lambda cell: encode(conversion.convert(cell))


def check(functions: Any, cell: bytes) -> None:
    direct, checked = functions
    for _ in range(2):  # the second time from memory, where there is one
        encoded = direct(cell)
        if CONTROL in encoded or ASTRAL(encoded):
            return  # the generated function leaves such rows to the checked way
        assert encoded == checked(cell)


INT8 = compiled("int8")
TEXT = compiled("text")
UUID = compiled("uuid")
LABEL = compiled("mood", labels=("a", "b"))
DOUBLE = compiled("float8")
DECIMAL = compiled("numeric", NUMERIC_10_2)
WHOLE = compiled("numeric", (10 << 16) + 4)
DATE = compiled("date")
TIMESTAMP = compiled("timestamp")
ZONED = compiled("timestamptz")


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers(value: int) -> None:
    check(INT8, str(value).encode())


@given(st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8")))
@example("\x1b")
@example("é\x1b")
@example("😀")
@example('\\u00e9"')
def test_texts(value: str) -> None:
    check(TEXT, value.encode())


@given(st.uuids())
def test_uuids(value: Any) -> None:
    check(UUID, str(value).encode())


def postgresql_float(value: float) -> bytes:
    """As ``float8out`` writes it: shortest digits, an exponent below 1e-4 and from 1e15 on."""
    text = repr(value)
    if text.endswith(".0"):
        text = text[:-2]
    return text.replace("inf", "Infinity").replace("nan", "NaN").encode()


@given(st.floats())
@example(0.001)
@example(0.00099999)
@example(0.0001)
@example(1e7)
@example(9999999.0)
@example(-0.0)
@example(100.0)
def test_doubles(value: float) -> None:
    check(DOUBLE, postgresql_float(value))


@given(st.integers(-(10**10) + 1, 10**10 - 1))
@example(0)
@example(-1)
@example(-128)
@example(128)
def test_decimals(unscaled: int) -> None:
    check(DECIMAL, str(Decimal(unscaled).scaleb(-2).quantize(Decimal("0.01"))).encode())
    check(WHOLE, str(unscaled).encode())


@given(st.dates())
def test_dates(value: datetime.date) -> None:
    check(DATE, value.isoformat().encode())


@pytest.mark.parametrize("cell", [b"infinity", b"-infinity", b"10000-01-01", b"0044-03-15 BC"])
def test_unusual_dates(cell: bytes) -> None:
    check(DATE, cell)


@given(st.datetimes())
@example(datetime.datetime(1970, 1, 1))  # noqa: DTZ001  # without a zone, as the column
@example(datetime.datetime(1970, 1, 1, 0, 0, 59, 999999))  # noqa: DTZ001
@example(datetime.datetime(1969, 12, 31, 23, 59, 59, 999999))  # noqa: DTZ001
def test_timestamps(value: datetime.datetime) -> None:
    text = value.isoformat(" ")
    if "." in text:
        text = text.rstrip("0")
    check(TIMESTAMP, text.encode())
    check(ZONED, text.encode() + b"+00")


@pytest.mark.parametrize(
    "cell",
    [
        b"infinity",
        b"-infinity",
        b"10000-01-01 00:00:00.12345",
        b"4713-01-01 00:00:00.123 BC",
        b"4713-01-01 00:00:00 BC",
        b"294276-12-31 23:59:59.9999",
        b"0044-03-15 12:00:00.1 BC",
    ],
)
def test_unusual_timestamps(cell: bytes) -> None:
    check(TIMESTAMP, cell)


@pytest.mark.parametrize(
    "cell",
    [
        b"infinity",
        b"10000-01-01 00:00:00.12345+00",
        b"2026-01-01 00:00:00.123456+01",
        b"2026-01-01 00:00:00.123456-05:30",
        b"2026-01-01 00:00:00.123+05:30",
        b"4713-01-01 00:00:00.123+00 BC",
        b"1890-01-01 00:00:00.123456+00",
    ],
)
def test_unusual_zoned_timestamps(cell: bytes) -> None:
    check(ZONED, cell)


@pytest.mark.listing
def test_every_kind_but_other_has_a_direct_way() -> None:
    kinds = set(Kind) - {Kind.OTHER}
    for kind in kinds:
        assert (
            snippet(Conversion(STRING, bytes.decode, "", kind=kind, parameters={"scale": 2}), "m") is not None
        )


def test_labels() -> None:
    for label in (b"a", b"b"):
        check(LABEL, label)
    with pytest.raises(UnknownLabelError):
        check(LABEL, b"c")
