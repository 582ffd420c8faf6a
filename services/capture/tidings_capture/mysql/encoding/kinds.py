"""What a type becomes in records. Pure."""

from collections.abc import Callable
from typing import Any

from tidings_envelope.schema import ConnectSchema

Convert = Callable[[Any], Any]
"""Makes a value of a cell that is not NULL.

Raises:
    NoRepresentationError: the schema has no place for it.
"""
Kind = tuple[ConnectSchema, Convert, tuple[Any] | None]
"""Schema, conversion, and what a date becomes that no calendar has in a column that takes no null."""


def same(cell: Any) -> Any:
    """The cell is the value."""
    return cell
