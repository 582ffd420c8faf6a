"""Options about what is captured: databases, tables, columns, operations."""

from typing import Final

from tidings_capture.cdc.filters import compile_keys, compile_list
from tidings_capture.cdc.option_table import SKIP_UNCHANGED
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import refused_by

list_problem: Final = refused_by(compile_list, "is ")
"""What is wrong with a list of regular expressions."""
_key_problem = refused_by(compile_keys, "is ")


def _skipped_problem(value: str) -> str | None:
    parts = {part.strip().lower() for part in value.split(",") if part.strip()}
    if not parts <= {"c", "u", "d", "t", "none"}:
        return "takes c, u, d, t and none here"
    return "must not hold none beside others" if "none" in parts and len(parts) > 1 else None


CAPTURED: Final = (
    Option("database.include.list", "list", check=list_problem, documentation="Databases that are captured."),
    Option(
        "database.exclude.list",
        "list",
        check=list_problem,
        documentation="Databases that are not captured.",
    ),
    Option(
        "table.include.list",
        "list",
        check=list_problem,
        documentation="Tables that are captured, as database.table.",
    ),
    Option("table.exclude.list", "list", check=list_problem, documentation="Tables that are not captured."),
    Option(
        "column.include.list",
        "list",
        check=list_problem,
        documentation="Columns that values have, as database.table.column.",
    ),
    Option(
        "column.exclude.list",
        "list",
        check=list_problem,
        documentation="Columns that values do not have.",
    ),
    Option(
        "message.key.columns",
        check=_key_problem,
        documentation="The columns of keys in place of the primary key's, as database.table:column,column;...",
    ),
    Option(
        "skipped.operations",
        "list",
        "t",
        check=_skipped_problem,
        documentation="Operations that are left out: c, u, d, t (TRUNCATE); or none.",
    ),
    SKIP_UNCHANGED,
)
