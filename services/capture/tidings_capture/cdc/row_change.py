"""A change of a row as a database tells it, before anything is made of it."""

from dataclasses import dataclass
from typing import Literal

from tidings_capture.cdc.cells import Cells


@dataclass(frozen=True, slots=True)
class RowChange:
    """One inserted, updated or deleted row."""

    op: Literal["c", "u", "d"]
    """Created, updated or deleted, as in Debezium's envelope."""
    new: Cells | None = None
    """The row after the change; None for a deleted one."""
    old: Cells | None = None
    """The row before the change, as far as the database tells it; None when it does not."""
    old_kind: str | None = None
    """How much of the old row is told: ``K`` the key alone, ``O`` the whole row; None: nothing."""
