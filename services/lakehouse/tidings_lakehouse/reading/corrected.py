"""SQL for business events as they were corrected. No I/O.

``business.<event>_corrected`` has the rows and the columns of ``business.<event>``, and

    __corrects      the `ce_id` of the event in whose place this one was told, else null
    __correction    the generation of the rules that has told it (`tidings generations correct`), null of what was told at once

without the events in whose place another one was told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidings_lakehouse.history.history_sql import Dialect
from tidings_lakehouse.topics import BUSINESS

CORRECTED = "_corrected"


def corrected_queries(wanted: Iterable[str], tables: Collection[str], dialect: Dialect) -> dict[str, str]:
    """By view the SELECT of those among `wanted`; a name that is a table's stays what it is."""
    return {
        name: _query(name.removesuffix(CORRECTED), dialect) for name in wanted if is_corrected(name, tables)
    }


def is_corrected(name: str, tables: Collection[str]) -> bool:
    """Whether a name is such a view's."""
    base = name.removesuffix(CORRECTED)
    return base != name and name.startswith(f"{BUSINESS}.") and base in tables and name not in tables


def _query(table: str, d: Dialect) -> str:
    corrects = d.item.format(value="{0}.ce_extensions", key="corrects")
    correction = d.item.format(value="e.ce_extensions", key="correction")
    return (
        f"SELECT e.*, {corrects.format('e')} AS __corrects, {correction} AS __correction FROM {table} e"  # noqa: S608
        f" WHERE NOT EXISTS (SELECT 1 FROM {table} c WHERE {corrects.format('c')} = e.ce_id)"
    )
