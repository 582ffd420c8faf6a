"""What the configuration of a query source says."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidings_capture.query.address import Address, read_address
from tidings_capture.query.errors import TableError
from tidings_capture.query.options import (
    BOTH,
    BULK,
    DIALECTS,
    INCREMENTING,
    OPTIONS,
    SHARE,
    TIMESTAMP,
    TOMBSTONE,
    WAIT,
    names_in,
    number_of,
    timestamps_of,
)
from tidings_connect.errors import OptionError


@dataclass(frozen=True, slots=True)
class QueryConfig:
    """What a configuration says."""

    address: Address
    attempts: int
    backoff_seconds: float
    mode: str
    incrementing: str
    incrementing_initial: int
    timestamps: tuple[str, ...]
    timestamp_initial_ms: int
    delay_seconds: float
    number_by_table: tuple[tuple[str, tuple[str, ...]], ...]
    """Patterns, and what `incrementing` is of a table whose whole name fits one."""
    timestamps_by_table: tuple[tuple[str, tuple[str, ...]], ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    include_patterns: tuple[str, ...]
    exclude_patterns: tuple[str, ...]
    catalog: str
    schema: str
    table_types: frozenset[str]
    query: str
    suffix: str
    """What stands at the end of a statement that reads rows."""
    topic_prefix: str
    poll_seconds: float
    batch_rows: int
    tables_seconds: float
    validate_non_null: bool
    numeric_mapping: str
    granularity: str
    """What timestamps become."""
    zone: ZoneInfo
    keyed: bool
    waits: bool
    share: tuple[int, int]
    reconcile_seconds: float
    """Between two comparisons; 0: there are none."""
    reconcile_rate: int
    """Rows a second."""
    range_rows: int
    reconcile_timeout: float
    """Seconds for a statement."""
    tombstones: bool

    @property
    def by_timestamp(self) -> bool:
        """Whether timestamps find new rows."""
        return self.mode in {TIMESTAMP, BOTH}

    @property
    def by_number(self) -> bool:
        """Whether a number that grows finds new rows."""
        return self.mode in {INCREMENTING, BOTH}

    def of(self, table: str) -> "QueryConfig":
        """The same for one table, with the columns that find its rows.

        Args:
            table: its whole name, with catalog and schema.

        Raises:
            TableError: columns are given by table, and none for this one.
        """
        found = self
        if self.by_number and self.number_by_table:
            (name,) = _first(self.number_by_table, table, "incrementing.column.mapping")
            found = replace(found, incrementing=name)
        if self.by_timestamp and self.timestamps_by_table:
            names = _first(self.timestamps_by_table, table, "timestamp.columns.mapping")
            found = replace(found, timestamps=names)
        return found


def _first(mapping: tuple[tuple[str, tuple[str, ...]], ...], table: str, option: str) -> tuple[str, ...]:
    for pattern, columns in mapping:
        if re.fullmatch(pattern, table):
            return columns
    raise TableError(
        f"table {table} fits no pattern of {option}",
        hint=f"add one for it to {option}, or leave the table out with table.exclude.list",
    )


def _by_table(value: str, parse: Callable[[str], tuple[str, ...]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    parts = [part.rpartition(":") for part in names_in(value)]
    return tuple((pattern, parse(columns)) for pattern, _colon, columns in parts)


def read_query_config(config: Mapping[str, str]) -> QueryConfig:
    """A configuration whose single options are right.

    Raises:
        OptionError: an address that cannot be used.
    """
    defaults = {option.name: option.default or "" for option in OPTIONS}
    given = {**defaults, **{name: value.strip() for name, value in config.items()}}
    share = given[SHARE] or "0/1"
    number, _, count = share.partition("/")
    precision_only = given["numeric.precision.mapping"].lower() == "true"
    return QueryConfig(
        address=read_address(given),
        attempts=int(given["connection.attempts"]),
        backoff_seconds=int(given["connection.backoff.ms"]) / 1000,
        mode=given["mode"],
        incrementing=given["incrementing.column.name"],
        incrementing_initial=int(given["incrementing.initial"]),
        timestamps=names_in(given["timestamp.column.name"]),
        timestamp_initial_ms=int(given["timestamp.initial"] or given["timestamp.initial.ms"]),
        delay_seconds=int(given["timestamp.delay.interval.ms"]) / 1000,
        number_by_table=_by_table(given["incrementing.column.mapping"], number_of),
        timestamps_by_table=_by_table(given["timestamp.columns.mapping"], timestamps_of),
        include=names_in(given["table.whitelist"]),
        exclude=names_in(given["table.blacklist"]),
        include_patterns=names_in(given["table.include.list"]),
        exclude_patterns=names_in(given["table.exclude.list"]),
        catalog=given["catalog.pattern"],
        schema=given["schema.pattern"],
        table_types=frozenset(part.upper() for part in names_in(given["table.types"])),
        query=(given["query"] or given["query.masked"]).rstrip(";").strip(),
        suffix=given["query.suffix"],
        topic_prefix=given["topic.prefix"],
        poll_seconds=int(given["poll.interval.ms"]) / 1000,
        batch_rows=int(given["batch.max.rows"]),
        tables_seconds=int(given["table.poll.interval.ms"]) / 1000,
        validate_non_null=given["validate.non.null"].lower() == "true",
        numeric_mapping="precision_only" if precision_only else given["numeric.mapping"],
        granularity=given["timestamp.granularity"],
        zone=ZoneInfo(given["db.timezone"]),
        keyed=given["tidings.record.key"] == "primary.key",
        waits=given["tidings.late.commits"] == WAIT,
        share=(int(number), int(count)),
        reconcile_seconds=int(given["tidings.reconciliation.interval.ms"]) / 1000,
        reconcile_rate=int(given["tidings.reconciliation.rows.per.second"]),
        range_rows=int(given["tidings.reconciliation.range.rows"]),
        reconcile_timeout=int(given["tidings.reconciliation.statement.timeout.ms"]) / 1000,
        tombstones=given["tidings.reconciliation.deletes"] == TOMBSTONE,
    )


def check_together(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with options that are right one by one, by the option that is to be changed."""
    try:
        read = read_query_config(config)
    except (OptionError, ValueError, ZoneInfoNotFoundError):
        return {}  # said of the option itself
    given = frozenset(name for name, value in config.items() if value.strip())
    found = {
        **_of_columns(read),
        **_of_tables(read, given),
        **_of_late_commits(read),
        **_of_comparisons(read),
    }
    dialect = DIALECTS.get(config.get("dialect.name", "").strip())
    if dialect is not None and read.address.dialect not in {dialect, _ANY}:
        found["dialect.name"] = f"is of {dialect}, and connection.url of {read.address.dialect}: leave it out"
    return {name: [f"{name} {problem}"] for name, problem in found.items()}


def _of_columns(read: QueryConfig) -> dict[str, str]:
    problems: dict[str, str] = {}
    if read.by_timestamp and not read.timestamps and not read.timestamps_by_table:
        problems["timestamp.column.name"] = f"must name a column in mode {read.mode}"
    if read.timestamps and read.timestamps_by_table:
        problems["timestamp.columns.mapping"] = "and timestamp.column.name cannot be set both"
    if read.incrementing and read.number_by_table:
        problems["incrementing.column.mapping"] = "and incrementing.column.name cannot be set both"
    if read.query and read.by_number and not read.incrementing:
        problems["incrementing.column.name"] = "must name a column of the query"
    if read.mode == TIMESTAMP and _CUTS.search(read.suffix):
        problems["query.suffix"] = (
            "would part rows of one timestamp, of which the rest would be lost: use mode timestamp+incrementing"
        )
    return problems


def _of_tables(read: QueryConfig, given: frozenset[str]) -> dict[str, str]:
    problems: dict[str, str] = {}
    if read.query and read.address.dialect == _ANY:
        name = "query" if "query" in given else "query.masked"
        problems[name] = (
            "is not read by SQLAlchemy, which does not tell its types: make a view of it, and set table.types=VIEW"
        )
    if {"query", "query.masked"} <= given:
        problems["query.masked"] = "and query cannot be set both"
    of_tables = given & _OF_TABLES
    if read.query and of_tables:
        problems["query"] = f"is read in place of tables: leave out {', '.join(sorted(of_tables))}"
    if read.query and read.keyed:
        problems["tidings.record.key"] = "is primary.key, which needs tables: a query has no primary key"
    if read.include and read.exclude:
        problems["table.blacklist"] = "and table.whitelist cannot be set both"
    if read.exclude_patterns and not read.include_patterns:
        problems["table.exclude.list"] = "says which tables of table.include.list are not read: set that, too"
    if (read.include or read.exclude) and read.include_patterns:
        problems["table.include.list"] = "cannot be set with table.whitelist or table.blacklist"
    return problems


def _of_late_commits(read: QueryConfig) -> dict[str, str]:
    name = "tidings.late.commits"
    if read.waits and (read.query or read.address.dialect != "postgresql"):
        return {name: "is wait, which is for PostgreSQL's tables"}
    if read.waits and read.mode == BULK:
        return {name: "is wait, which is for modes that find new rows, not for bulk"}
    return {}


def _of_comparisons(read: QueryConfig) -> dict[str, str]:
    if not read.reconcile_seconds:
        return {}
    if read.address.dialect == _ANY:
        return {
            "tidings.reconciliation.interval.ms": "is for PostgreSQL, MariaDB, MySQL and SQLite, not for SQLAlchemy's databases"
        }
    if read.query or read.mode == BULK:
        return {
            "tidings.reconciliation.interval.ms": "is for tables in modes that find new rows, not for a query or bulk"
        }
    if read.tombstones and not read.keyed:
        return {
            "tidings.reconciliation.deletes": "is tombstone, which needs tidings.record.key=primary.key; or set it to ignore"
        }
    return {}


_ANY: Final = "sqlalchemy"
_CUTS: Final = re.compile(r"\b(limit|fetch|top|offset)\b", re.IGNORECASE)
_OF_TABLES: Final = frozenset(
    {"table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list"}
    | {"incrementing.column.mapping", "timestamp.columns.mapping"}
)
"""Options that have no meaning for a query."""
