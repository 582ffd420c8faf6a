"""What Debezium writes for a TOASTed value that an update did not touch, so that the server did not send it.

It is the text of `unavailable.value.placeholder` (its default; another one is not known here), in a form that fits the
column's type: the text itself; its bytes, base64 in JSON; in arrays one such element; in arrays of numbers its bytes as
numbers; in arrays of uuid a name-based uuid; in hstore the one pair. Where no form fits (numeric as bytes, bytea in the
base64 modes) it writes null, which nobody can tell from NULL.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

UNAVAILABLE = "__debezium_unavailable_value"
UNAVAILABLE_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""Java's ``UUID.nameUUIDFromBytes`` of it."""
_BYTES = UNAVAILABLE.encode()
_BASE64 = b64encode(_BYTES).decode()
_TEXTS = frozenset((UNAVAILABLE, _BASE64, f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}'))
PLACEHOLDERS: frozenset[object] = _TEXTS | {_BYTES}
"""In columns of text and bytes."""
PLACEHOLDER_PARTS = (_BYTES, _BASE64.encode())
"""Of which each of these has one in it, as UTF-8."""
_LISTS: tuple[list[object], ...] = (
    [UNAVAILABLE],
    [_BYTES],
    [_BASE64],
    list(_BYTES),
    [UNAVAILABLE_UUID],
)
_PAIR = {UNAVAILABLE: UNAVAILABLE}


def is_unavailable(value: object) -> bool:
    """Whether a column's value stands for one that was not sent."""
    kind = type(value)
    if kind is str:
        return value in _TEXTS
    if kind is bytes:
        return value == _BYTES
    if kind is list:
        return value in _LISTS
    return kind is dict and value == _PAIR


def has_unavailable(row: Mapping[str, Any]) -> bool:
    """Whether any value of a row was not sent."""
    return any(map(is_unavailable, row.values()))


def without_unavailable(row: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The row with the known values where none were sent; what is not known stays a placeholder."""
    return {name: known.get(name, value) if is_unavailable(value) else value for name, value in row.items()}
