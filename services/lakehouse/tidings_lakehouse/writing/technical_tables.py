"""Writes one topic's part of a batch to its log and its current state; each step idempotent, see `technical`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tidings_lakehouse.decoding.changes import (
    OP,
    POSITION_FIELDS,
    CurrentShape,
    current_shape,
    incomplete,
    is_incremental,
    newest_changes,
    newest_truncate,
    since,
    truncate_statement,
    with_position,
    without_deleted,
)
from tidings_lakehouse.decoding.fills import fill_statement, literal
from tidings_lakehouse.decoding.infinite import is_mark
from tidings_lakehouse.decoding.new_columns import NewColumns
from tidings_lakehouse.failpoints import Failpoint
from tidings_lakehouse.metrics import POSSIBLE_RENAMES, ROWS
from tidings_lakehouse.phases import Phases
from tidings_lakehouse.spark.small import LocalRows, is_local
from tidings_lakehouse.tables.branch import Note
from tidings_lakehouse.tables.erased import has_read_again, without_erased
from tidings_lakehouse.tables.positions import PartitionId, Position, Span, beyond, spans_of
from tidings_lakehouse.tables.tables import ddl, quoted, safe_name
from tidings_lakehouse.writing.few_changes import FewChanges
from tidings_lakehouse.writing.replacing import replace_rows
from tidings_lakehouse.writing.targets import LOG_NOTE, Decoded, Target, held_rows
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = get_logger("tidings_lakehouse.writing.technical")
_FILLED = "tidings.filled"
"""Property of a table: columns whose defaults all rows have, see `fills`."""


@dataclass(frozen=True)
class Placed:
    """A topic's changes of a batch with their positions."""

    changes: DataFrame
    truncated: Position | None
    """Of the newest TRUNCATE among them."""
    snapshots: Mapping[PartitionId, int] | None = None
    """By which they have them, where each change tells its position by itself; see `with_position`."""


class TablesWriter:
    """Writes the tables of any topic."""

    def __init__(self, session: SparkSession, failpoint: Failpoint, local: LocalRows, phases: Phases) -> None:
        self._session = session
        self._phases = phases
        self._local = local
        self._few = FewChanges(session, local)
        self._failpoint = failpoint
        self.lacking: dict[str, DataFrame] = {}
        """By topic, changes of the present batch that lack values: see `incomplete`."""

    def begin(self) -> None:
        """A batch begins."""
        for lacking in self.lacking.values():
            lacking.unpersist()
        self.lacking = {}

    def place(self, one: Decoded, rows: list[Any]) -> Placed:
        """Give the changes their positions; a TRUNCATE among them is noted, so that the log notes it with its rows."""
        target, spans = one.target, spans_of(rows)
        if not sum(row["records"] - row["failed"] for row in rows):
            return Placed(one.changes, None)
        snapshots = self._snapshots_before(target, spans)
        windowed = any(span.first_lsns and span.snapshot_lsns for span in spans.values())
        changes = with_position(one.changes, snapshots, windowed=windowed)
        truncated = None
        if any(row["truncates"] for row in rows):
            truncated = newest_truncate(changes.where("reason IS NULL"))
            target.progress.note_truncate(truncated)
        return Placed(changes, truncated, None if windowed else snapshots)

    def append(self, one: Decoded, rows: list[Any]) -> list[str]:
        """Append to the log what it does not hold; gives the tables that were changed."""
        with self._phases.of_table(one.target.log.name):
            return self._append(one, rows)

    def _append(self, one: Decoded, rows: list[Any]) -> list[str]:
        log, progress = one.target.log, one.target.progress
        count = sum(row["records"] - row["failed"] for row in rows)
        if not count or log.schema is None:
            return []
        new = one.changes.where("reason IS NULL")
        spans = spans_of(rows)
        topic_id = next(iter(spans)).topic_id
        if any(span.first_offset <= progress.offsets.get(key, -1) for key, span in spans.items()):
            condition = beyond(progress.offsets, topic_id)
            new = new if condition is None else new.where(condition)
            if all(span.last_offset <= progress.offsets.get(key, -1) for key, span in spans.items()):
                return []
        rows_of_log = new.select(*log.schema.names)
        log.append(
            rows_of_log, {LOG_NOTE: progress.note(spans)}, lambda: self._failpoint(f"staged:{log.name}")
        )
        ROWS.labels(log.name).inc(count)
        self._failpoint(f"log:{log.name}")
        return [log.name]

    def merge(
        self, session: SparkSession, one: Decoded, rows: list[Any], placed: Placed, note: Note | None = None
    ) -> list[str]:
        """Bring the current state up to a batch; gives the tables that were changed.

        Args:
            note: what the current state is to note in the same commit.
        """
        with self._phases.of_table(one.target.current.name):
            return self._merge(session, one, rows, placed, note)

    def _merge(
        self, session: SparkSession, one: Decoded, rows: list[Any], placed: Placed, note: Note | None
    ) -> list[str]:
        target = one.target
        shape = None if target.log.schema is None else current_shape(target.log.schema)
        if shape is None or not sum(row["records"] - row["failed"] for row in rows):
            return []
        is_new = not target.current.exists
        _tell_rename(one, shape)
        keys = tuple(shape.keys)
        target.current.ensure(
            shape.schema, keys=keys, never_null=target.never_null.columns(shape), identified_by=keys
        )
        target.current.comment({name and safe_name(name): text for name, text in target.comments.items()})
        spans = spans_of(rows)
        missing = _columns(shape, sorted({name for row in rows for name in row["unavailable"]}))
        if self._write_few(one, shape, placed, spans, missing, note):
            self._merged(one, rows)
            return [target.current.name]
        is_here = is_local(one.changes)
        # Few rows are not worth a shuffle.
        changes = placed.changes.coalesce(1) if is_here else placed.changes
        if target.is_erased and has_read_again(spans, target.progress.offsets):
            log = held_rows(self._session, target.log)
            changes = without_erased(changes, log, spans, target.progress.offsets)
        newest = newest_changes(changes, shape, missing)
        if target.progress.is_late(spans):
            deletes = with_position(
                held_rows(self._session, target.log), {}, windowed=target.progress.has_first
            )
            newest = without_deleted(newest, deletes, shape)
        if target.progress.truncated is not None and target.progress.is_older_than_truncate(spans):
            newest = since(newest, target.progress.truncated)
        fills = self._fills(one, shape, is_new=is_new)
        newest = self._local.collected(newest) if is_here else newest.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self._write_newest(session, one, newest, shape, missing, placed, fills, spans, note)
            self._merged(one, rows)
            if missing:
                lacking = incomplete(newest, session.table(target.current.name), shape, missing).persist()
                if not lacking.isEmpty():
                    self.lacking[target.topic] = lacking
        finally:
            newest.unpersist()
        return [target.current.name]

    def _merged(self, one: Decoded, rows: list[Any]) -> None:
        self._note_fills(one.target)
        ROWS.labels(one.target.current.name).inc(sum(row["records"] - row["failed"] for row in rows))
        self._failpoint(f"current:{one.target.current.name}")

    def _write_few(
        self,
        one: Decoded,
        shape: CurrentShape,
        placed: Placed,
        spans: Mapping[PartitionId, Span],
        missing: list[str],
        note: Note | None,
    ) -> bool:
        """Write few changes without Spark, where nothing but the rows with their keys has to be looked at; gives whether it was done."""
        target, progress, current = one.target, one.target.progress, one.target.current
        if (
            placed.snapshots is None
            or placed.truncated is not None
            or missing
            or not is_local(one.changes)
            or not self._few.takes(shape, one.survey.records)
            or progress.is_late(spans)
            or progress.is_older_than_truncate(spans)
            or (target.is_erased and has_read_again(spans, progress.offsets))
            or not self.is_filled(one)
        ):
            return False
        return self._few.write(
            current,
            one.changes,
            shape,
            placed.snapshots,
            note,
            lambda: self._failpoint(f"staged:{current.name}"),
        )

    def _write_newest(
        self,
        session: SparkSession,
        one: Decoded,
        newest: DataFrame,
        shape: CurrentShape,
        missing: list[str],
        placed: Placed,
        fills: dict[str, str],
        spans: Mapping[PartitionId, Span],
        note: Note | None,
    ) -> None:
        target, current, most = one.target, one.target.current, one.survey.records
        rows_held, is_newer = current.rows_held, target.progress.is_newer(spans)
        is_here = is_local(newest)
        if is_here and not (rows_held or missing or fills or placed.truncated):
            rows = newest.where(f"{OP} <> 'd'").select(*map(quoted, shape.schema.names))
            current.append(current.ordered(rows), note, lambda: self._failpoint(f"staged:{current.name}"))
            return

        def write(name: str) -> None:
            if placed.truncated is not None:
                session.sql(truncate_statement(name, placed.truncated))
            replace_rows(
                session,
                name,
                newest,
                shape,
                rows_held=rows_held,
                is_newer=is_newer,
                most=most,
                missing=missing,
                local=(self._local, current) if is_here else None,
                buckets=current.buckets(tuple(shape.keys)),
            )
            if fills:
                session.sql(fill_statement(name, fills))
            self._failpoint(f"staged:{current.name}")

        current.write(write, note)

    def is_filled(self, one: Decoded) -> bool:
        """Whether all rows have the defaults that columns have, those of a batch included."""
        new = _new_columns(one.target)
        filled = self._filled(one.target) if new.fields else set()
        return all(
            column in filled and not new.are_lacking(column, one.survey.value_ids) for column in new.fields
        )

    @staticmethod
    def _filled(target: Target) -> set[str]:
        if target.filled is None:
            target.filled = set(filter(None, target.current.property(_FILLED).split(",")))
        return target.filled

    def _fills(self, one: Decoded, shape: CurrentShape, *, is_new: bool) -> dict[str, str]:
        """By column, the default that rows from before the column have, where some may lack it."""
        new = _new_columns(one.target)
        if not new.fields:
            return {}
        filled, found = self._filled(one.target), {}
        types = {field.name: field.dataType for field in shape.schema.fields}
        for column in new.fields:
            lacking = new.are_lacking(column, one.survey.value_ids)
            if column not in types or (not lacking and (is_new or column in filled)):
                continue
            value = new.default(column, types[column])
            if value is None:
                _LOG.warning(
                    "rows from before a column was added may lack its default, which cannot be read",
                    table=one.target.current.name,
                    column=column,
                )
                continue
            text = self._session.range(1, numPartitions=1).select(value.cast("string")).collect()[0][0]
            found[column] = literal(text, ddl(types[column]))
        return found

    def _note_fills(self, target: Target) -> None:
        if target.filled is None:
            return
        filled = _new_columns(target).fields.keys()
        if not filled <= target.filled:
            target.filled |= filled
            target.current.set_property(_FILLED, ",".join(sorted(filter(_is_plain, target.filled))))

    def _snapshots_before(self, target: Target, spans: Mapping[PartitionId, Span]) -> dict[PartitionId, int]:
        """LSN of the newest snapshot in each partition before a batch, which may be read again."""
        progress = target.progress
        found = dict(progress.snapshots)
        for partition, span in spans.items():
            again = span.first_offset <= progress.offsets.get(partition, -1)
            if span.first_lsns and again and partition in found:
                before = held_rows(self._session, target.log).where(
                    (sf.col("topic_id") == partition.topic_id)
                    & (sf.col("partition") == partition.partition)
                    & (sf.col("offset") < span.first_offset)
                    & sf.col("snapshot")
                    & ~is_incremental()
                    & sf.col("last_commit_lsn").isNull()
                )
                found[partition] = before.agg(sf.coalesce(sf.max("lsn"), sf.lit(0))).collect()[0][0]
        return found


def _new_columns(target: Target) -> NewColumns:
    """None of a topic of which no record has come."""
    return NewColumns() if target.decoder is None else target.decoder.new_columns


def _tell_rename(one: Decoded, shape: CurrentShape) -> None:
    """Say so when a column comes as another goes: a RENAME COLUMN looks like that, and is not in the log."""
    held, decoder = one.target.current.schema, one.target.decoder
    if held is None or decoder is None or not decoder.made_for[1].rows:
        return
    newest = {safe_name(name) for name in decoder.made_for[1].newest_row}
    positions = {field.name for field in POSITION_FIELDS}
    came = sorted(newest & set(shape.columns) - set(held.names))
    gone = sorted(name for name in set(held.names) - newest - positions if not is_mark(name, held.names))
    if came and gone:
        POSSIBLE_RENAMES.labels(one.target.current.name).inc()
        _LOG.warning(
            "a column came as another one went: if it was renamed, older rows have their values under the former name",
            table=one.target.current.name,
            came=came,
            gone=gone,
        )


def _is_plain(name: str) -> bool:
    """Whether a property can hold the name in a list; the column of another is filled again at each start."""
    return not set(name) & {",", "'", "\\"}


def _columns(shape: CurrentShape, fields: list[str]) -> list[str]:
    return [column for column, name in shape.columns.items() if name in fields and column not in shape.keys]
