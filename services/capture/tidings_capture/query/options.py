"""The options of query sources: those of the two well-known JDBC source connectors, and ours."""

import re
from collections.abc import Callable
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidings_capture.query.address import read_address
from tidings_connect.config.option import Kind, Option
from tidings_connect.config.option_checks import (
    at_least_one_problem,
    not_negative_long_problem,
    refused_by,
)

LOGICAL: Final = "connect_logical"
GRANULARITIES: Final = (
    "micros_long",
    "micros_string",
    "micros_iso_datetime_string",
    "nanos_long",
    "nanos_string",
    "nanos_iso_datetime_string",
)
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
DIALECTS: Final = {
    "PostgreSqlDatabaseDialect": "postgresql",
    "MySqlDatabaseDialect": "mariadb",
    "SqliteDatabaseDialect": "sqlite",
}
"""What the well-known connectors call them, and `Address.dialect`."""


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


def _patterns_problem(value: str) -> str | None:
    return next((problem for part in names_in(value) if (problem := _pattern_problem(part))), None)


def _pattern_problem(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"has a regular expression that cannot be read ({error})"
    return None


def _mapping_problem(parse: Callable[[str], tuple[str, ...]], form: str) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        for part in names_in(value):
            pattern, colon, columns = part.rpartition(":")
            if not (colon and pattern and parse(columns)):
                return f"must be a list of {form}"
            if problem := _pattern_problem(pattern):
                return problem
        return None

    return check


def timestamps_of(mapped: str) -> tuple[str, ...]:
    """The columns of an entry of ``timestamp.columns.mapping``; none: it is not of its form."""
    inner = mapped.strip().removeprefix("[").removesuffix("]")
    return (
        tuple(part.strip() for part in inner.split("|")) if mapped.strip() == f"[{inner}]" and inner else ()
    )


def number_of(mapped: str) -> tuple[str, ...]:
    """The column of an entry of ``incrementing.column.mapping``; none: it is not of its form."""
    return () if not mapped.strip() or "[" in mapped or "|" in mapped else (mapped.strip(),)


def names_in(value: str) -> tuple[str, ...]:
    """The parts of a list."""
    return tuple(filter(None, (part.strip() for part in value.split(","))))


_NO_EFFECT: Final = "Accepted, without effect: rows are sent as they are read, batch.max.rows at a time."
_WITHOUT_EFFECT: Final[tuple[tuple[str, Kind, str], ...]] = (
    ("max.buffer.size", "int", "0"),
    ("poll.linger.ms", "int", "5000"),
    ("table.monitoring.startup.polling.limit.ms", "int", "10000"),
)
OPTIONS: Final = (
    Option(
        "connection.url",
        required=True,
        check=refused_by(lambda value: read_address({"connection.url": value})),
        documentation=(
            "The database: a JDBC URL or one of SQLAlchemy's form, of PostgreSQL, MariaDB, MySQL or SQLite;"
            " of others behind sqlalchemy: one of SQLAlchemy's form."
        ),
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
        "dialect.name",
        values=tuple(DIALECTS),
        documentation="May say of what database connection.url is; it cannot make another of it.",
    ),
    Option(
        "transaction.isolation.mode",
        default="DEFAULT",
        values=("DEFAULT", "READ_COMMITTED", "REPEATABLE_READ"),
        documentation="Each statement sees one moment of what is committed, whichever of these is set.",
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
        "incrementing.column.mapping",
        "list",
        "",
        check=_mapping_problem(number_of, "pattern:column"),
        form="`pattern:column`, ...",
        documentation="By table, in place of incrementing.column.name; the first pattern that fits the table's whole name counts.",
    ),
    Option(
        "timestamp.columns.mapping",
        "list",
        "",
        check=_mapping_problem(timestamps_of, "pattern:[column|column]"),
        form=r"`pattern:[column\|column]`, ...",
        documentation="By table, in place of timestamp.column.name; the first pattern that fits the table's whole name counts.",
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
    Option(
        "table.include.list",
        "list",
        "",
        check=_patterns_problem,
        form="regular expressions",
        documentation="Patterns of the only tables to read, each of which has to fit the whole name with catalog and schema.",
    ),
    Option(
        "table.exclude.list",
        "list",
        "",
        check=_patterns_problem,
        form="regular expressions",
        documentation="Patterns of the tables of table.include.list that are not read.",
    ),
    Option("catalog.pattern", documentation="The only catalog whose tables are read."),
    Option("schema.pattern", documentation="The only schema whose tables are read; % and _ as in LIKE."),
    Option("table.types", "list", "TABLE", check=_table_types_problem, documentation="TABLE, VIEW or both."),
    Option(
        "query",
        default="",
        documentation="A SELECT to read in place of tables. It may have a WHERE of its own.",
    ),
    Option("query.masked", "password", documentation="The same as query, hidden from answers and logs."),
    Option(
        "query.suffix",
        default="",
        documentation="What stands at the end of every statement that reads rows, such as LIMIT 1000.",
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
        values=("none", "precision_only", "best_fit", "best_fit_eager_double"),
        documentation="Which numeric columns become integers and doubles.",
        remark="`best_fit_eager_double` makes doubles also of those with more than 18 digits, whose last digits are lost then.",
    ),
    Option(
        "timestamp.granularity",
        default=LOGICAL,
        values=(LOGICAL, *GRANULARITIES),
        documentation="What a timestamp becomes: Connect's own, to the millisecond, or a number or text to the microsecond.",
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
    *(
        Option(name, kind, default, check=not_negative_long_problem, documentation=_NO_EFFECT)
        for name, kind, default in _WITHOUT_EFFECT
    ),
    Option(SHARE, documentation="Set by the connector for its tasks: which of how many a task is."),
)

FIXED: Final = (
    Option("quote.sql.identifiers", default="always", values=("always",), only="always"),
    Option("sql.quote.identifiers", default="true", values=("true",), only="true"),
    Option("table.names.qualify", default="true", values=("true",), only="true"),
    Option("query.retry.attempts", "int", default="-1", values=("-1",), only="-1"),
    Option("date.calendar.system", values=("PROLEPTIC_GREGORIAN",), only="PROLEPTIC_GREGORIAN"),
)
"""Identifiers are always quoted, and tables named with their schema or database. A statement that fails ends the task, which is
started again as `errors.retry.*` say. Dates are those of one calendar. Rows are sent as they are read."""
REFUSED: Final = (
    "incrementing.relaxed.monotonic",
    "jdbc.credentials.provider.class",
)
"""Options of one of the two well-known connectors, or of both, that are refused as every name is that nobody obeys."""
