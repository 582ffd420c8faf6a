"""One table (or query) of a query source: its statement, its records, how far it is."""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import chain, islice, takewhile
from typing import Any, Final

from tidings_capture.query.columns import Column, read_moment
from tidings_capture.query.config import QueryConfig
from tidings_capture.query.database import Database, Result, TableFacts, TableId
from tidings_capture.query.errors import QueryError, TableError
from tidings_capture.query.packed import Key
from tidings_capture.query.plan import LATE, Plan, plan_of
from tidings_capture.query.sent_rows import SentRows
from tidings_capture.query.statements import Names, Reached, Statement, begin, read_offset, statement
from tidings_connect.data.kept import KEPT
from tidings_connect.errors import RecordError
from tidings_connect.task.stored_positions import Partition, Position, StoredPositions
from tidings_connect.transforms.record import SourceRecord
from tidings_envelope.fault_points import reached as passed

EQUAL: Final = "equal_timestamp"
"""A row with the timestamp of the one before it: one that is committed later with it is never read in mode timestamp."""
NULL: Final = "null"
AHEAD: Final = "ahead"
"""A row whose timestamp is still to come, by the database's clock in ``db.timezone``: it is read when it has come."""
_ZONED: Final = "timestamptz"
_MOST_COUNTED: Final = 1000
"""To which rows are counted that are not read."""
_NO_FACTS: Final = TableFacts((), (), ())


class Table:
    """What is read as one.

    Args:
        table: its name; None: the configuration's query.
        settle: stores all positions before it returns; None: a position is stored with its records or not at all, so that
            nothing needs to be stored before them.

    Raises:
        TableError: columns are given by table, and none for this one.
    """

    def __init__(
        self,
        table: TableId | None,
        config: QueryConfig,
        stored: StoredPositions,
        settle: Callable[[], None] | None,
    ) -> None:
        self.table = table
        self._config = config = config if table is None else config.of(str(table))
        self._settle = settle
        self._name = "the query" if table is None else f"table {table}"
        self._partition = _partition(table)
        self.topic = config.topic_prefix + (table.name if table is not None else "")
        found = stored.get(self._partition)
        if found is None and table is not None:
            found = stored.get({"table": table.name})  # as older versions of the connectors wrote it
        self._reached = None if found is None else read_offset(found, self._name)
        self.sent = (
            SentRows(stored.kept(self._partition), found, config.range_rows, self._name)
            if config.reconcile_seconds
            else None
        )
        """What was sent, where rows are compared with it."""
        self.facts = _NO_FACTS
        self._number = config.incrementing
        self._zoned = self._looked_ahead = False
        self._plan: Plan | None = None
        self._plans: dict[tuple[Column, ...], Plan] = {}
        self._result: Result | None = None
        self._rows: Iterator[Sequence[Any]] = iter(())
        self._next: Sequence[Any] | None = None
        self._announced = 0
        self.found: MutableMapping[str, int] = {}
        """Counts what its mode may miss, by kind."""
        self.due = 0.0
        """When it is to be asked, by `time.monotonic`."""

    @property
    def reading(self) -> bool:
        """Whether a result is open."""
        return self._result is not None

    def position(self) -> tuple[Partition, dict[str, int]] | None:
        """How far it is; None: it has read nothing yet, or has no position."""
        if self._reached is None:
            return None
        stored = self._reached.stored()
        return (self._partition, stored) if stored else None

    def positions(self) -> list[tuple[Partition, Position]]:
        """Its position, with what was sent, where that is kept."""
        position = self.position()
        found: list[tuple[Partition, Position]] = [] if position is None else [position]
        if self.sent is not None:
            kept = self.sent.entries(None if position is None else position[1])
            found += [({**self._partition, KEPT: name}, entry) for name, entry in kept]
        return found

    def stored(self, positions: Sequence[tuple[Partition, Position]]) -> None:
        """Kafka has these, of all tables."""
        if self.sent is not None:
            own = [(partition, entry) for partition, entry in positions if KEPT in partition]
            self.sent.stored(
                {
                    partition[KEPT]: entry
                    for partition, entry in own
                    if {**self._partition, KEPT: partition[KEPT]} == partition
                }
            )

    def inspect(self, database: Database) -> None:
        """Learn what the database knows of the table.

        Raises:
            TableError: it cannot be read in this mode.
        """
        if self.table is None:
            return
        facts = database.facts(self.table)
        if facts != self.facts:
            self.facts, self._plans = facts, {}
        config, known = self._config, {column.name: column for column in self.facts.columns}
        if config.by_number and not config.incrementing:
            if len(self.facts.counted) != 1:
                raise TableError(
                    f"{self._name} has {len(self.facts.counted)} columns that the database counts up itself",
                    hint="name the column that grows in incrementing.column.name",
                )
            self._number = self.facts.counted[0]
        wanted = [self._number] if config.by_number else []
        wanted += config.timestamps if config.by_timestamp else ()
        for name in wanted:
            if name not in known:
                raise TableError(
                    f"{self._name} has no column {name}",
                    hint="correct incrementing.column.name or timestamp.column.name, or leave the table out",
                )
        of_moment = [known[name] for name in config.timestamps] if config.by_timestamp else []
        never_null = not of_moment or any(not column.nullable for column in of_moment)
        if config.by_number and known[self._number].nullable:
            never_null = False
        if config.validate_non_null and not never_null:
            raise TableError(
                f"{self._name}: a column that finds new rows may be null, and rows with null in it are never read",
                hint="make it NOT NULL, or set validate.non.null=false",
            )
        if config.keyed and not self.facts.key:
            raise TableError(f"{self._name} has no primary key", hint="set tidings.record.key=none")
        if self.sent is not None:
            self._check_comparable()

    def nulls(self, database: Database) -> int:
        """How many rows have null where rows are found by, and are never read; it counts to 1,000."""
        moments, number = self._config.timestamps, self._number
        parts = [f"{database.quoted(number)} IS NULL"] if self._config.by_number else []
        if self._config.by_timestamp:
            parts.append(" AND ".join(f"{database.quoted(name)} IS NULL" for name in moments))
        one = database.quoted(number or moments[0])
        return self._counted(database, one, " OR ".join(parts), [])

    def ahead(self, database: Database) -> int | None:
        """How many rows have a timestamp that is still to come; it counts to 1,000. None: it was counted before, or is not yet
        known how timestamps are compared.

        Raises:
            QueryError: the database would not.
        """
        if self._looked_ahead or self._plan is None or not self._config.by_timestamp:
            return None
        self._looked_ahead = True
        at = database.moment([database.quoted(name) for name in self._config.timestamps])
        now = database.parameter(database.now(), zoned=self._zoned)
        with self._named():
            return self._counted(database, at, f"{at} > %s", [now])

    def _counted(self, database: Database, what: str, condition: str, parameters: Sequence[Any]) -> int:
        select = f"SELECT {what} FROM {self.source(database)}"  # noqa: S608 - quoted
        result = database.open(select, f"WHERE {condition}", parameters)
        try:
            return len(result.fetch(_MOST_COUNTED))
        finally:
            result.close()

    def _check_comparable(self) -> None:
        facts = self.facts
        for name in facts.key:
            if name not in facts.ordered:
                raise TableError(
                    f"{self._name} cannot be compared with what was sent: only the database knows the order of column {name}",
                    hint='give the column a binary collation (COLLATE "C"), or set tidings.reconciliation.interval.ms=0',
                )
        if not facts.key:
            raise TableError(
                f"{self._name} has no primary key, by which it could be compared with what was sent",
                hint="leave the table out, or set tidings.reconciliation.interval.ms=0",
            )

    def open(self, database: Database) -> None:
        """Ask for the rows behind the position.

        Raises:
            QueryError: the database would not.
            TableError: the table cannot be read in this mode any more.
        """
        with self._named():
            self._open(database)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """The database's errors, with the table's name."""
        try:
            yield
        except QueryError as error:
            raise QueryError(f"{self._name}: {error}", hint=error.hint, retry=error.retry) from error

    def _open(self, database: Database) -> None:
        self.inspect(database)  # columns may have become others, or nullable
        config = self._config
        now = database.now()
        reached = self._reached or begin(config, now)
        end = now - timedelta(seconds=config.delay_seconds)
        oldest = database.oldest() if config.waits and config.by_timestamp else None
        if oldest is not None:
            end = min(end, oldest)
        made = self._statement(database, reached, end)
        suffix = config.suffix.replace("%", "%%")
        self._result = database.open(made.select, f"{made.rest} {suffix}".rstrip(), made.parameters)
        zoned = {column.name for column in self._result.columns if column.kind == _ZONED}
        if config.by_timestamp and config.timestamps[0] in zoned and not self._zoned:
            # The first result tells the column's type, and with it how its position is compared.
            self._zoned = True
            self.close()
            self._open(database)
            return
        if config.by_timestamp and config.timestamp_initial_ms < 0:
            self._reached = reached  # "now" is when it was first asked
        self._plan = self.planned(self._result.columns)
        self._rows = _rows(self._result, config.batch_rows)
        self._next = next(self._rows, None)

    def _statement(self, database: Database, reached: Reached, end: datetime) -> Statement:
        config, quoted = self._config, database.quoted
        source = self.source(database)
        at = database.moment([quoted(name) for name in config.timestamps]) if config.by_timestamp else ""
        late = database.late() if config.waits else ""
        if late and not config.by_number:
            late = f"bool_or({late}) OVER (PARTITION BY {at})"  # no position stands between rows of one timestamp
        columns = f"*, {late} AS {LATE}" if late else "*"
        names = Names(source, columns, quoted(self._number) if config.by_number else "", at)
        moment = None
        if reached.moment is not None:
            moment = database.parameter(reached.moment, zoned=self._zoned)
        return statement(config.mode, names, reached, database.parameter(end, zoned=self._zoned), moment)

    def source(self, database: Database) -> str:
        """What is selected from, for a statement."""
        if self.table is None:
            return f"({self._config.query.replace('%', '%%')}) AS tidings_query"
        return database.named(self.table)

    def planned(self, columns: Sequence[Column]) -> Plan:
        """How the rows of a result become records.

        Raises:
            TableError: columns are missing, or two have one name.
        """
        known = self._plans.get(tuple(columns))
        if known is None:
            known = self._plans[tuple(columns)] = plan_of(
                columns, self._config, self.facts, self._number, self.table, compared=self.sent is not None
            )
        return known

    def records(self, rows: int) -> Iterator[SourceRecord]:
        """The next records; afterwards the position is behind the last of them, and `reading` says whether there are more.

        Rows of one timestamp are never parted, where only that finds them: a position between them would lose the others.

        Args:
            rows: how many, about.
        """
        plan, count, reached = self._plan, 0, self._reached
        assert plan is not None
        while self._next is not None:
            row = self._next
            if plan.late is not None and row[plan.late]:
                break  # a row before it may still come
            if self._announced == 0:
                self._announce_rows(plan, row)
            record = self.record(plan, row)
            if self.sent is not None:
                self.sent.send(self.key_of(plan, row), plan.checksum(row))
                self._announced -= 1
            yield record
            self._next = next(self._rows, None)
            count += 1
            before, reached = reached, self._reached_by(plan, row)
            if before == reached and plan.number is None and plan.moments:
                self.found[EQUAL] = self.found.get(EQUAL, 0) + 1
            whole = plan.number is not None or not plan.moments
            if whole:
                self._reached = reached
            if self._next is None or whole or self._reached_by(plan, self._next) != reached:
                self._reached = reached
                if count >= rows:
                    return
        self.close()

    def _announce_rows(self, plan: Plan, first: Sequence[Any]) -> None:
        """Those that are to be sent next; they are read for it."""
        if self.sent is None or self._settle is None:
            return
        ahead = [*islice(self._rows, self._config.range_rows - 1)]
        self._rows = chain(ahead, self._rows)
        rows = [*takewhile(lambda row: plan.late is None or not row[plan.late], (first, *ahead))]
        self._announced = len(rows)
        self.announce([self.key_of(plan, row) for row in rows])

    def announce(self, keys: Sequence[Key]) -> None:
        """Store which rows are to be sent, where a kill may come between their records and the position. They have to be sent
        in this order.

        Raises:
            BrokerError: Kafka refused a record.
        """
        if self.sent is not None and self._settle is not None:
            self.sent.announce(keys)
            self._settle()
            passed("keys.announced")

    @property
    def reached(self) -> Reached | None:
        """How far it is."""
        return self._reached

    def key_of(self, plan: Plan, row: Sequence[Any]) -> Key:
        """A row's primary key, as it is kept.

        Raises:
            TableError: it is of a type that is not compared.
        """
        return tuple(self._key_part(plan.columns[at].name, row[at]) for at in plan.identity)

    def _key_part(self, name: str, value: Any) -> int | str:
        if isinstance(value, int | str):
            return value
        if isinstance(value, Decimal) and value == value.to_integral_value():
            return int(value)
        raise TableError(
            f"{self._name} cannot be compared with what was sent: column {name} of its key is neither a whole number nor a text",
            hint="leave the table out, or set tidings.reconciliation.interval.ms=0",
        )

    def place(self, plan: Plan, row: Sequence[Any]) -> Reached | None:
        """Where a row stands in the order in which rows are found; None: it has a null there, and is never found.

        Raises:
            RecordError: it has no timestamp that can be read.
        """
        if plan.number is not None and row[plan.number] is None:
            return None
        if plan.moments and all(row[at] is None for at in plan.moments):
            return None
        try:
            return self._reached_by(plan, row)
        except ValueError:
            raise RecordError(f"{self._name} holds a timestamp that no record can hold") from None

    def tombstone(self, plan: Plan, key: Key) -> SourceRecord:
        """The record of a deleted row."""
        fields = dict(plan.fields)
        value = {name: fields[name].convert(part) for name, part in zip(self.facts.key, key, strict=True)}
        return SourceRecord(self.topic, None, plan.key_schema, value, None, None, None, [])

    def _reached_by(self, plan: Plan, row: Sequence[Any]) -> Reached | None:
        if plan.number is None and not plan.moments:
            return None
        number = None if plan.number is None else int(row[plan.number])
        moment = None
        if plan.moments:
            value = next(row[at] for at in plan.moments if row[at] is not None)
            moment = read_moment(value, self._config.zone)
        return Reached(number, moment)

    def record(self, plan: Plan, row: Sequence[Any]) -> SourceRecord:
        """A row's record.

        Raises:
            RecordError: a value fits into none.
        """
        value = {}
        for (name, field), cell in zip(plan.fields, row, strict=False):
            try:
                value[name] = None if cell is None else field.convert(cell)
            except (ValueError, TypeError, ArithmeticError, RecordError) as error:
                raise RecordError(
                    f"column {name} of {self._name} holds what no record can hold ({type(error).__name__})",
                    hint="find the row behind the stored offset; leave the column out, or cast it, with query",
                ) from None
        key = {name: value[name] for name in plan.key} if plan.key else None
        return SourceRecord(self.topic, None, plan.key_schema, key, plan.schema, value, None, [])

    def close(self) -> None:
        """Let go of the result."""
        result, self._result, self._next, self._announced = self._result, None, None, 0
        if self.sent is not None:
            self.sent.withdraw()
        if result is not None:
            result.close()


def _partition(table: TableId | None) -> Partition:
    return {"query": "query"} if table is None else {"protocol": "1", "table": str(table)}


def _rows(result: Result, batch: int) -> Iterator[Sequence[Any]]:
    while rows := result.fetch(batch):
        yield from rows
