"""Structs, maps and arrays as JSON: bytes are base64, decimals numbers with all of their digits."""

from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def json_text(value: Any) -> str:
    """A value as JSON."""
    return _ENCODER.encode(value).decode()
