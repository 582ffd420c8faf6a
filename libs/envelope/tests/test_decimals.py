"""Decimals survive their bytes at any length."""

import random
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_envelope.decimals import (
    MOST_DIGITS,
    decimal_from_bytes,
    decimal_from_int,
    decimal_to_bytes,
    int_from_decimal,
    int_from_digits,
    int_to_bytes,
)


@pytest.mark.parametrize(
    ("number", "octets"),
    [
        (0, b"\0"),
        (127, b"\x7f"),
        (128, b"\0\x80"),
        (-128, b"\x80"),
        (-129, b"\xff\x7f"),
        (256, b"\1\0"),
        (-1, b"\xff"),
    ],
)
def test_integers_are_the_shortest_twos_complement(number: int, octets: bytes) -> None:
    assert int_to_bytes(number) == octets


@given(st.integers(), st.integers(0, 50))
def test_a_decimal_survives_its_bytes(unscaled: int, scale: int) -> None:
    value = decimal_from_bytes(int_to_bytes(unscaled), scale)
    assert value.as_tuple().exponent == -scale
    assert decimal_to_bytes(value, scale) == int_to_bytes(unscaled)


def test_the_longest_numeric_has_no_limit() -> None:
    value = Decimal("9" * 131_072 + "." + "9" * 16_383)
    assert decimal_from_bytes(decimal_to_bytes(value, 16_383), 16_383) == value


def test_a_shorter_value_is_brought_to_the_scale() -> None:
    assert decimal_to_bytes(Decimal("1.5"), 3) == (1500).to_bytes(2, "big")


@given(st.integers(0, 7_000), st.integers(0, 9), st.sampled_from(["", "-", "+"]), st.randoms())
def test_digits_of_any_number_are_read_as_python_reads_them(
    count: int, first: int, sign: str, chance: random.Random
) -> None:
    text = sign + str(first) + "".join(chance.choices("0123456789", k=count))
    number = int_from_digits(text.encode())
    assert decimal_from_int(number) == Decimal(text)
    assert number == int(Decimal(text)) == int_from_decimal(Decimal(text))
    assert int_from_decimal(Decimal(text + ".9")) == number


@pytest.mark.parametrize("text", [b"1" * 2_000 + b"x", b"--" + b"1" * 2_000, b"1_1" * 2_000])
def test_what_is_no_number_is_refused_at_any_length(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        int_from_digits(text)


def test_the_longest_numbers_take_no_time_that_is_seen() -> None:
    """Half a second each by Python's own conversions, whose time grows with the square of the digits."""
    value = Decimal("7" * 131_072 + "." + "3" * 16_383)
    began = time.process_time()
    for _ in range(10):
        assert decimal_from_bytes(decimal_to_bytes(value, 16_383), 16_383) == value
    assert time.process_time() - began < 2.5


@pytest.mark.parametrize("text", ["1E+999999", "-7E+300000", f"1E+{MOST_DIGITS}"])
def test_a_number_that_no_database_has_is_refused_before_its_digits_are_made(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="more than"):
        decimal_to_bytes(Decimal(text), 2)
    assert time.process_time() - began < 1


def test_zero_is_zero_with_any_exponent() -> None:
    assert int_from_decimal(Decimal("0E+999999")) == 0
    assert int_from_decimal(Decimal("-0E-999999")) == 0
