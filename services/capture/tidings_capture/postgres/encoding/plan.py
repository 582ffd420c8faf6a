"""Plans for PostgreSQL's tables: `cdc.encoding.plan` with PostgreSQL's types, rows and source block."""

from functools import partial
from typing import Final

from tidings_capture.cdc.encoding import plan
from tidings_capture.cdc.encoding.plan import Plan
from tidings_capture.postgres.encoding.rows import ROWS, TYPES
from tidings_capture.postgres.encoding.source_block import SOURCE

__all__ = ["Plan", "compile_plan"]

compile_plan: Final = partial(plan.compile_plan, types=TYPES, rows=ROWS, source=SOURCE)
"""See `cdc.encoding.plan.compile_plan`."""
