"""The options of query sources: those of the two well-known JDBC source connectors, and ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidings_capture.query.address import Address, read_address
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import (
    at_least_one_problem,
    not_negative_long_problem,
    refused_by,
)
from tidings_connect.errors import OptionError

BULK: Final = "bulk"
INCREMENTING: Final = "incrementing"
TIMESTAMP: Final = "timestamp"
BOTH: Final = "timestamp+incrementing"
SHARE: Final = "tidings.task.share"
WAIT: Final = "wait"
TOMBSTONE: Final = "tombstone"
_RANGE_MOST: Final = 5000
"""Rows whose keys and checksums fit into a record of the offsets topic."""
_TABLE_TYPES: Final = ("TABLE", "VIEW")


def _zone_problem(value: str) -> str | None:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "is no time zone's name, such as Europe/Helsinki"
    return None


def _table_types_problem(value: str) -> str | None:
    wrong = [part for part in names_in(value) if part.upper() not in _TABLE_TYPES]
    return f"must be of {', '.join(_TABLE_TYPES)}" if wrong else None


def _range_rows_problem(value: str) -> str | None:
    return None if 1 <= int(value) <= _RANGE_MOST else f"must be from 1 to {_RANGE_MOST}"


def names_in(value: str) -> tuple[str, ...]:
    """The parts of a list."""
    return tuple(filter(None, (part.strip() for part in value.split(","))))


OPTIONS: Final = (
    Option(
        "connection.url",
        required=True,
        check=refused_by(lambda value: read_address({"connection.url": value})),
        documentation="The database: a JDBC URL or one of SQLAlchemy's form, of PostgreSQL, MariaDB, MySQL or SQLite.",
    ),
    Option("connection.user", documentation="The database user."),
    Option("connection.password", "password", documentation="Its password."),
    Option(
        "connection.attempts",
        "int",
        "3",
        check=at_least_one_problem,
        documentation="How often a connection is tried before the task gives up, and is tried again by the worker.",
    ),
    Option(
        "connection.backoff.ms",
        "long",
        "10000",
        check=not_negative_long_problem,
        documentation="Milliseconds between two attempts.",
    ),
    Option(
        "mode",
        required=True,
        values=(BULK, INCREMENTING, TIMESTAMP, BOTH),
        documentation="How new rows are found: all of them each time, or by columns that only grow.",
    ),
    Option(
        "incrementing.column.name",
        default="",
        documentation="A column that only grows; empty: the only one that the database counts up itself.",
    ),
    Option(
        "incrementing.initial",
        "long",
        "-1",
        documentation="Rows above it are read by a connector without an offset.",
    ),
    Option(
        "timestamp.column.name",
        "list",
        "",
        documentation="Columns that say when a row was changed; the first of them that is not null counts.",
    ),
    Option(
        "timestamp.initial.ms",
        "long",
        "0",
        documentation="Rows behind it (milliseconds since 1970) are read by a connector without an offset; -1: from now on.",
    ),
    Option(
        "timestamp.initial",
        "long",
        documentation="Another name of timestamp.initial.ms.",
    ),
    Option(
        "timestamp.delay.interval.ms",
        "long",
        "0",
        check=not_negative_long_problem,
        documentation="How long rows wait after their timestamp, so that transactions that take longer are not missed.",
    ),
    Option(
        "table.whitelist", "list", "", documentation="The only tables to read, with or without their schema."
    ),
    Option("table.blacklist", "list", "", documentation="The tables not to read."),
    Option("catalog.pattern", documentation="The only catalog whose tables are read."),
    Option("schema.pattern", documentation="The only schema whose tables are read; % and _ as in LIKE."),
    Option("table.types", "list", "TABLE", check=_table_types_problem, documentation="TABLE, VIEW or both."),
    Option(
        "query",
        default="",
        documentation="A SELECT to read in place of tables. It may have a WHERE of its own.",
    ),
    Option(
        "topic.prefix",
        required=True,
        documentation="What topics' names begin with; of a query the whole name.",
    ),
    Option(
        "poll.interval.ms",
        "int",
        "5000",
        check=at_least_one_problem,
        documentation="Milliseconds between two queries of a table.",
    ),
    Option(
        "batch.max.rows",
        "int",
        "100",
        check=at_least_one_problem,
        documentation="How many rows are read before the next table has its turn.",
    ),
    Option(
        "table.poll.interval.ms",
        "long",
        "60000",
        check=at_least_one_problem,
        documentation="Milliseconds between two looks for new tables.",
    ),
    Option(
        "validate.non.null",
        "boolean",
        "true",
        documentation="Whether the columns that find new rows must be NOT NULL: rows with null in them are never read.",
    ),
    Option(
        "numeric.mapping",
        default="none",
        values=("none", "precision_only", "best_fit"),
        documentation="Which numeric columns become integers and doubles.",
    ),
    Option(
        "numeric.precision.mapping",
        "boolean",
        "false",
        documentation="True is numeric.mapping=precision_only.",
    ),
    Option(
        "db.timezone",
        default="UTC",
        check=_zone_problem,
        documentation="The time zone of timestamps that have none.",
    ),
    Option(
        "tidings.record.key",
        default="none",
        values=("none", "primary.key"),
        documentation="What a record's key is: null, as the well-known connectors have it, or the row's primary key.",
    ),
    Option(
        "tidings.late.commits",
        default="read",
        values=("read", WAIT),
        documentation=(
            "On PostgreSQL: wait reads no row while a transaction runs that may still commit one before it. Read loses those."
        ),
    ),
    Option(
        "tidings.reconciliation.interval.ms",
        "long",
        "0",
        check=not_negative_long_problem,
        documentation=(
            "Milliseconds between two comparisons of each table with what was sent, which find missed, changed and deleted"
            " rows; 0: there is none."
        ),
    ),
    Option(
        "tidings.reconciliation.rows.per.second",
        "int",
        "5000",
        check=at_least_one_problem,
        documentation="How many rows of a table a comparison reads each second at most.",
    ),
    Option(
        "tidings.reconciliation.range.rows",
        "int",
        "1000",
        check=_range_rows_problem,
        documentation="How many rows a statement of a comparison reads, from 1 to 5000; twice as many where rows came between.",
    ),
    Option(
        "tidings.reconciliation.statement.timeout.ms",
        "long",
        "30000",
        check=at_least_one_problem,
        documentation="How long a statement of a comparison may take; one that takes longer ends the comparison until the next.",
    ),
    Option(
        "tidings.reconciliation.deletes",
        default=TOMBSTONE,
        values=(TOMBSTONE, "ignore"),
        documentation=(
            "What a comparison writes for a deleted row: a tombstone, which needs tidings.record.key=primary.key, or nothing."
        ),
    ),
    Option(SHARE, documentation="Set by the connector for its tasks: which of how many a task is."),
)

FIXED: Final = (
    Option("quote.sql.identifiers", default="always", values=("always",), only="always"),
    Option("sql.quote.identifiers", default="true", values=("true",), only="true"),
    Option("table.names.qualify", default="true", values=("true",), only="true"),
)
"""Identifiers are always quoted, and tables named with their schema or database."""
REFUSED: Final = (
    "dialect.name",
    "incrementing.column.mapping",
    "incrementing.relaxed.monotonic",
    "query.retry.attempts",
    "query.suffix",
    "table.exclude.list",
    "table.include.list",
    "timestamp.columns.mapping",
    "timestamp.granularity",
    "transaction.isolation.mode",
)
"""Options of one of the two well-known connectors, or of both, that are refused as every name is that nobody obeys."""


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
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    catalog: str
    schema: str
    table_types: frozenset[str]
    query: str
    topic_prefix: str
    poll_seconds: float
    batch_rows: int
    tables_seconds: float
    validate_non_null: bool
    numeric_mapping: str
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
        include=names_in(given["table.whitelist"]),
        exclude=names_in(given["table.blacklist"]),
        catalog=given["catalog.pattern"],
        schema=given["schema.pattern"],
        table_types=frozenset(part.upper() for part in names_in(given["table.types"])),
        query=given["query"].rstrip(";").strip(),
        topic_prefix=given["topic.prefix"],
        poll_seconds=int(given["poll.interval.ms"]) / 1000,
        batch_rows=int(given["batch.max.rows"]),
        tables_seconds=int(given["table.poll.interval.ms"]) / 1000,
        validate_non_null=given["validate.non.null"].lower() == "true",
        numeric_mapping="precision_only" if precision_only else given["numeric.mapping"],
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
    """What is wrong with options that are right one by one."""
    try:
        read = read_query_config(config)
    except (OptionError, ValueError, ZoneInfoNotFoundError):
        return {}  # said of the option itself
    problems: dict[str, list[str]] = {}
    if read.by_timestamp and not read.timestamps:
        problems["timestamp.column.name"] = [f"timestamp.column.name must name a column in mode {read.mode}"]
    if read.query and (read.include or read.exclude):
        problems["query"] = [
            "query is read in place of tables: leave out table.whitelist and table.blacklist"
        ]
    if read.query and read.by_number and not read.incrementing:
        problems["incrementing.column.name"] = ["incrementing.column.name must name a column of the query"]
    if read.query and read.keyed:
        problems["tidings.record.key"] = [
            "tidings.record.key=primary.key needs tables: a query has no primary key"
        ]
    if read.include and read.exclude:
        problems["table.blacklist"] = ["table.blacklist and table.whitelist cannot be set both"]
    if read.waits and read.mode == BULK:
        problems["tidings.late.commits"] = [
            "tidings.late.commits=wait is for modes that find new rows, not for bulk"
        ]
    if read.waits and (read.query or read.address.dialect != "postgresql"):
        problems["tidings.late.commits"] = ["tidings.late.commits=wait is for PostgreSQL's tables"]
    if read.reconcile_seconds and (read.query or read.mode == BULK):
        problems["tidings.reconciliation.interval.ms"] = [
            "tidings.reconciliation.interval.ms is for tables in modes that find new rows, not for a query or bulk"
        ]
    if read.reconcile_seconds and read.tombstones and not read.keyed:
        problems["tidings.reconciliation.deletes"] = [
            "tidings.reconciliation.deletes=tombstone needs tidings.record.key=primary.key; or set it to ignore"
        ]
    return problems
