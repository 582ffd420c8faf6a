"""Plans for PostgreSQL's tables: `cdc.plan` with PostgreSQL's types, rows and source block."""

from functools import partial
from typing import Final

from tidings_capture.cdc import plan
from tidings_capture.cdc.plan import Plan
from tidings_capture.postgres.encoding.rows import ROWS, TYPES
from tidings_capture.postgres.encoding.source_block import SOURCE

__all__ = ["Plan", "compile_plan"]

compile_plan: Final = partial(plan.compile_plan, types=TYPES, rows=ROWS, source=SOURCE)
"""See `cdc.plan.compile_plan`."""
