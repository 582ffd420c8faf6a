"""All tables of a source as of one commit: which position a moment is, and the query of each table.

Read by DuckDB, without a JVM. What is asked for must be known: a position above the watermark is refused, since some of its
transactions' rows may not be there, and so is one from before the first snapshot.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidings_envelope.errors import DecodeError
from tidings_envelope.position import lsn_from_text, lsn_to_text
from tidings_lakehouse.errors import MomentError
from tidings_lakehouse.history.history_sql import (
    DUCKDB,
    Dialect,
    LogShape,
    as_of_query,
    commits_query,
    history_query,
)
from tidings_lakehouse.reading.civil import moment_text
from tidings_lakehouse.reading.duck import DuckLake
from tidings_lakehouse.retention_rules import RETAINED_PROPERTY
from tidings_lakehouse.topics import (
    CATALOG,
    HISTORY,
    SYSTEM,
    TECHNICAL,
    TRANSACTION_LOG,
    WATERMARK,
    log_of,
    transaction_topic,
)

_KINDS = (
    (re.compile(r"VARCHAR"), "string"),
    (re.compile(r"BLOB"), "binary"),
    (re.compile(r"VARCHAR\[\]"), "strings"),
    (re.compile(r"BLOB\[\]"), "binaries"),
    (re.compile(r"(INTEGER|BIGINT)\[\]"), "numbers"),
    (re.compile(r"MAP\(VARCHAR, VARCHAR\)"), "map"),
)


@dataclass(frozen=True)
class Moment:
    """A commit position of a source, and its tables then."""

    position: int
    watermark: int
    tables: tuple[str, ...]
    """``technical.orders``."""

    @property
    def namespace(self) -> str:
        """Where views of this moment belong."""
        return f"as_of_{lsn_to_text(self.position).replace('/', '_').lower()}"


class SourceTables:
    """The tables of one source that have a key.

    Args:
        source: the topic prefix.

    Raises:
        MomentError: the lakehouse has no watermark of the source.
    """

    def __init__(self, lake: DuckLake, source: str) -> None:
        self._lake = lake
        self._source = source
        if WATERMARK not in lake.tables:
            raise MomentError("the lakehouse has no watermark yet", hint="start tidings lakehouse run")
        rows = lake.execute(
            f"SELECT table_name, commit_lsn, topic FROM {lake.view(WATERMARK)}"  # noqa: S608 - names of our own
            " WHERE stream = ? AND starts_with(topic, ?)",
            [TECHNICAL, f"{source}."],
        )
        logs = {name for name, _, _ in rows}
        self.tables = tuple(sorted(name for name in logs if log_of(name) in logs and name in lake.tables))
        if not self.tables:
            raise MomentError(
                f"the lakehouse has no tables of the source {source}",
                hint="set TIDINGS_SOURCE to the connector's topic.prefix",
            )
        self.topics = {name: topic for name, _, topic in rows if name in self.tables}
        """Of the tables."""
        positions = [
            position for name, position, _ in rows if name in {*self.tables, *map(log_of, self.tables)}
        ]
        known = [position for position in positions if position is not None]
        self.watermark: int | None = min(known) if len(known) == len(positions) else None
        self._shapes: dict[tuple[str, str], LogShape] = {}

    def shape(self, table: str, *, named: str = "") -> LogShape:
        """The log of a table.

        Args:
            named: what the statement has before each name, for another engine.
        """
        if (table, named) not in self._shapes:
            log = log_of(table)
            own = self._lake.columns(log)
            parts = {}
            for part in ("key", "after"):
                described = self._lake.execute(f'DESCRIBE SELECT unnest("{part}") FROM {log}')  # noqa: S608
                parts[part] = {row[0]: row[1] for row in described}
            markers = TRANSACTION_LOG in self._lake.tables
            if markers:
                self._lake.view(TRANSACTION_LOG)
            self._shapes[table, named] = LogShape(
                f"{named}{log}",
                tuple(parts["key"]),
                {name: _kind(type_) for name, type_ in parts["after"].items()},
                f"{named}{TRANSACTION_LOG}" if markers else None,
                transaction_topic(self._source),
                has_incremental="incremental" in own,
            )
        return self._shapes[table, named]

    def keys(self, table: str) -> list[str]:
        """Columns of a table's key."""
        return [column for column, (part, _) in self.shape(table).columns.items() if part == "key"]

    def histories(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """DuckDB's queries of the history views, by their names.

        Args:
            names: which of them; all when None.
        """
        wanted = None if names is None else set(names)
        return {
            table + HISTORY: self.history_statement(table, DUCKDB)
            for table in self.tables
            if table + HISTORY not in self._lake.tables and (wanted is None or table + HISTORY in wanted)
        }

    def as_of(self, moment: Moment, names: Iterable[str]) -> dict[str, str]:
        """DuckDB's queries of tables at a moment, by the tables' names.

        Raises:
            MomentError: a name has no state at a moment: only tables with a key and their histories do.
        """
        found = {}
        for name in names:
            if name in self.tables:
                found[name] = self.statement(name, moment, DUCKDB)
            elif name.partition(".")[0] != SYSTEM and name in self._lake.tables:
                raise MomentError(
                    f"{name} is not a table of {self._source} with a key, so it has no state as of a position",
                    hint="ask for it without --as-of",
                )
        return found

    def statement(self, table: str, moment: Moment, dialect: Dialect) -> str:
        """The query of a table at a moment for another session, with the catalog's name where Spark needs it."""
        self._check_whole(table)
        return as_of_query(self._shape_for(table, dialect), dialect, moment.position)

    def history_statement(self, table: str, dialect: Dialect) -> str:
        """The query of a table's history for another session."""
        return history_query(self._shape_for(table, dialect), dialect)

    def _shape_for(self, table: str, dialect: Dialect) -> LogShape:
        if dialect is DUCKDB:
            self._lake.check_names(log_of(table))
            return self.shape(table)
        return self.shape(table, named=f"{CATALOG}.")

    def moment(self, text: str) -> Moment:
        """What a person means by a position (``0/16B3748``, or a number) or a time (ISO 8601; UTC without a zone).

        Raises:
            MomentError: it is neither, or nothing, or not everything, is known of it.
        """
        watermark = self.watermark
        if watermark is None:
            raise MomentError(
                f"the watermark of {self._source} is not known yet, so no position is complete in all tables",
                hint="it comes with the first END marker or heartbeat behind the snapshot; see docs/lakehouse.md",
            )
        position = position_of(text)
        position = self._position_at(text, watermark) if position is None else position
        if position > watermark:
            raise MomentError(
                f"{lsn_to_text(position)} is above the watermark, {lsn_to_text(watermark)}: rows of its transactions may"
                " not be in the lake yet",
                hint="wait until tidings.watermark has passed it, or name an earlier position",
            )
        first = self._first()
        if first is not None and position < first:
            raise MomentError(
                f"the lake begins at {lsn_to_text(first)}, where the first snapshot was read",
                hint="name a later position",
            )
        return Moment(position, watermark, self.tables)

    def _check_whole(self, table: str) -> None:
        """A row that has not changed since its log lost its oldest rows is in the current state only."""
        first = self._lake.property(log_of(table), RETAINED_PROPERTY)
        if first:
            raise MomentError(
                f"{log_of(table)} has no rows of records before {first}, by TIDINGS_LAKEHOUSE_RETENTION, so what {table} was as of"
                " a position is not known",
                hint="ask for it without --as-of; leave the logs of tables whose past is asked for out of the retention",
            )

    def _first(self) -> int | None:
        found = [
            self._lake.execute(f"SELECT min(f) FROM ({commits_query(self.shape(table), DUCKDB)})")[0][0]  # noqa: S608
            for table in self.tables
        ]
        return min((one for one in found if one is not None), default=None)

    def _position_at(self, text: str, watermark: int) -> int:
        """The newest commit that is not later than a time."""
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError as error:
            raise MomentError(
                f"{text!r} is neither a position nor a time",
                hint="a position is 0/16B3748 or a number, a time is 2026-01-31T12:00:00+00:00",
            ) from error
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        before, newest, later = 0, None, False
        for table in self.tables:
            query = commits_query(self.shape(table), DUCKDB)
            found = self._lake.execute(
                "SELECT max(f) FILTER (changed_at <= ?), epoch_us(max(changed_at) FILTER (f <= ?)),"  # noqa: S608
                f" count(*) FILTER (changed_at > ? AND f <= ?) FROM ({query})",
                [moment, watermark, moment, watermark],
            )[0]
            before = max(before, found[0] or 0)
            newest = max((one for one in (newest, found[1]) if one is not None), default=None)
            later = later or found[2] > 0
        if not later:
            told = "nothing" if newest is None else f"a change of {moment_text(newest)} UTC"
            raise MomentError(
                f"the newest that is complete in all tables is {told}: whether more was committed up to {text} is not known",
                hint=f"name the watermark's position, {lsn_to_text(watermark)}, for the newest state",
            )
        return before


def position_of(text: str) -> int | None:
    """A position as PostgreSQL or a person writes it; None when the text is none."""
    if re.fullmatch(r"[0-9]+", text):
        return int(text)
    try:
        return lsn_from_text(text)
    except DecodeError:
        return None


def _kind(type_: str) -> str:
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(type_)), "other")
