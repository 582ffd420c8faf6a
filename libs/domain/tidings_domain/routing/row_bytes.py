"""Estimates how much memory a row takes while it waits.

An estimate, from the sizes of its values and what a row costs besides (its envelope, its dictionaries): within a fifth of
what a process grows by, for rows of a hundred bytes as for rows of a megabyte.
"""

from sys import getsizeof
from typing import Any

from tidings_envelope.envelope import Envelope

_ENVELOPE_BYTES = 1_200
"""Of an envelope with its source block, where it was read, and its place in a transaction."""
_ROW_BYTES = 250
_VALUE_BYTES = 16


def envelope_bytes(envelope: Envelope) -> int:
    """Bytes of memory that an envelope takes, about."""
    size = _ENVELOPE_BYTES
    if envelope.before is not None:
        size += row_bytes(envelope.before)
    if envelope.after is not None:
        size += row_bytes(envelope.after)
    return size


def row_bytes(row: dict[str, Any]) -> int:
    """Bytes of memory that a row's values take, about; column names are shared by rows."""
    size = _ROW_BYTES
    for value in row.values():
        size += getsizeof(value) + _VALUE_BYTES if type(value) not in _CONTAINERS else _container_bytes(value)
    return size


_CONTAINERS = frozenset((dict, list))


def _container_bytes(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value
    return getsizeof(value) + sum(
        _container_bytes(one) if type(one) in _CONTAINERS else getsizeof(one) for one in inner
    )
