"""Merges the changes of a log into its current state later than they are appended, and then all of them at once.

The current state's own commit notes up to where of the log it is (`MERGED_NOTE`), so that a crash at any point loses nothing: what
the log holds behind that is merged when the time has come, from the log, whatever was read when. A current state that has noted
nothing yet was merged with every batch; one whose note is not true any more is merged from the whole log, which changes nothing in
rows that are newer.

What the watermark may count is told by `waiting`: the watermark that there was before a table's first change that waits.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.batches import TopicSurvey
from tidings_lakehouse.decoding.changes import current_shape
from tidings_lakehouse.history.history_sql import SPARK, placeholder_test
from tidings_lakehouse.merge_rules import NEVER, MergeRule, merge_seconds
from tidings_lakehouse.metrics import UNMERGED
from tidings_lakehouse.spark.apart import apart
from tidings_lakehouse.spark.kafka import Offsets
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.tables.positions import PartitionId, Progress, spans_of
from tidings_lakehouse.tables.system_tables import QuarantineTable, Watermark
from tidings_lakehouse.watermark.source_watermark import Reached
from tidings_lakehouse.writing.targets import MERGED_NOTE, Decoded, Target, held_rows
from tidings_lakehouse.writing.technical_rows import statistics_of, watermark_of, without_values
from tidings_lakehouse.writing.technical_tables import TablesWriter
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = get_logger("tidings_lakehouse.merging")
_MOST: Final = 500_000
"""Offsets that may wait."""
_ONLY_LOG: Final = "tidings.merge"
"""Property of a log, ``never``: no current state has what it holds."""


class Later:
    """Decides for each table of a batch whether it is merged now, and merges what has waited; tables in parallel.

    Args:
        reached: asks for the watermark before the present batch.
        logs_whole_rows: asks whether the source is a MariaDB or a MySQL, of which every value is logged.
    """

    def __init__(
        self,
        tables: TablesWriter,
        local: LocalRows,
        rules: Sequence[MergeRule],
        reached: Callable[[], Reached],
        logs_whole_rows: Callable[[], bool],
    ) -> None:
        self._tables = tables
        self._local = local
        self._rules = rules
        self._reached = reached
        self._logs_whole_rows = logs_whole_rows
        self._lock = threading.Lock()
        self._waiting: dict[str, Reached] = {}
        self._targets: dict[str, Target] = {}
        self._newest: dict[str, list[Any]] = {}

    @property
    def is_used(self) -> bool:
        """Whether any table may be merged later."""
        return any(rule.seconds != 0 for rule in self._rules)

    @property
    def waiting(self) -> Reached | None:
        """Up to where all tables are complete; None: nothing waits."""
        with self._lock:
            return min(self._waiting.values(), key=Reached.order, default=None)

    def wants(self, table: str) -> bool:
        """Whether a current state of that name may be merged later than its log is written."""
        return merge_seconds(self._rules, table) not in {0.0, None}

    def found(self, target: Target) -> None:
        """A log was there before this process began, or what was known of it has been forgotten."""
        if (
            not target.current.exists
            and target.log.property(_ONLY_LOG) == NEVER
            and not self._is_log_only(target)
        ):
            target.merged = Progress()
        if target.waits and not self._is_log_only(target):
            self._wait(target)

    def write(self, session: SparkSession, one: Decoded, rows: list[Any]) -> list[str]:
        """Write a topic's part of a batch; gives the tables that were changed."""
        target, tables = one.target, self._tables
        placed = tables.place(one, rows)
        written = tables.append(one, rows)
        if self._is_log_only(target):
            if target.log.exists and target.log.property(_ONLY_LOG) != NEVER:
                target.log.set_property(_ONLY_LOG, NEVER)
            target.progress.advance(spans_of(rows))
            return written
        if target.merged is None and target.current.exists:
            # Merged with every batch up to now, and with this one.
            written += tables.merge(session, one, rows, placed)
            target.progress.advance(spans_of(rows))
            if merge_seconds(self._rules, target.current.name):
                self._begin(target)
            return written
        if (target.merged is None and not self.wants(target.current.name)) or not _has_state(target):
            written += tables.merge(session, one, rows, placed)
            target.progress.advance(spans_of(rows))
            return written
        if target.merged is None:
            target.merged = Progress()
        target.progress.advance(spans_of(rows))
        if not target.waits:  # read again, by a crash
            return written + tables.merge(session, one, rows, placed)
        if self._may_wait(one, rows):
            self._wait(target)
            return written
        return written + self.merge(session, target, frozenset(one.survey.value_ids))

    def due(self, *, is_last: bool) -> list[Target]:
        """Tables with changes that have waited long enough.

        Args:
            is_last: no batch comes any more.
        """
        with self._lock:
            found = [self._targets[topic] for topic in sorted(self._waiting)]
        return [target for target in found if is_last or self._is_due(target)]

    def settle(
        self,
        session: SparkSession,
        read: Offsets,
        attempt: Callable[[str, Callable[[], list[str]]], list[str] | None],
        quarantine: QuarantineTable,
        *,
        is_last: bool,
    ) -> tuple[list[str], list[Watermark]]:
        """Merge what has waited long enough, while no batch is under way; gives the tables that were changed, and how far they are.

        Args:
            read: up to where the topics have been read.
            attempt: does something for a topic, which is set aside if that fails by its own trouble; then it gives None.
        """
        changed: list[str] = []
        watermarks: list[Watermark] = []
        for target in self.due(is_last=is_last):
            topic, current = target.topic, target.current
            self._tables.begin()
            tables = attempt(topic, functools.partial(self.merge, session, target))
            if tables is None:
                continue
            if (lacking := self._tables.lacking.get(topic)) is not None:
                rows = quarantine.rows(without_values(lacking, current.name), topic, target.progress.topic_id)
                quarantine.append(rows, {})
            changed += tables
            watermarks.append(watermark_of(target, current, self._newest.get(topic, []), read))
        return changed, watermarks

    def forget(self, topic: str) -> None:
        """A topic is set aside: its watermark rests as long as that lasts."""
        with self._lock:
            self._waiting.pop(topic, None)

    def merge(self, session: SparkSession, target: Target, ids: frozenset[int] = frozenset()) -> list[str]:
        """Merge what waits; gives the tables that were changed.

        Args:
            ids: of the schemas of records whose own id the log does not tell.
        """
        merged = target.merged
        assert merged is not None
        with self._unmerged(session, target, ids) as (one, rows):
            if rows:
                changed = self._tables.merge(
                    session,
                    one,
                    rows,
                    self._tables.place(one, rows),
                    {MERGED_NOTE: merged.note(spans_of(rows))},
                )
                target.filled = one.target.filled
                merged.advance(spans_of(rows))
                with self._lock:
                    self._newest[target.topic] = rows
            else:
                changed = []
        target.merged_at = time.monotonic()
        target.is_noted = MERGED_NOTE in target.current.noted()
        if target.log.property(_ONLY_LOG):
            target.log.set_property(_ONLY_LOG, "")
        with self._lock:
            self._waiting.pop(target.topic, None)
        UNMERGED.labels(target.current.name).set(0)
        return changed

    @contextmanager
    def _unmerged(
        self, session: SparkSession, target: Target, ids: frozenset[int]
    ) -> Iterator[tuple[Decoded, list[Any]]]:
        """The changes that wait, as a batch of their own, and their statistics."""
        merged = target.merged
        assert merged is not None
        waiting = held_rows(session, target.log).where(_between(merged.offsets, target.progress.offsets))
        held = _as_decoded(waiting, is_whole=self._logs_whole_rows())
        most = _count(merged.offsets, target.progress.offsets)
        changes = (
            self._local.collected(held)
            if self._local.takes(most, 0, 0)
            else apart(session, held).persist(StorageLevel.MEMORY_AND_DISK)
        )
        try:
            known = {row[0] for row in changes.select("schema_id").distinct().collect() if row[0] is not None}
            survey = TopicSurvey(most, value_ids=known | ids)
            one = Decoded(dataclasses.replace(target, progress=merged), survey, changes, changes)
            rows = statistics_of([one]).get(target.topic, [])
            survey.offsets = {row["partition"]: (row["first_offset"], row["last_offset"]) for row in rows}
            survey.records = sum(row["records"] for row in rows)
            yield one, rows
        finally:
            changes.unpersist()

    def _begin(self, target: Target) -> None:
        note = copy.deepcopy(target.progress)
        target.current.note({MERGED_NOTE: note.note({})})
        target.is_noted = MERGED_NOTE in target.current.noted()
        if target.is_noted:
            target.merged, target.merged_at = note, time.monotonic()

    def _is_log_only(self, target: Target) -> bool:
        """Whether a table is to have a log only; one that has a current state goes on with it."""
        return merge_seconds(self._rules, target.current.name) is None and not target.current.exists

    def _is_due(self, target: Target) -> bool:
        seconds = merge_seconds(self._rules, target.current.name) or 0.0
        return time.monotonic() - target.merged_at >= seconds

    def _may_wait(self, one: Decoded, rows: list[Any]) -> bool:
        target = one.target
        if not target.is_noted or not target.current.exists or self._is_due(target):
            return False
        if any(row["truncates"] or row["unavailable"] for row in rows) or not self._tables.is_filled(one):
            return False
        assert target.merged is not None
        return _count(target.merged.offsets, target.progress.offsets) < _MOST

    def _wait(self, target: Target) -> None:
        assert target.merged is not None
        UNMERGED.labels(target.current.name).set(_count(target.merged.offsets, target.progress.offsets))
        with self._lock:
            self._targets[target.topic] = target
            self._waiting.setdefault(target.topic, self._reached())


def _has_state(target: Target) -> bool:
    """Whether a topic has a current state: one without keys has a log only."""
    return target.log.schema is not None and current_shape(target.log.schema) is not None


def _count(merged: Mapping[PartitionId, int], held: Mapping[PartitionId, int]) -> int:
    """Offsets between two places, which are no fewer than the records."""
    return sum(max(0, last - merged.get(place, -1)) for place, last in held.items())


def _between(merged: Mapping[PartitionId, int], held: Mapping[PartitionId, int]) -> Column:
    found = [
        (sf.col("topic_id") == place.topic_id)
        & (sf.col("partition") == place.partition)
        & (sf.col("offset") > merged.get(place, -1))
        & (sf.col("offset") <= last)
        for place, last in sorted(held.items())
        if last > merged.get(place, -1)
    ]
    return functools.reduce(Column.__or__, found) if found else sf.lit(False)


_KINDS = {
    "string": "string",
    "binary": "binary",
    "array<string>": "strings",
    "array<binary>": "binaries",
    "array<int>": "numbers",
    "array<bigint>": "numbers",
    "map<string,string>": "map",
}
"""By Spark's name of a type, what `placeholder_test` calls it."""


def _as_decoded(held: DataFrame, *, is_whole: bool) -> DataFrame:
    """Rows of a log with what a decoder says of them beside: which values were not logged is told by the values."""
    row = next((field.dataType for field in held.schema.fields if field.name == "after"), None)
    tests = []
    for field in row.fields if isinstance(row, st.StructType) and not is_whole else ():
        kind = _KINDS.get(field.dataType.simpleString())
        if kind is not None:
            value = f"after.{SPARK.name(field.name)}"
            tests.append(sf.when(sf.expr(placeholder_test(SPARK, value, kind)), sf.lit(field.name)))
    names = sf.array_compact(sf.array(*tests)) if tests else sf.array().cast("array<string>")
    return held.select(
        "*",
        sf.lit(None).cast("string").alias("reason"),
        names.alias("unavailable"),
        sf.lit(None).cast("bigint").alias("domain"),
    )
