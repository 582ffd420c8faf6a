"""Structs, maps and arrays as JSON: bytes are base64, decimals numbers with all of their digits."""

import base64
import binascii
from typing import Any

import msgspec

from tidings_sinks.errors import RowError

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def json_text(value: Any) -> str:
    """A value as JSON."""
    return _ENCODER.encode(value).decode()


def bytes_of_base64(value: str) -> bytes:
    """The bytes of a text in a record without schemas, for a column of bytes.

    Raises:
        RowError: it is not base64.
    """
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise RowError("a value for a column of bytes is not base64") from None
