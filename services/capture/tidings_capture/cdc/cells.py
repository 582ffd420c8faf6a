"""The cells of a row, as a database sends them."""

from enum import Enum
from typing import Final, TypeAlias


class Unchanged(Enum):
    """The type of `UNCHANGED`."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
"""A value that the update did not touch, so that the database does not repeat it."""

Cell: TypeAlias = bytes | Unchanged | None
"""A column's value in the database's text format, None for NULL, or `UNCHANGED`."""
Cells: TypeAlias = list[Cell]
