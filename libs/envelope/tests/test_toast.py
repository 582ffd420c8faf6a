"""What stands for a value that was not sent."""

import hashlib
import uuid
from base64 import b64encode

import pytest

from tidings_envelope.toast import (
    UNAVAILABLE,
    UNAVAILABLE_UUID,
    has_unavailable,
    is_unavailable,
    without_unavailable,
)

RAW = UNAVAILABLE.encode()


def test_the_uuid_is_java_s_name_based_one() -> None:
    digest = hashlib.md5(RAW, usedforsecurity=False).digest()
    assert str(uuid.UUID(bytes=digest, version=3)) == UNAVAILABLE_UUID


@pytest.mark.parametrize(
    "value",
    [
        UNAVAILABLE,
        RAW,
        b64encode(RAW).decode(),
        [UNAVAILABLE],
        [RAW],
        list(RAW),
        [UNAVAILABLE_UUID],
        {UNAVAILABLE: UNAVAILABLE},
        f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}',
    ],
)
def test_every_form_of_the_placeholder_is_recognised(value: object) -> None:
    assert is_unavailable(value)


@pytest.mark.parametrize(
    "value", [None, "", "x", 1, [], [UNAVAILABLE, UNAVAILABLE], {}, UNAVAILABLE_UUID, f" {UNAVAILABLE}"]
)
def test_other_values_are_values(value: object) -> None:
    assert not is_unavailable(value)


def test_a_row_takes_over_what_is_known() -> None:
    row = {"id": 1, "note": UNAVAILABLE, "other": UNAVAILABLE}
    assert has_unavailable(row)
    assert without_unavailable(row, {"id": 0, "note": "long"}) == {
        "id": 1,
        "note": "long",
        "other": UNAVAILABLE,
    }
