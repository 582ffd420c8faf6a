"""Lets old rows of logs, of tables of business events and of the quarantine go, whole days at a time.

These tables are partitioned by the day of their records' timestamps, so that files go and none is written anew. A current state keeps
every row: it is the newest there is of it. What has gone does not come back when its records are read again, see `erased`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from tidings_lakehouse.retention_rules import RETAINED_PROPERTY, RetentionRule, retention_days
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.erased import ERASED_PROPERTY, offsets_of_text, offsets_text, written_offsets
from tidings_lakehouse.tables.names import known_names
from tidings_lakehouse.tables.table_counts import table_names
from tidings_lakehouse.topics import BUSINESS, QUARANTINE, TECHNICAL, TRANSACTION_LOG, WATERMARK, log_of
from tidings_lakehouse.watermark.source_watermark import is_ahead
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = get_logger("tidings_lakehouse.maintaining.retention")


class Retention:
    """Finds the tables that have rules, and deletes what is too old.

    Args:
        commits: the job's own.
        now: the time, in UTC.
    """

    def __init__(
        self,
        session: SparkSession,
        commits: Commits,
        rules: Sequence[RetentionRule],
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._session = session
        self._commits = commits
        self._rules = rules
        self._now = now
        self._done: dict[str, dt.datetime] = {}

    def due(self) -> list[str]:
        """Tables with a rule that nothing was deleted from since their oldest day has changed."""
        if not self._rules:
            return []
        states = {name for (kind, _), name in known_names(self._session).items() if kind == TECHNICAL}
        logs = {log_of(name) for name in states} - states
        found = []
        for table in table_names(self._session):
            has_days = table in logs or table.startswith(f"{BUSINESS}.") or table == QUARANTINE
            first = self._first_day(table) if has_days else None
            if first is not None and self._done.get(table) != first:
                found.append(table)
        return found

    def trim(self, table: str) -> bool:
        """Delete the rows of a table that are too old; gives whether there were some.

        Rows that the watermark has not passed stay: they are counted before it does.
        """
        first = self._first_day(table)
        if first is None:
            return False
        self._commits.check(table)
        column = "__timestamp" if table.startswith(f"{BUSINESS}.") else "timestamp"
        older = sf.col(column) < sf.lit(first)
        old = self._session.table(table).where(older)
        if old.isEmpty():
            self._done[table] = first
            return False
        if table.startswith(f"{TECHNICAL}.") and not self._are_passed(old, table):
            _LOG.warning(
                "rows are kept longer than TIDINGS_LAKEHOUSE_RETENTION says: the watermark has not passed them",
                table=table,
                older_than=first.isoformat(),
            )
            return False
        self._note(table, first)
        statement = f"{column} < TIMESTAMP '{first:%Y-%m-%d %H:%M:%S}'"

        def delete(staged: str) -> None:
            self._session.sql(f"DELETE FROM {staged} WHERE {statement}")  # noqa: S608 - names and a time of our own

        self._commits.write(table, delete)
        self._done[table] = first
        _LOG.info("old rows deleted", table=table, older_than=first.isoformat())
        return True

    def _first_day(self, table: str) -> dt.datetime | None:
        """The beginning of the oldest day that a table keeps: a row is kept for so many days, or up to one more."""
        days = retention_days(self._rules, table)
        if days is None:
            return None
        today = self._now().replace(hour=0, minute=0, second=0, microsecond=0)
        return today - dt.timedelta(days=days)

    def _are_passed(self, old: DataFrame, log: str) -> bool:
        """Whether the watermark of a log's source has passed some of its rows; nobody counts those of a source without one."""
        watermarks = self._session.table(WATERMARK).where(sf.col("table_name") == log).collect()
        topics = {row["topic"] for row in watermarks}
        sources = {
            row["topic"]: row["newest_commit_lsn"]
            for row in self._session.table(WATERMARK).where(sf.col("table_name") == TRANSACTION_LOG).collect()
        }
        for topic, passed in sources.items():
            if not any(one.startswith(topic.removesuffix("transaction")) for one in topics):
                continue
            if passed is None:
                return False
            if not old.where(sf.col("total_order").isNotNull() & is_ahead(passed)).isEmpty():
                return False
        return True

    def _note(self, table: str, first: dt.datetime) -> None:
        """What readers and the next job have to know, before a row goes."""
        values = {RETAINED_PROPERTY: first.isoformat()}
        if table.startswith(f"{TECHNICAL}."):
            values[ERASED_PROPERTY] = self._now().isoformat(timespec="seconds")
        elif table.startswith(f"{BUSINESS}."):
            noted = offsets_of_text(self._commits.property(table, ERASED_PROPERTY))
            for place, last in written_offsets(self._session, table).items():
                noted[place] = max(noted.get(place, last), last)
            values[ERASED_PROPERTY] = offsets_text(noted)
        self._commits.set_properties(table, values)
