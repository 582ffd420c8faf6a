"""Plans for PostgreSQL's tables: `cdc.plan` with PostgreSQL's types and rows."""

from tidings_capture.cdc import plan
from tidings_capture.cdc.naming import KeyField
from tidings_capture.cdc.options import ConversionOptions
from tidings_capture.cdc.plan import Plan
from tidings_capture.cdc.tables import Table
from tidings_capture.postgres.rows import ROWS, TYPES
from tidings_connect.converters.encoding import Converter

__all__ = ["Plan", "compile_plan"]


def compile_plan(
    table: Table,
    options: ConversionOptions,
    key_converter: Converter,
    value_converter: Converter,
    topic: str,
    *,
    key_field: KeyField | None = None,
    checked_only: bool = False,
) -> Plan:
    """See `cdc.plan.compile_plan`."""
    return plan.compile_plan(
        table,
        options,
        key_converter,
        value_converter,
        topic,
        TYPES,
        ROWS,
        key_field=key_field,
        checked_only=checked_only,
    )
