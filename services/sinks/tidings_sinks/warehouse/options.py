"""The options of the warehouse sink, in the manner of the JDBC sinks: the names of both are taken. Pure."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import at_least_one_problem
from tidings_sinks.jdbc import options as jdbc

URL: Final = "connection.url"
NAME_FORMAT: Final = "table.name.format"
KEY_MODE: Final = "pk.mode"
KEY_FIELDS: Final = "pk.fields"
CREATE: Final = "auto.create"
EVOLVE: Final = "auto.evolve"
BATCH: Final = "batch.size"
FLUSH_INTERVAL: Final = "flush.interval.ms"
FLUSH_BYTES: Final = "flush.size.bytes"
STAGING: Final = "tidings.staging.directory"
SNAPSHOT: Final = "tidings.snapshot.file"
SNAPSHOT_INTERVAL: Final = "tidings.snapshot.interval.ms"
MEMORY: Final = "tidings.duckdb.memory.limit"
THREADS: Final = "tidings.duckdb.threads"
FORMER: Final = {
    "primary.key.mode": KEY_MODE,
    "primary.key.fields": KEY_FIELDS,
    "collection.name.format": NAME_FORMAT,
}
"""Names of Debezium's JDBC sink for options that the flat ones call otherwise."""
_SCHEMES: Final = ("jdbc:duckdb:", "duckdb:")
_SIZE: Final = re.compile(r"\d+(\.\d+)?\s*(KB|MB|GB|TB|KiB|MiB|GiB|TiB)", re.IGNORECASE)


def file_of(url: str) -> str | None:
    """The file that a URL names; None where it names none."""
    text = url.strip()
    for scheme in _SCHEMES:
        if text.lower().startswith(scheme):
            path = text[len(scheme) :]
            return path if path.startswith("/") and not path.endswith("/") else None
    return None


def _url_problem(value: str) -> str | None:
    return None if file_of(value) else "jdbc:duckdb:/directory/file is expected, with an absolute path"


def _path_problem(value: str) -> str | None:
    return None if not value.strip() or value.strip().startswith("/") else "an absolute path is expected"


def _size_problem(value: str) -> str | None:
    return None if _SIZE.fullmatch(value.strip()) else "a size such as 256MB is expected"


OPTIONS: Final = (
    Option(
        URL,
        required=True,
        check=_url_problem,
        documentation="The warehouse's file: jdbc:duckdb:/directory/file. It is made if it is missing; every worker that may run the task must have it.",
    ),
    jdbc.option(jdbc.INSERT_MODE),
    replace(
        jdbc.option(jdbc.DELETE),
        documentation="Whether deletes and tombstones delete the row of their key; needs pk.mode=record_key.",
    ),
    jdbc.option(jdbc.TRUNCATE),
    replace(jdbc.option(jdbc.KEY_MODE), name=KEY_MODE),
    replace(jdbc.option(jdbc.KEY_FIELDS), name=KEY_FIELDS),
    *(
        Option(former, default="", documentation=f"Debezium's name of {name}.")
        for former, name in FORMER.items()
    ),
    Option(CREATE, "boolean", "false", documentation="Whether missing tables are made."),
    Option(
        EVOLVE,
        "boolean",
        "false",
        documentation="Whether missing columns are added, and columns made wider that a record's type does not fit.",
    ),
    Option(
        jdbc.EVOLUTION,
        default="none",
        values=("none", "basic"),
        documentation="Debezium's name of both: basic is auto.create=true and auto.evolve=true.",
    ),
    Option(
        NAME_FORMAT,
        default="${topic}",
        documentation="The table of a topic: ${topic} is the topic with its dots as underscores, ${source.schema} a field of the envelope's source. A dot parts schema and table.",
    ),
    jdbc.option(jdbc.INCLUDE),
    jdbc.option(jdbc.EXCLUDE),
    Option(
        BATCH,
        "int",
        "50000",
        check=at_least_one_problem,
        documentation="How many records are merged at once at most.",
    ),
    Option(
        FLUSH_INTERVAL,
        "long",
        "10000",
        check=at_least_one_problem,
        documentation="How long a record waits for its merge at most, in milliseconds; the worker's offset.flush.interval.ms also ends it.",
    ),
    Option(
        FLUSH_BYTES,
        "long",
        "16777216",
        check=at_least_one_problem,
        documentation="How many bytes of records, as they stand in Kafka, wait for their merge at most.",
    ),
    Option(
        STAGING,
        default="",
        check=_path_problem,
        documentation="Where batches are staged as Parquet; empty: beside the warehouse's file, with .staging at its name's end.",
    ),
    Option(
        SNAPSHOT,
        default="",
        check=_path_problem,
        documentation="A copy of the warehouse for readers, put in place at once when it is whole; empty: none is made.",
    ),
    Option(
        SNAPSHOT_INTERVAL,
        "long",
        "60000",
        check=at_least_one_problem,
        documentation="How old the snapshot is at most before changes are copied to it, in milliseconds.",
    ),
    Option(
        MEMORY,
        default="256MB",
        check=_size_problem,
        documentation="How much memory DuckDB may use; what needs more goes to its files beside the warehouse.",
    ),
    Option(
        THREADS,
        "int",
        "2",
        check=at_least_one_problem,
        documentation="How many threads DuckDB may use.",
    ),
    jdbc.option(jdbc.RETRIES),
    jdbc.option(jdbc.RETRY_DELAY),
    jdbc.option(jdbc.POSITIONS),
)
REFUSED: Final[Mapping[str, str]] = {
    "connection.username": "a file of DuckDB has no users",
    "connection.user": "a file of DuckDB has no users",
    "connection.password": "a file of DuckDB has no users",
}
"""Options of JDBC sinks that nobody obeys here, and why."""
_DEFAULTS: Final = {option.name: option.default or "" for option in OPTIONS}
_MODES: Final = ("none", "kafka", "record_key", "record_value", "record_header")


def value_of(config: Mapping[str, str], name: str) -> str:
    """An option's value, or that of its other name, or its default."""
    given = config.get(name, "").strip()
    former = next((config.get(other, "").strip() for other, now in FORMER.items() if now == name), "")
    return given or former or _DEFAULTS[name]


def items_of(config: Mapping[str, str], name: str) -> list[str]:
    """The values of a list."""
    return list(filter(None, (part.strip() for part in value_of(config, name).split(","))))


def is_on(config: Mapping[str, str], name: str) -> bool:
    """Whether a boolean option is true."""
    return value_of(config, name).lower() == "true"


def evolves(config: Mapping[str, str], name: str) -> bool:
    """Whether `CREATE` or `EVOLVE` is meant by either name."""
    return is_on(config, name) or value_of(config, jdbc.EVOLUTION).lower() == "basic"


def check(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with options that are right one by one, by option."""
    problems: dict[str, list[str]] = {}

    def wrong(name: str, text: str) -> None:
        problems.setdefault(name, []).append(f"The '{name}' value is invalid: {text}")

    mode, keys = value_of(config, jdbc.INSERT_MODE).lower(), value_of(config, KEY_MODE).lower()
    if keys not in _MODES:
        wrong(next(iter(FORMER)), f"one of {', '.join(_MODES)} is expected")
    if mode in {"upsert", "update"} and keys == "none":
        wrong(jdbc.INSERT_MODE, f"{mode} needs {KEY_MODE}, which says what the key is")
    if is_on(config, jdbc.DELETE) and keys != "record_key":
        wrong(jdbc.DELETE, f"deletes need {KEY_MODE}=record_key")
    if keys in {"none", "kafka"} and items_of(config, KEY_FIELDS):
        wrong(KEY_FIELDS, f"{KEY_MODE}={keys} has no fields to choose from")
    if keys == "record_header" and not items_of(config, KEY_FIELDS):
        wrong(KEY_FIELDS, f"{KEY_MODE}=record_header needs the names of headers")
    for former, name in (*FORMER.items(), (jdbc.EXCLUDE, jdbc.INCLUDE)):
        if config.get(name, "").strip() and config.get(former, "").strip():
            wrong(former, f"only one of {name} and {former} can be given")
    snapshot = value_of(config, SNAPSHOT)
    if snapshot and snapshot == file_of(config.get(URL, "")):
        wrong(SNAPSHOT, "it is the warehouse itself")
    retries = int(value_of(config, jdbc.RETRIES)) * int(value_of(config, jdbc.RETRY_DELAY))
    if retries > jdbc.LONGEST_RETRIES_MS:
        wrong(
            jdbc.RETRIES,
            f"with {jdbc.RETRY_DELAY} it makes pauses of more than two minutes, and a task that rests so long loses its partitions",
        )
    return problems
