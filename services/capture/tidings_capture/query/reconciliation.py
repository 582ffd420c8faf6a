"""Compares a table with what was sent of it, range by range, and sends what is missing.

One thread reads, compares and polls, with one statement at a time: what a later statement sees is not older, so no older row
is written behind a newer one. A row that is not found in its range is looked up by its key before it counts as deleted. Rows
that the next poll will find are left to it.
"""

import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from tidings_capture.query.config import QueryConfig
from tidings_capture.query.database import Database, Result
from tidings_capture.query.errors import QueryError
from tidings_capture.query.packed import GONE, UNKNOWN, Key
from tidings_capture.query.plan import Plan
from tidings_capture.query.sent_rows import SentRows
from tidings_capture.query.statements import EPOCH, Reached, begin, between, one_of, read_offset
from tidings_capture.query.table import Table
from tidings_connect.transforms.record import Header, SourceRecord
from tidings_envelope.fault_points import reached
from tidings_envelope.semantic import STRING
from tidings_service import get_logger

HEADER: Final = "tidings.reconciliation"
MISSED: Final = "missed"
CHANGED: Final = "changed"
DELETED: Final = "deleted"
UNSURE: Final = "unknown"
"""Nobody knows whether the row was sent: it was before rows were compared, or offsets were altered."""
UNFINISHED: Final = "unfinished"
"""A comparison that the database has ended."""
KINDS: Final = (MISSED, CHANGED, DELETED, UNSURE, UNFINISHED)
_LOOKUPS: Final = 100
"""Keys in one statement."""

_log = get_logger(__name__)


class _Difference(NamedTuple):
    """Between a row and what was sent of it."""

    kind: str
    key: Key
    checksum: bytes
    record: SourceRecord | None
    """None: nothing is written of it."""


class Reconciliation:
    """The comparisons of one table.

    Args:
        found: counts what was found, by kind.
    """

    def __init__(
        self,
        table: Table,
        sent: SentRows,
        config: QueryConfig,
        write: Callable[[SourceRecord], None],
        found: MutableMapping[str, int],
    ) -> None:
        self._table = table
        self._sent = sent
        self._config = config
        self._write = write
        self._found = found
        self._notes = sent.notes
        self._tick = timedelta(microseconds=1)
        if not sent.trusted:
            self._notes["unsure"] = True
        age = time.time() - float(self._notes.get("ended", 0.0))
        first = 0.0 if "after" in self._notes else max(config.reconcile_seconds - age, 0.0)
        self.due = time.monotonic() + (first if "ended" in self._notes else config.reconcile_seconds)
        """When the next range is to be compared, by `time.monotonic`."""

    def step(self, database: Database) -> None:
        """Compare one range. No result may be open.

        Raises:
            QueryError: the database does not answer any more.
            TableError: the table cannot be read.
            RecordError: a value fits into no record.
        """
        if self._table.reached is None:
            self.due = time.monotonic() + self._config.reconcile_seconds
            return
        began = time.monotonic()
        try:
            rows, done = self._step(database, self._table.reached)
        except QueryError as error:
            database.now()  # it answers, but not to this
            self._found[UNFINISHED] = self._found.get(UNFINISHED, 0) + 1
            self._notes.pop("after", None)
            self.due = time.monotonic() + self._config.reconcile_seconds
            _log.warning("a comparison has ended early", table=str(self._table.table), reason=str(error))
            return
        pause = self._config.reconcile_seconds if done else rows / self._config.reconcile_rate
        self.due = began + pause

    def _step(self, database: Database, position: Reached) -> tuple[int, bool]:
        """How many rows were read, and whether they were the last."""
        self._table.inspect(database)
        self._tick = database.tick
        noted = self._notes.setdefault("after", [])
        after = tuple(noted) or None
        until = self._sent.until(after)
        limit = self._config.range_rows * (1 if until is None else 2)
        plan, rows = self._between(database, after, until, limit)
        if len(rows) == limit:
            rows = rows[: self._config.range_rows]
            until = self._table.key_of(plan, rows[-1])
        known = self._sent.known(after, until)
        seen, differences = self._compare(plan, rows, known, position)
        reached("range.compared")
        gone = [key for key in known if key not in seen]
        for at in range(0, len(gone), _LOOKUPS):
            differences += self._look_up(database, gone[at : at + _LOOKUPS], known, position)
        self._send(differences)
        self._sent.compared(after, until)
        if until is None:
            del self._notes["after"]
            self._notes.pop("unsure", None)
            self._notes["ended"] = int(time.time())
        else:
            self._notes["after"] = list(until)
        reached("range.noted")
        return len(rows) + len(gone), until is None

    def _between(
        self, database: Database, after: Key | None, until: Key | None, limit: int
    ) -> tuple[Plan, Sequence[Sequence[Any]]]:
        columns = [database.quoted(name) for name in self._table.facts.key]
        condition, parameters = between(columns, after, until)
        where = f"WHERE {condition} " if condition else ""
        return self._read(database, f"{where}ORDER BY {', '.join(columns)} LIMIT {limit}", parameters, limit)

    def _look_up(
        self, database: Database, keys: Sequence[Key], known: dict[Key, bytes], position: Reached
    ) -> list[_Difference]:
        columns = [database.quoted(name) for name in self._table.facts.key]
        condition, parameters = one_of(columns, keys)
        plan, rows = self._read(database, f"WHERE {condition}", parameters, len(keys) + 1)
        found, differences = self._compare(plan, rows, known, position)
        for key in keys:
            if key not in found:
                record = self._table.tombstone(plan, key) if self._config.tombstones else None
                differences.append(_Difference(DELETED, key, GONE, record))
        return differences

    def _read(
        self, database: Database, rest: str, parameters: Sequence[Any], most: int
    ) -> tuple[Plan, Sequence[Sequence[Any]]]:
        select = f"SELECT * FROM {self._table.source(database)}"  # noqa: S608 - quoted
        result = database.open(select, rest, parameters, self._config.reconcile_timeout)
        try:
            plan = self._table.planned(result.columns)
            return plan, list(_all(result, most))
        finally:
            result.close()

    def _compare(
        self, plan: Plan, rows: Sequence[Sequence[Any]], known: dict[Key, bytes], position: Reached
    ) -> tuple[set[Key], list[_Difference]]:
        """The keys of all rows, and those that were not sent as they are."""
        seen = set()
        differences = []
        first = self._first(position)
        for row in rows:
            key = self._table.key_of(plan, row)
            seen.add(key)
            if not _is_between(self._table.place(plan, row), first, position, self._tick):
                continue
            checksum = plan.checksum(row)
            before = known.get(key)
            if before == checksum:
                continue
            kind = CHANGED if before is not None else MISSED
            if before == UNKNOWN or (before is None and "unsure" in self._notes):
                kind = UNSURE
            differences.append(_Difference(kind, key, checksum, self._table.record(plan, row)))
        return seen, differences

    def _first(self, position: Reached) -> Reached:
        """Rows up to it were never to be read."""
        config = self._config
        if config.by_timestamp and config.timestamp_initial_ms < 0:
            # "Now" was when the connector began, which is stored nowhere: rows from here on are compared.
            noted = self._notes.setdefault("first", position.stored())
            return read_offset(noted, str(self._table.table))
        return begin(config, datetime.now(config.zone))

    def _send(self, differences: Sequence[_Difference]) -> None:
        if not differences:
            return
        self._table.announce([each.key for each in differences])
        for kind, key, checksum, record in differences:
            if record is not None:
                self._write(record._replace(headers=[Header(HEADER, STRING, kind)]))
                reached("difference.sent")
            self._found[kind] = self._found.get(kind, 0) + 1
            self._sent.send(key, checksum)
        self._sent.withdraw()


def _is_between(place: Reached | None, first: Reached, last: Reached, tick: timedelta) -> bool:
    """Whether a poll would have found a row by now, had it been there in time. One without a place never is."""
    return place is None or _order(first, tick) < _order(place, tick) <= _order(last, tick)


def _order(at: Reached, tick: timedelta) -> tuple[timedelta, int]:
    moment = timedelta() if at.moment is None else (at.moment - EPOCH) // tick * tick
    return moment, 0 if at.number is None else at.number


def _all(result: Result, rows: int) -> Iterator[Sequence[Any]]:
    while found := result.fetch(rows):
        yield from found
