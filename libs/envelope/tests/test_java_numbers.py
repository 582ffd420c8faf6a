"""Floating point numbers are written as Java writes them; the expected texts are Debezium's."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_envelope.java.numbers import double_json, float_json


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, b"0.0"),
        (-0.0, b"-0.0"),
        (1e7, b"1.0E7"),
        (9999999.0, b"9999999.0"),
        (0.001, b"0.001"),
        (0.00099999, b"9.9999E-4"),
        (1e-5, b"1.0E-5"),
        (123456789012345678.0, b"1.2345678901234568E17"),
        (12345678.9, b"1.23456789E7"),
        (1.7976931348623157e308, b"1.7976931348623157E308"),
        (5e-324, b"4.9E-324"),
        (2e-323, b"2.0E-323"),
        (9007199254740993.0, b"9.007199254740992E15"),
        (-1234567.875, b"-1234567.875"),
        (-1e20, b"-1.0E20"),
        (math.nan, b'"NaN"'),
        (math.inf, b'"Infinity"'),
        (-math.inf, b'"-Infinity"'),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: bytes) -> None:
    assert double_json(value) == text


@pytest.mark.parametrize(
    ("digits", "text"),
    [
        ("3.3", b"3.3"),
        ("1e-45", b"1.4E-45"),
        ("-3.4028235e+38", b"-3.4028235E38"),
        ("1.1754944e-38", b"1.1754944E-38"),
        ("1.2345679e+08", b"1.2345679E8"),
        ("1e+07", b"1.0E7"),
        ("NaN", b'"NaN"'),
        ("-Infinity", b'"-Infinity"'),
    ],
)
def test_floats_keep_the_digits_postgresql_gives_them(digits: str, text: bytes) -> None:
    assert float_json(float(digits)) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back_as_itself(value: float) -> None:
    assert json.loads(double_json(value)) == value
