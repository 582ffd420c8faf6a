"""Gives columns of a topic's tables their new names; each step idempotent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as st

from tidings_lakehouse.decoding.changes import LSN
from tidings_lakehouse.decoding.infinite import mark_of
from tidings_lakehouse.decoding.never_null import PROPERTY, of_text
from tidings_lakehouse.metrics import POSSIBLE_RENAMES, RENAMED
from tidings_lakehouse.tables.naming import Rename
from tidings_lakehouse.tables.tables import Table, quoted, safe_name
from tidings_lakehouse.writing.targets import Target
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = get_logger("tidings_lakehouse.writing.renames")
_RENAMED = "tidings.renamed"
"""Property of a log: LSN of the last rename that both tables have."""


def rename_columns(session: SparkSession, target: Target, renames: Sequence[Rename]) -> None:
    """Have both tables of a topic call their columns as the database does now."""
    log, current = target.log, target.current
    if not renames or not log.exists:
        return
    known = int(log.property(_RENAMED) or 0)
    for one in renames:
        if one.lsn <= known:
            continue
        for part in ("key", "before", "after"):
            _rename_field(log, part, one)
        if noted := log.property(PROPERTY):
            log.set_property(PROPERTY, of_text(noted).renamed(one.former, one.name).text)
        if current.exists:
            _rename_columns(session, current, one)
        note_renames(log, [one])
        target.decoder = None
        RENAMED.labels(current.name).inc()
        _LOG.info("a column has been renamed", table=current.name, former=one.former, name=one.name)


def note_renames(log: Table, renames: Sequence[Rename]) -> None:
    """Note in a log that both tables have these renames; a table that is made has them from the beginning."""
    if renames:
        log.set_property(_RENAMED, str(renames[-1].lsn))


def _rename_field(log: Table, part: str, rename: Rename) -> None:
    type_ = (
        next((field.dataType for field in log.schema.fields if field.name == part), None)
        if log.schema
        else None
    )
    names = type_.names if isinstance(type_, st.StructType) else []
    for former, name in _with_mark(rename.former, rename.name):
        if former in names and name not in names:
            log.rename((part, former), name)


def _with_mark(former: str, name: str) -> list[tuple[str, str]]:
    """The names of a column, and of the one that says whether it is infinite."""
    return [(former, name), (mark_of(former), mark_of(name))]


def _rename_columns(session: SparkSession, current: Table, rename: Rename) -> None:
    for former, name in _with_mark(rename.former, rename.name):
        _rename_column(session, current, safe_name(former), safe_name(name), rename)


def _rename_column(session: SparkSession, current: Table, former: str, name: str, rename: Rename) -> None:
    names = [] if current.schema is None else current.schema.names
    if former not in names:
        return
    if name not in names:
        current.rename((former,), name)
        return
    # Rows from behind the statement were read before it was: the values move, and the former column stays empty.
    POSSIBLE_RENAMES.labels(current.name).inc()
    _LOG.warning(
        "a column has its new name since before its rename was read: values of older rows move to it, and rows of the log"
        " keep them under the former name",
        table=current.name,
        former=former,
        name=name,
    )

    current.relax((former, name))

    def move(branch: str) -> None:
        session.sql(
            f"UPDATE {branch} SET {quoted(name)} = {quoted(former)}, {quoted(former)} = NULL"  # noqa: S608 - quoted
            f" WHERE {LSN} < {rename.lsn} AND {quoted(name)} IS NULL AND {quoted(former)} IS NOT NULL"
        )

    current.write(move)
