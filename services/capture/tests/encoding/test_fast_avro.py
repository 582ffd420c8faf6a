"""The direct ways to Avro give what the encoder gives for the converted value, for cells as PostgreSQL writes them."""

import datetime
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.tables import Column
from tidings_capture.cdc.types.conversion import Conversion, UnknownLabelError
from tidings_capture.postgres.encoding.fast_avro import snippet
from tidings_capture.postgres.types.selection import conversion_for
from tidings_envelope.avro.codec import AvroCodec
from tidings_envelope.schema import NO_DEFAULT

NUMERIC_10_2 = (10 << 16 | 2) + 4


def compiled(name: str, typmod: int = -1, labels: tuple[str, ...] = (), *, zero: Any = None) -> list[Any]:
    """The direct and the checked function of a required column, an optional one, and one with a default."""
    column = Column("c", 1, typmod, name, not_null=True, enum_labels=labels)
    conversion = conversion_for(column, ConversionOptions("shop", "shop"))
    assert isinstance(conversion, Conversion)
    functions = []
    for optional, default in ((False, NO_DEFAULT), (True, NO_DEFAULT), (True, zero)):
        schema = replace(conversion.schema, optional=optional, default=default)
        codec = AvroCodec()
        found = snippet(conversion, schema, codec, "column_0")
        assert found is not None
        lines, names = found
        source = ["def direct(c):", *[f"    {line.replace('{c}', 'c')}" for line in lines], "    return c"]
        exec("\n".join(source), names)
        functions.append((names["direct"], codec.encoder(schema), conversion.convert))
    return functions


def check(functions: list[Any], cell: bytes) -> None:
    for direct, encode, convert in functions:
        assert direct(cell) == encode(convert(cell))
        assert direct(cell) == encode(convert(cell))  # from memory, where there is one


INT8 = compiled("int8", zero=0)
BOOLEAN = compiled("bool", zero=False)
TEXT = compiled("text", zero="")
LABEL = compiled("mood", labels=("a", "b"), zero="a")
DOUBLE = compiled("float8", zero=0.0)
DECIMAL = compiled("numeric", NUMERIC_10_2, zero=Decimal(0))
DATE = compiled("date", zero=0)
TIMESTAMP = compiled("timestamp", zero=0)
ZONED = compiled("timestamptz", zero="")


@given(
    st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([s * (1 << n) + d for n in range(62) for s in (1, -1) for d in (-1, 0)])
)
def test_integers(value: int) -> None:
    check(INT8, str(value).encode())


@pytest.mark.parametrize("cell", [b"t", b"f"])
def test_booleans(cell: bytes) -> None:
    check(BOOLEAN, cell)


@given(st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8")))
@example("x" * 63)
@example("é" * 32)
@example("😀" * 5000)
def test_texts(value: str) -> None:
    check(TEXT, value.encode())


@given(st.floats(allow_nan=False))
def test_doubles(value: float) -> None:
    check(DOUBLE, repr(value).replace("inf", "Infinity").encode())


@given(st.integers(-(10**10) + 1, 10**10 - 1))
@example(0)
@example(-128)
@example(128)
def test_decimals(unscaled: int) -> None:
    check(DECIMAL, str(Decimal(unscaled).scaleb(-2).quantize(Decimal("0.01"))).encode())


@given(st.datetimes())
@example(datetime.datetime(1970, 1, 1))  # noqa: DTZ001  # without a zone, as the column
@example(datetime.datetime(1970, 1, 1, 0, 2, 0, 1))  # noqa: DTZ001
@example(datetime.datetime(1979, 1, 1, 0, 2, 0, 1))  # noqa: DTZ001
def test_dates_and_timestamps(value: datetime.datetime) -> None:
    text = value.isoformat(" ")
    if "." in text:
        text = text.rstrip("0")
    check(DATE, text[:10].encode())
    check(TIMESTAMP, text.encode())
    check(ZONED, text.encode() + b"+00")


@pytest.mark.parametrize(
    "cell",
    [
        b"infinity",
        b"10000-01-01 00:00:00.12345",
        b"4713-01-01 00:00:00.123 BC",
        b"294276-12-31 23:59:59.9999",
    ],
)
def test_unusual_timestamps(cell: bytes) -> None:
    check(TIMESTAMP, cell)


@pytest.mark.parametrize(
    "cell", [b"-infinity", b"10000-01-01 00:00:00.12345+00", b"2026-01-01 00:00:00.123456+01"]
)
def test_unusual_zoned_timestamps(cell: bytes) -> None:
    check(ZONED, cell)


def test_labels() -> None:
    for label in (b"a", b"b"):
        check(LABEL, label)
    with pytest.raises(UnknownLabelError):
        check(LABEL, b"c")
