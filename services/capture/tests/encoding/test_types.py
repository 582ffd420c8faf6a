"""Cells become what Debezium makes of them; the expected values are from its own records."""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_capture.cdc.encoding.options import (
    BinaryHandling,
    ConversionOptions,
    DecimalHandling,
    IntervalHandling,
    TimePrecision,
)
from tidings_capture.cdc.tables import Column, ElementType
from tidings_capture.cdc.types.civil import civil_from_days, days_from_civil
from tidings_capture.cdc.types.conversion import CellError, Conversion, NoRepresentationError
from tidings_capture.postgres.types.selection import conversion_for

NUMERIC_10_2 = (10 << 16 | 2) + 4


def options(**changes: Any) -> ConversionOptions:
    return ConversionOptions("shop", "shop", **changes)


def conversion(
    name: str, typmod: int = -1, labels: Sequence[str] = (), element: str | None = None, **changes: Any
) -> Conversion:
    column = Column(
        "c",
        99_999,
        typmod,
        name,
        not_null=False,
        enum_labels=() if element else tuple(labels),
        element=ElementType(1, element, tuple(labels)) if element else None,
    )
    found = conversion_for(column, options(**changes))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "typmod", "cell", "value"),
    [
        ("int2", -1, b"-32768", -32768),
        ("int8", -1, b"9223372036854775807", 2**63 - 1),
        ("oid", -1, b"4294967295", 2**32 - 1),
        ("bool", -1, b"t", True),
        ("bool", -1, b"f", False),
        ("float8", -1, b"1e-05", 1e-5),
        ("numeric", NUMERIC_10_2, b"12.34", Decimal("12.34")),
        ("numeric", -1, b"12.50", {"scale": 1, "value": b"\x7d"}),
        ("numeric", -1, b"100", {"scale": 0, "value": b"d"}),
        ("numeric", -1, b"0.00", {"scale": 0, "value": b"\0"}),
        ("numeric", -1, b"-129", {"scale": 0, "value": b"\xff\x7f"}),
        ("text", -1, "é".encode(), "é"),
        ("bpchar", 7, b"ab ", "ab "),
        ("date", -1, b"2026-11-20", 20777),
        ("date", -1, b"1969-12-31", -1),
        ("date", -1, b"0044-03-15 BC", -735160),
        ("date", -1, b"10000-01-01", 2932897),
        ("date", -1, b"infinity", 2146033979),
        ("date", -1, b"-infinity", -2147472691),
        ("time", -1, b"12:34:56.123456", 45296123456),
        ("time", 3, b"12:34:56.789", 45296789),
        ("time", -1, b"24:00:00", 86400000000),
        ("timetz", -1, b"12:34:56.123456+02", "10:34:56.123456Z"),
        ("timetz", -1, b"23:30:00-05:45", "05:15:00Z"),
        ("timetz", -1, b"24:00:00+00", "24:00:00Z"),
        ("timestamp", -1, b"2026-11-20 12:34:56.123456", 1795178096123456),
        ("timestamp", 3, b"2026-11-20 12:34:56.789", 1795178096789),
        ("timestamp", -1, b"1969-12-31 23:59:59.999999", -1),
        ("timestamp", -1, b"infinity", 2**63 - 1),
        ("timestamp", 0, b"-infinity", -9223372036832400000),
        ("timestamp", -1, b"294276-12-31 23:59:59.999999", -9223372036853775810),
        ("timestamptz", -1, b"2026-11-20 12:34:56+00", "2026-11-20T12:34:56.000000Z"),
        ("timestamptz", 0, b"2026-11-20 12:34:56+02", "2026-11-20T10:34:56Z"),
        ("timestamptz", 3, b"2026-11-20 12:34:56.78-05:30", "2026-11-20T18:04:56.780Z"),
        ("timestamptz", -1, b"0044-03-15 12:00:00+00 BC", "-0043-03-15T12:00:00.000000Z"),
        ("timestamptz", -1, b"10000-01-01 00:00:00.5+00", "+10000-01-01T00:00:00.500000Z"),
        ("timestamptz", -1, b"infinity", "infinity"),
        ("interval", -1, b"1 year 2 mons 3 days 04:05:06.789", 37091106789000),
        ("interval", -1, b"-1 years -2 mons -3 days -04:05:06.789012", -37091106789012),
        ("interval", -1, b"1 day -00:00:01", 86399000000),
        ("interval", -1, b"-00:00:00.5", -500000),
        ("interval", -1, b"00:00:00", 0),
        ("interval", -1, b"-00:00:03.97", -3969999),
        ("bytea", -1, b"\\x00ff10", b"\x00\xff\x10"),
        ("bit", 1, b"1", True),
        ("bit", 3, b"101", b"\x05"),
        ("varbit", 20, b"1000000000", b"\x00\x02"),
        ("jsonb", -1, b'{"a": 1}', '{"a": 1}'),
        ("int4range", -1, b"[1,5)", "[1,5)"),
    ],
)
def test_cells(name: str, typmod: int, cell: bytes, value: Any) -> None:
    assert conversion(name, typmod).convert(cell) == value


@pytest.mark.parametrize(
    ("changes", "name", "typmod", "cell", "value"),
    [
        ({"decimal_handling": DecimalHandling.STRING}, "numeric", -1, b"12.50", "12.50"),
        ({"decimal_handling": DecimalHandling.STRING}, "numeric", -1, b"NaN", "NAN"),
        ({"decimal_handling": DecimalHandling.STRING}, "numeric", -1, b"-Infinity", "NEGATIVE_INFINITY"),
        ({"decimal_handling": DecimalHandling.DOUBLE}, "numeric", NUMERIC_10_2, b"12.50", 12.5),
        ({"time_precision": TimePrecision.ADAPTIVE_TIME_MICROSECONDS}, "time", 0, b"12:34:56", 45296000000),
        ({"time_precision": TimePrecision.CONNECT}, "time", -1, b"12:34:56.123456", 45296123),
        ({"time_precision": TimePrecision.CONNECT}, "timestamp", -1, b"infinity", 9223372036825200000),
        ({"binary_handling": BinaryHandling.BASE64}, "bytea", -1, b"\\xfbff", "+/8="),
        ({"binary_handling": BinaryHandling.BASE64_URL_SAFE}, "bytea", -1, b"\\xfbff", "-_8="),
        ({"binary_handling": BinaryHandling.HEX}, "bytea", -1, b"\\xfbff", "fbff"),
        (
            {"interval_handling": IntervalHandling.STRING},
            "interval",
            -1,
            b"1 year 04:05:06.70",
            "P1Y0M0DT4H5M6.7S",
        ),
        ({"interval_handling": IntervalHandling.STRING}, "interval", -1, b"-00:00:00.5", "P0Y0M0DT0H0M-0.5S"),
        (
            {"interval_handling": IntervalHandling.STRING},
            "interval",
            -1,
            b"00:00:03.97",
            "P0Y0M0DT0H0M3.969999999S",
        ),
        (
            {"interval_handling": IntervalHandling.STRING},
            "interval",
            -1,
            b"00:00:00.000001",
            "P0Y0M0DT0H0M0.000001S",
        ),
        ({"include_unknown_datatypes": True}, "pg_lsn", -1, b"0/1", b"0/1"),
    ],
)
def test_modes(changes: dict[str, Any], name: str, typmod: int, cell: bytes, value: Any) -> None:
    assert conversion(name, typmod, **changes).convert(cell) == value


@pytest.mark.parametrize(
    ("element", "cell", "value"),
    [
        ("int4", b"{}", []),
        ("int4", b"{1,-2,NULL}", [1, -2, None]),
        ("int4", b"[0:1]={1,2}", [1, 2]),
        ("text", b'{a,"b c",NULL,"NULL","q\\"uote","back\\\\slash","","{}","x,y"}',
         ["a", "b c", None, "NULL", 'q"uote', "back\\slash", "", "{}", "x,y"]),
        ("text", '{é,"😀"}'.encode(), ["é", "😀"]),
        ("float8", b"{1e+10,0.1,Infinity}", [1e10, 0.1, float("inf")]),
        ("time", b"{12:34:56.123456,NULL,24:00:00}", [45296123000, None, 0]),
        ("timestamptz", b'{infinity,-infinity}', ["infinity", "+292269055-12-02T23:00:00.000000Z"]),
        ("bytea", b'{"\\\\x00ff",NULL,"\\\\x"}', [b"\0\xff", None, b""]),
    ],
)  # fmt: skip
def test_arrays(element: str, cell: bytes, value: Any) -> None:
    assert conversion(f"_{element}", element=element).convert(cell) == value


def test_an_array_of_enums_with_a_null_is_null_as_a_whole() -> None:
    array = conversion("_mood", labels=["sad", "ok"], element="mood")
    assert array.convert(b"{ok,sad}") == ["ok", "sad"]
    with pytest.raises(NoRepresentationError):
        array.convert(b"{ok,NULL}")


@pytest.mark.parametrize(
    ("cell", "size"),
    [(b"{{1,2},{3,4}}", 2), (b"[1:1][0:1]={{1,2}}", 1), (b'{{{"{",2}},{{3,4}},{{5,6}}}', 3)],
)
def test_of_an_array_of_several_dimensions_there_are_as_many_nulls_as_the_first_has(
    cell: bytes, size: int
) -> None:
    assert conversion("_int4", element="int4").convert(cell) == [None] * size


@pytest.mark.parametrize(
    "cell",
    [b"{{1,2},{3,4}", b"{{1,2}}}", b"{{1},{2}},{3}", b"1,2", b"{1,2", b"{1,,2}", b'{"1}', b"", b"{1,}"],
)
def test_anything_but_an_array_is_refused(cell: bytes) -> None:
    with pytest.raises(CellError, match="not an array"):
        conversion("_int4", element="int4").convert(cell)


@given(st.lists(st.none() | st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8"))))
def test_text_arrays_survive_postgresqls_quoting(values: list[str | None]) -> None:
    quoted = [
        "NULL" if v is None else '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"' for v in values
    ]
    cell = ("{" + ",".join(quoted) + "}").encode()
    assert conversion("_text", element="text").convert(cell) == values


@pytest.mark.parametrize("cell", [b"NaN", b"Infinity", b"-Infinity"])
@pytest.mark.parametrize("typmod", [-1, NUMERIC_10_2])
def test_precise_decimals_have_no_special_values(cell: bytes, typmod: int) -> None:
    with pytest.raises(CellError, match=r"decimal\.handling\.mode=string"):
        conversion("numeric", typmod).convert(cell)


@pytest.mark.parametrize(
    "name", ["date", "time", "timetz", "timestamp", "timestamptz", "interval", "bytea", "bool"]
)
@pytest.mark.parametrize("cell", [b"secret", b"01/02/2026", b"2026-11-20T12:00:00", b" "])
def test_a_cell_in_another_style_is_refused_without_its_content(name: str, cell: bytes) -> None:
    with pytest.raises(CellError) as caught:
        conversion(name).convert(cell)
    assert "secret" not in str(caught.value)


def test_a_type_nobody_knows_is_left_out() -> None:
    assert conversion_for(Column("c", 1, -1, "pg_lsn", not_null=True), options()) is None
    interval_array = Column("c", 1, -1, "_interval", not_null=True, element=ElementType(1, "interval"))
    assert conversion_for(interval_array, options()) is None


def test_every_turn_of_the_year_is_pythons() -> None:
    for year in range(1, 10_000):
        for month, day in ((1, 1), (2, 28), (3, 1), (12, 31)):
            days = datetime.date(year, month, day).toordinal() - datetime.date(1970, 1, 1).toordinal()
            assert days_from_civil(year, month, day) == days
            assert civil_from_days(days) == (year, month, day)


@given(st.integers(-2_500_000, 2_200_000_000))
def test_dates_survive_their_days(days: int) -> None:
    assert days_from_civil(*civil_from_days(days)) == days


def test_the_longest_numeric_is_converted() -> None:
    digits = b"9" * 131_072
    assert conversion("numeric").convert(digits + b"." + b"9" * 16_383)["scale"] == 16_383
