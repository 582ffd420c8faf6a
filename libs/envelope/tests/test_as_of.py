"""The header that says as of which position a snapshot's row is."""

import pytest

from tidings_envelope.errors import DecodeError
from tidings_envelope.headers.as_of import HEADER, as_of


def test_the_position_is_found_among_other_headers() -> None:
    assert as_of([("a", b"1"), (HEADER, b"38668664"), ("b", None)]) == 38_668_664
    assert as_of([("a", b"1")]) is None


@pytest.mark.parametrize(
    "value", [None, b"", b"-1", b"1.0", b"0/1", "\u0663".encode(), b"1" * 5_000, b"18446744073709551616"]
)
def test_anything_else_is_no_position(value: bytes | None) -> None:
    with pytest.raises(DecodeError, match=HEADER):
        as_of([(HEADER, value)])
