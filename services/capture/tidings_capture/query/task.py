"""The task of a query source: asks its tables in turn, each every ``poll.interval.ms``."""

import math
import re
import time
import zlib
from collections.abc import Mapping, Sequence

from tidings_capture.query.address import Address
from tidings_capture.query.config import QueryConfig
from tidings_capture.query.database import Database, TableId
from tidings_capture.query.errors import QueryError, TableError
from tidings_capture.query.reconciliation import KINDS, Reconciliation
from tidings_capture.query.table import AHEAD, EQUAL, NULL, Table
from tidings_capture.query.unseen import unseen
from tidings_connect.task.output import Output
from tidings_connect.task.source_loop import PartitionedTask
from tidings_connect.task.stored_positions import Partition, Position, StoredPositions
from tidings_service import get_logger

_log = get_logger(__name__)


class QueryTask(PartitionedTask):
    """Reads its share of the tables, or the query."""

    def __init__(self, config: QueryConfig, output: Output) -> None:
        self._config = config
        self._output = output
        self._database: Database | None = None
        self._attempts = 0
        self._attempt_at = 0.0
        self._stored = StoredPositions("", {})
        self._tables: dict[TableId | None, Table] = {}
        self._comparisons: dict[TableId | None, Reconciliation] = {}
        self._found: dict[str, int] = dict.fromkeys(KINDS, 0) if config.reconcile_seconds else {}
        if config.by_timestamp and not config.by_number:
            self._found[EQUAL] = 0
        if config.by_timestamp:
            self._found[AHEAD] = 0
        if not config.validate_non_null:
            self._found[NULL] = 0
        self._look_at = 0.0
        self._missing: tuple[str, ...] = ()

    def start(self, stored: StoredPositions) -> None:
        self._stored = stored
        if not_seen := [one.text for one in unseen(self._config)]:
            _log.warning("this mode does not see everything", mode=self._config.mode, not_seen=not_seen)

    def poll(self) -> bool:
        database = self._connected()
        if database is None:
            return True
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + self._config.tables_seconds
            self._look(database)
        self._compare(database, now)
        table = self._turn(now)
        if table is None:
            return True
        if not table.reading:
            table.due = now + self._config.poll_seconds
            self._look_ahead(table, database)
            table.open(database)
        for record in table.records(self._config.batch_rows):
            self._output.write(record)
        return not table.reading and self._turn(now) is None

    def wait(self, seconds: float, descriptor: int) -> None:
        due = min((each.due for each in self._comparisons.values()), default=math.inf) - time.monotonic()
        super().wait(min(seconds, max(due, 0.0)), descriptor)

    def positions(self) -> Sequence[tuple[Partition, Position]]:
        return [position for table in self._tables.values() for position in table.positions()]

    def stored(self, positions: Sequence[tuple[Partition, Position]]) -> None:
        for table in self._tables.values():
            table.stored(positions)

    def stop(self) -> None:
        for table in self._tables.values():
            if table.reading:
                table.close()
        if self._database is not None:
            self._database.close()

    def _connected(self) -> Database | None:
        now = time.monotonic()
        if self._database is None and now >= self._attempt_at:
            self._attempts += 1
            try:
                self._database = connect(self._config.address, self._config)
            except QueryError as error:
                if self._attempts >= self._config.attempts:
                    raise
                self._attempt_at = now + self._config.backoff_seconds
                _log.warning("not connected yet", reason=str(error), attempt=self._attempts)
        return self._database

    def findings(self) -> Mapping[str, int]:
        return self._found

    def _look_ahead(self, table: Table, database: Database) -> None:
        count = table.ahead(database)
        if count:
            self._found[AHEAD] += count
            _log.warning(
                "rows have timestamps that are still to come, and are not read before",
                table=str(table.table or "the query"),
                rows=count,
                zone=str(self._config.zone),
            )

    def _compare(self, database: Database, now: float) -> None:
        """Compare a range, where one is due and no result is open."""
        due = [each for each in self._comparisons.values() if each.due <= now]
        if due and not any(table.reading for table in self._tables.values()):
            min(due, key=lambda each: each.due).step(database)

    def _turn(self, now: float) -> Table | None:
        """Whose turn it is: a result that was begun is read to its end, since one can be open."""
        reading = next((table for table in self._tables.values() if table.reading), None)
        due = (table for table in self._tables.values() if table.due <= now)
        return reading or min(due, key=lambda table: table.due, default=None)

    def _look(self, database: Database) -> None:
        """Find new tables."""
        if self._config.query:
            wanted: list[TableId | None] = [None]
        else:
            wanted = [*mine(database.tables(self._config.table_types), self._config)]
            self._tell_missing(wanted)
        for gone in self._tables.keys() - wanted:
            _log.warning("a table is gone", table=str(gone))
            self._tables.pop(gone).close()
            self._comparisons.pop(gone, None)
        for name in wanted:
            if name not in self._tables:
                settle = None if self._output.exactly_once else self._output.settle
                table = Table(name, self._config, self._stored, settle)
                table.inspect(database)
                self._tables[name] = table
                table.found = self._found
                if NULL in self._found:
                    self._found[NULL] += table.nulls(database)
                if table.sent is not None:
                    self._comparisons[name] = Reconciliation(
                        table, table.sent, self._config, self._output.write, self._found
                    )

    def _tell_missing(self, found: Sequence[TableId | None]) -> None:
        if self._config.share[1] > 1:
            return
        missing = tuple(
            name
            for name in self._config.include
            if not any(table and _is_named(table, name) for table in found)
        )
        if missing and missing != self._missing:
            _log.warning("tables of table.whitelist are not there", tables=list(missing))
        self._missing = missing


def connect(address: Address, config: QueryConfig) -> Database:
    """A connection.

    Raises:
        QueryError: there is none to be had.
    """
    if address.dialect == "sqlite":
        from tidings_capture.query.sqlite import Sqlite  # noqa: PLC0415 - not in a worker that never needs it

        return Sqlite(address, config.zone)
    if address.dialect == "mariadb":
        from tidings_capture.query.mariadb import MariaDb  # noqa: PLC0415

        return MariaDb(address, config.zone, config.catalog)
    if address.dialect == "sqlalchemy":
        from tidings_capture.query.any_database import AnyDatabase  # noqa: PLC0415

        return AnyDatabase(address, config.zone, config.schema)
    from tidings_capture.query.postgresql import Postgres  # noqa: PLC0415

    return Postgres(address, config.zone)


def mine(tables: Sequence[TableId], config: QueryConfig) -> list[TableId]:
    """The tables of a task: those that are configured, and of them its share.

    Raises:
        TableError: two tables would share a topic.
    """
    chosen = [
        table
        for table in tables
        if (not config.include or any(_is_named(table, name) for name in config.include))
        and not any(_is_named(table, name) for name in config.exclude)
        and (
            not config.include_patterns
            or any(re.fullmatch(one, str(table)) for one in config.include_patterns)
        )
        and not any(re.fullmatch(one, str(table)) for one in config.exclude_patterns)
        and (not config.catalog or table.catalog == config.catalog)
        and (not config.schema or _like(table.schema, config.schema))
    ]
    by_name: dict[str, TableId] = {}
    for table in chosen:
        other = by_name.setdefault(table.name, table)
        if other != table:
            raise TableError(
                f"tables {other} and {table} would share the topic {config.topic_prefix}{table.name}",
                hint="leave one of them out with table.blacklist or table.exclude.list, or set schema.pattern",
            )
    number, count = config.share
    return [table for table in chosen if zlib.crc32(str(table).encode()) % count == number]


def _is_named(table: TableId, name: str) -> bool:
    parts = [part.strip('"`') for part in name.split(".")]
    own = [table.catalog, table.schema, table.name]
    return own[-len(parts) :] == parts


def _like(text: str, pattern: str) -> bool:
    """SQL's LIKE."""
    parts = {"%": ".*", "_": "."}
    return re.fullmatch("".join(parts.get(c, re.escape(c)) for c in pattern), text) is not None
