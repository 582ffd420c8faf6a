"""Decimals survive their bytes at any length."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_envelope.decimals import decimal_from_bytes, decimal_to_bytes, int_to_bytes


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
