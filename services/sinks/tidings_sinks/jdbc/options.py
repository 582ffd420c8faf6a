"""The options of Debezium's JDBC sink: those that are obeyed, and why others are refused. Pure."""

import re
from collections.abc import Mapping
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import (
    at_least_one_problem,
    not_negative_long_problem,
    not_negative_problem,
)
from tidings_sinks.jdbc.url import UrlError, read_url
from tidings_sinks.transactions.options import OPTIONS as TRANSACTION_OPTIONS
from tidings_sinks.transactions.options import check_transactions, is_wanted

URL: Final = "connection.url"
USER: Final = "connection.username"
PASSWORD: Final = "connection.password"  # noqa: S105 - an option's name
INSERT_MODE: Final = "insert.mode"
DELETE: Final = "delete.enabled"
TRUNCATE: Final = "truncate.enabled"
KEY_MODE: Final = "primary.key.mode"
KEY_FIELDS: Final = "primary.key.fields"
EVOLUTION: Final = "schema.evolution"
NAME_FORMAT: Final = "collection.name.format"
FORMER_NAME_FORMAT: Final = "table.name.format"
QUOTE: Final = "quote.identifiers"
BATCH: Final = "batch.size"
ZONE: Final = "use.time.zone"
FORMER_ZONE: Final = "database.time_zone"
INCLUDE: Final = "field.include.list"
EXCLUDE: Final = "field.exclude.list"
REDUCTION: Final = "use.reduction.buffer"
RETRIES: Final = "flush.max.retries"
RETRY_DELAY: Final = "flush.retry.delay.ms"
POSITIONS: Final = "tidings.positions.table"
LONGEST_RETRIES_MS: Final = 120_000
_ONE_CONNECTION: Final = "a task has one connection here, and no pool"
_NAMING: Final = "names are made by collection.name.format and by nothing else here"


def _url_problem(value: str) -> str | None:
    try:
        read_url(value)
    except UrlError as error:
        return str(error)
    return None


def zone_problem(value: str) -> str | None:
    """What is wrong with a zone's name, or None."""
    try:
        ZoneInfo(value.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "no time zone of that name is known"
    return None


def _table_problem(value: str) -> str | None:
    right = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?", value.strip())
    return (
        None
        if right
        else "a table's name is expected, perhaps with a schema's before it: letters, digits, underscores"
    )


OPTIONS: Final = (
    Option(
        URL,
        required=True,
        check=_url_problem,
        documentation="Which database: jdbc:postgresql://host:port/database, jdbc:mariadb://host:port/database, jdbc:sqlite:/path, or the URLs of SQLAlchemy; of another database sqlalchemy: and its URL of SQLAlchemy's form.",
    ),
    Option(USER, documentation="Who logs in to it."),
    Option(PASSWORD, "password", documentation="The user's password; in the URL it is refused."),
    Option(
        INSERT_MODE,
        default="insert",
        values=("insert", "upsert", "update"),
        documentation="What becomes of a record that is not a delete: a new row (insert), a row by its key (upsert), or a change of the row that has its key (update).",
    ),
    Option(
        DELETE,
        "boolean",
        "false",
        documentation="Whether deletes and tombstones delete the row of their key; needs primary.key.mode=record_key.",
    ),
    Option(TRUNCATE, "boolean", "false", documentation="Whether a TRUNCATE at the source empties the table."),
    Option(
        KEY_MODE,
        default="none",
        values=("none", "kafka", "record_key", "record_value", "record_header"),
        documentation="Where the columns of the primary key come from.",
    ),
    Option(
        KEY_FIELDS,
        "list",
        "",
        documentation="Which fields of the key, the value or the headers make the primary key; empty: all. The column's name of a key that is not a struct.",
    ),
    Option(
        EVOLUTION,
        default="none",
        values=("none", "basic"),
        documentation="Whether missing tables and columns are made (basic).",
    ),
    Option(
        NAME_FORMAT,
        default="${topic}",
        documentation="The table of a topic: ${topic} is the topic with its dots as underscores, ${source.schema} a field of the envelope's source. A dot parts schema and table.",
    ),
    Option(FORMER_NAME_FORMAT, documentation="The former name of collection.name.format."),
    Option(
        QUOTE,
        "boolean",
        "false",
        documentation="Whether names keep their case; otherwise they are as if not quoted: PostgreSQL makes them lower case.",
    ),
    Option(
        BATCH,
        "int",
        "500",
        check=at_least_one_problem,
        documentation="How many rows a statement has at most.",
    ),
    Option(
        ZONE,
        default="UTC",
        check=zone_problem,
        documentation="The zone in which a moment is written to a column that has no zone.",
    ),
    Option(FORMER_ZONE, check=zone_problem, documentation="The former name of use.time.zone."),
    Option(
        INCLUDE,
        "list",
        "",
        documentation="Fields that are written, as field or topic:field; key columns always are.",
    ),
    Option(EXCLUDE, "list", "", documentation="Fields that are not written, as field or topic:field."),
    Option(
        REDUCTION,
        "boolean",
        "false",
        documentation="Whether the changes of a row within a batch are written as one, the last.",
    ),
    Option(
        RETRIES,
        "int",
        "5",
        check=not_negative_problem,
        documentation="How often a batch is tried again at once when the database cannot take it just now (a deadlock, a lock); then it rests as errors.retry.delay.* says.",
    ),
    Option(
        RETRY_DELAY,
        "long",
        "1000",
        check=not_negative_long_problem,
        documentation="The pause before such an attempt, in milliseconds.",
    ),
    Option(
        "connection.restart.on.errors",
        "boolean",
        "true",
        check=lambda value: (
            None
            if value.strip().lower() == "true"
            else "a lost connection is always made again here: the positions stand in the database, so nothing is lost or doubled"
        ),
        documentation="Whether a lost connection is made again; it always is.",
    ),
    Option(
        "dialect.postgres.unnest.insert.enabled",
        "boolean",
        "false",
        documentation="Whether rows are written in bulk; they always are.",
    ),
    Option(
        POSITIONS,
        default="tidings_sink_positions",
        check=_table_problem,
        documentation="The table in the database that holds, for each partition, the offset up to which its records are written; made if it is missing.",
    ),
    *TRANSACTION_OPTIONS,
)
REFUSED: Final[Mapping[str, str]] = {
    "connection.pool.min_size": _ONE_CONNECTION,
    "connection.pool.max_size": _ONE_CONNECTION,
    "connection.pool.acquire_increment": _ONE_CONNECTION,
    "connection.pool.timeout": _ONE_CONNECTION,
    "connection.provider": _ONE_CONNECTION,
    "column.naming.strategy": _NAMING,
    "collection.naming.strategy": _NAMING,
    "table.naming.strategy": _NAMING,
    "collection.table.format": _NAMING,
    "dialect.postgres.postgis.schema": "columns of PostGIS are not written here",
    "dialect.sqlserver.identity.insert": "SQL Server is not spoken here",
    "cloudevents.schema.name.pattern": "Debezium's CloudEvents converter is not read here; the events of a translator need no option",
}
"""Debezium's options that nobody obeys here, and why."""


def option(name: str) -> Option:
    """An option of these, for a class that has it too."""
    return next(found for found in OPTIONS if found.name == name)


def value_of(config: Mapping[str, str], name: str) -> str:
    """An option's value, or its default."""
    given = config.get(name, "").strip()
    return given or next(option.default or "" for option in OPTIONS if option.name == name)


def items_of(config: Mapping[str, str], name: str) -> list[str]:
    """The values of a list."""
    return list(filter(None, (part.strip() for part in value_of(config, name).split(","))))


def is_on(config: Mapping[str, str], name: str) -> bool:
    """Whether a boolean option is true."""
    return value_of(config, name).lower() == "true"


def check(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with options that are right one by one, by option."""
    problems = check_transactions(config)

    def wrong(name: str, text: str) -> None:
        problems.setdefault(name, []).append(f"The '{name}' value is invalid: {text}")

    mode, keys = value_of(config, INSERT_MODE).lower(), value_of(config, KEY_MODE).lower()
    if mode in {"upsert", "update"} and keys == "none":
        wrong(INSERT_MODE, f"{mode} needs {KEY_MODE}, which says what the key is")
    if is_on(config, DELETE) and keys != "record_key":
        wrong(DELETE, f"deletes need {KEY_MODE}=record_key")
    if keys in {"none", "kafka"} and items_of(config, KEY_FIELDS):
        wrong(KEY_FIELDS, f"{KEY_MODE}={keys} has no fields to choose from")
    if keys == "record_header" and not items_of(config, KEY_FIELDS):
        wrong(KEY_FIELDS, f"{KEY_MODE}=record_header needs the names of headers")
    if is_on(config, REDUCTION) and is_wanted(config):
        wrong(REDUCTION, "whole transactions are written change by change, in the order of the source")
    for name, former in ((NAME_FORMAT, FORMER_NAME_FORMAT), (ZONE, FORMER_ZONE), (INCLUDE, EXCLUDE)):
        if config.get(name, "").strip() and config.get(former, "").strip():
            wrong(former, f"only one of {name} and {former} can be given")
    for name in (RETRIES, RETRY_DELAY):
        if not value_of(config, name).isdigit():
            return problems
    if int(value_of(config, RETRIES)) * int(value_of(config, RETRY_DELAY)) > LONGEST_RETRIES_MS:
        wrong(
            RETRIES,
            f"with {RETRY_DELAY} it makes pauses of more than two minutes, and a task that rests so long loses its partitions",
        )
    return problems
