"""The options of the two well-known JDBC sinks for flat records, Confluent's and Aiven's: obeyed, or refused by name. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from zoneinfo import ZoneInfo

from tidings_connect.config.option import Option
from tidings_connect.config.sink_options import sink_group
from tidings_sinks.jdbc.options import PASSWORD, URL, option, zone_problem
from tidings_sinks.jdbc.settings import KAFKA_COLUMNS as _KAFKA_COLUMNS
from tidings_sinks.jdbc.settings import InsertMode, KeyMode, Naming, Settings, Words
from tidings_sinks.jdbc.url import UrlError, read_url

USER: Final = "connection.user"
DIALECT: Final = "dialect.name"
INSERT_MODE: Final = "insert.mode"
BATCH: Final = "batch.size"
DELETE: Final = "delete.enabled"
TABLE_TYPES: Final = "table.types"
NAME_FORMAT: Final = "table.name.format"
KEY_MODE: Final = "pk.mode"
KEY_FIELDS: Final = "pk.fields"
WHITELIST: Final = "fields.whitelist"
ZONE: Final = "db.timezone"
CREATE: Final = "auto.create"
EVOLVE: Final = "auto.evolve"
RETRIES: Final = "max.retries"
RETRY_DELAY: Final = "retry.backoff.ms"
QUOTE: Final = "quote.sql.identifiers"
AIVEN_QUOTE: Final = "sql.quote.identifiers"
NORMALIZE: Final = "table.name.normalize"
MAPPING: Final = "topics.to.tables.mapping"
SKIP_TOMBSTONES: Final = "handle.tombstone"
POSITIONS: Final = "tidings.positions.table"
_LONGEST_RETRIES_MS: Final = 120_000
_DIALECTS: Final = {
    "PostgreSqlDatabaseDialect": "postgresql",
    "MySqlDatabaseDialect": "mariadb",
    "SqliteDatabaseDialect": "sqlite",
}
_TYPES: Final = ("TABLE", "PARTITIONED TABLE", "VIEW")


def _one_of(*values: str) -> Callable[[str], str | None]:
    """In lower case or in capitals, as in the reference."""
    allowed = {*values, *(value.upper() for value in values)}
    return lambda value: None if value.strip() in allowed else "Invalid enumerator"


def _at_least(least: int) -> Callable[[str], str | None]:
    return lambda value: None if int(value) >= least else f"Value must be at least {least}"


def _zone(value: str) -> str | None:
    return "Invalid time zone identifier" if zone_problem(value) else None


def _dialect(value: str) -> str | None:
    known = ", ".join(_DIALECTS)
    return None if value.strip() in _DIALECTS else f"Invalid dialect; there are {known} here"


def _types(value: str) -> str | None:
    wrong = [part for part in _parts(value) if part.upper() not in _TYPES]
    return f"Invalid table type; there are {', '.join(_TYPES)}" if wrong else None


def _mapping(value: str) -> str | None:
    wrong = [part for part in _parts(value) if len(list(filter(None, part.split(":")))) != 2]
    return "Invalid topics to tables mapping" if wrong else None


def _parts(value: str) -> list[str]:
    return list(filter(None, (part.strip() for part in value.split(","))))


_SHARED: Final = (
    option(URL),
    Option(USER, documentation="Who logs in to it."),
    option(PASSWORD),
    Option(
        DIALECT,
        default="",
        check=_dialect,
        form=", ".join(f"`{name}`" for name in _DIALECTS),
        documentation="Which database it is; empty: as connection.url says, which it has to agree with.",
    ),
    Option(
        BATCH,
        "int",
        "3000",
        check=_at_least(0),
        documentation="How many rows a statement has at most; 0 is 1.",
    ),
    Option(
        DELETE,
        "boolean",
        "false",
        documentation="Whether a record without a value deletes the row of its key; needs pk.mode=record_key. If not, such a record is an error.",
    ),
    Option(
        NAME_FORMAT,
        default="${topic}",
        documentation="The table of a topic: ${topic} is the topic. A dot parts schema and table.",
    ),
    Option(
        KEY_MODE,
        default="none",
        check=_one_of("none", "kafka", "record_key", "record_value"),
        form="`none`, `kafka`, `record_key`, `record_value`",
        documentation="Where the columns of the primary key come from.",
    ),
    Option(
        KEY_FIELDS,
        "list",
        "",
        documentation="Which fields of the key or the value make the primary key; empty: all. The column's name of a key that is not a struct; with pk.mode=kafka the names of three columns, for topic, partition and offset.",
    ),
    Option(
        WHITELIST,
        "list",
        "",
        documentation="The fields of the value that are written; empty: all. Key columns always are.",
    ),
    Option(
        ZONE,
        default="UTC",
        check=_zone,
        documentation="The zone in which a moment is written to a column that has no zone.",
    ),
    Option(CREATE, "boolean", "false", documentation="Whether a missing table is made."),
    Option(EVOLVE, "boolean", "false", documentation="Whether missing columns are added to a table."),
    Option(
        RETRIES,
        "int",
        "10",
        check=_at_least(0),
        documentation="How often a batch is tried again at once when the database cannot take it just now (a deadlock, a lock); then it rests as errors.retry.delay.* says.",
    ),
    Option(
        RETRY_DELAY,
        "int",
        "3000",
        check=_at_least(0),
        documentation="The pause before such an attempt, in milliseconds.",
    ),
    option(POSITIONS),
)
CONFLUENT: Final = (
    *_SHARED,
    Option(
        INSERT_MODE,
        default="insert",
        check=_one_of("insert", "upsert", "update"),
        form="`insert`, `upsert`, `update`",
        documentation="What becomes of a record with a value: a new row (insert), a row by its key (upsert), or a change of the row that has its key (update).",
    ),
    Option(
        QUOTE,
        default="ALWAYS",
        check=_one_of("always", "never"),
        form="`ALWAYS`, `NEVER`",
        documentation="Whether names keep their case; otherwise they are as if not quoted: PostgreSQL makes them lower case.",
    ),
    Option(
        TABLE_TYPES,
        "list",
        "TABLE",
        check=_types,
        documentation="TABLE, PARTITIONED TABLE, VIEW; makes no difference: all of them are written to.",
    ),
    Option(
        "connection.attempts",
        "int",
        "3",
        check=_at_least(1),
        documentation="Makes no difference: a connection is tried without end, and the partitions rest meanwhile.",
    ),
    Option(
        "connection.backoff.ms",
        "long",
        "10000",
        documentation="Makes no difference; errors.retry.delay.* says how long a pause is.",
    ),
    Option(
        "db.timezone.date",
        default="NONE",
        check=_one_of("none", "utc"),
        form="`NONE`, `UTC`",
        documentation="Makes no difference: a date is not a moment, and is never moved to another zone.",
    ),
    Option(
        "trim.sensitive.log",
        "boolean",
        "false",
        documentation="Makes no difference: no value stands in the log.",
    ),
)
AIVEN: Final = (
    *_SHARED,
    Option(
        INSERT_MODE,
        default="insert",
        check=_one_of("insert", "multi", "upsert", "update"),
        form="`insert`, `multi`, `upsert`, `update`",
        documentation="What becomes of a record with a value: a new row (insert, and multi, which is the same here), a row by its key (upsert), or a change of the row that has its key (update).",
    ),
    Option(
        AIVEN_QUOTE,
        "boolean",
        "true",
        documentation="Whether names keep their case; otherwise they are as if not quoted: PostgreSQL makes them lower case.",
    ),
    Option(
        NORMALIZE,
        "boolean",
        "false",
        documentation="Whether all but ASCII's letters, digits and underscores are underscores in the table's name.",
    ),
    Option(
        MAPPING,
        "list",
        "",
        check=_mapping,
        documentation="The tables of topics, as topic:table, in place of table.name.format.",
    ),
    Option(
        SKIP_TOMBSTONES,
        "boolean",
        "false",
        documentation="Whether a record without a value is left out where deletes are not enabled; otherwise it is an error.",
    ),
)
_SQL_SERVER: Final = "SQL Server is not spoken here"
REFUSED: Final[Mapping[str, str]] = {"mssql.use.merge.holdlock": _SQL_SERVER}
"""Options that nobody obeys here, and why."""
_WORDS: Final = Words(
    key_mode=KEY_MODE,
    key_fields=KEY_FIELDS,
    makes_tables=f"{CREATE}=true",
    adds_columns=f"{EVOLVE}=true",
    renaming="quoting of identifiers, if the database tells capitals apart, or a transform that renames one",
    leaves_out=WHITELIST,
)


class _Given:
    """Values of options, or their defaults."""

    def __init__(self, config: Mapping[str, str], options: Sequence[Option]) -> None:
        self._config = config
        self._defaults = {option.name: option.default or "" for option in options}

    def text(self, name: str) -> str:
        return self._config.get(name, "").strip() or self._defaults.get(name, "")

    def is_on(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def parts(self, name: str) -> tuple[str, ...]:
        return tuple(_parts(self.text(name)))


def check_together(config: Mapping[str, str], options: Sequence[Option]) -> dict[str, list[str]]:
    """What is wrong with options that are right one by one, by option; in the references' words where they say it."""
    given = _Given(config, options)
    problems: dict[str, list[str]] = {}
    keys, mode = given.text(KEY_MODE).lower(), given.text(INSERT_MODE).lower()
    fields = given.parts(KEY_FIELDS)
    if given.is_on(DELETE) and keys != "record_key":
        if options is AIVEN:
            problems[DELETE] = ["Delete support only works with pk.mode=record_key"]
        else:
            problems[KEY_MODE] = [
                f"'{given.text(KEY_MODE)}' is invalid: Deletes are only supported for pk.mode 'record_key'"
            ]
    if mode in {"upsert", "update"} and keys == "none":
        problems[INSERT_MODE] = [f"{mode} needs {KEY_MODE}, which says what the key is"]
    if keys == "kafka" and len(fields) not in {0, 3}:
        problems[KEY_FIELDS] = [
            "Primary key fields must be set with three fields (topic, partition, offset) when pkMode is 'kafka'."
        ]
    dialect = _DIALECTS.get(given.text(DIALECT))
    if dialect is not None and dialect != _dialect_of(config.get(URL, "")):
        problems[DIALECT] = [f"{given.text(DIALECT)} is not what {URL} names"]
    numbers = [given.text(name) for name in (RETRIES, RETRY_DELAY)]
    if all(text.isdigit() for text in numbers) and int(numbers[0]) * int(numbers[1]) > _LONGEST_RETRIES_MS:
        problems[RETRIES] = [
            f"with {RETRY_DELAY} it makes pauses of more than two minutes, and a task that rests so long loses its partitions"
        ]
    return problems


def _dialect_of(url: str) -> str | None:
    try:
        return read_url(url).dialect
    except UrlError:
        return None


def read_flat_settings(connector: str, config: Mapping[str, str], options: Sequence[Option]) -> Settings:
    """What a configuration without problems says."""
    given = _Given(config, options)
    address = read_url(config[URL])
    mode, keys = given.text(INSERT_MODE).lower(), KeyMode(given.text(KEY_MODE).lower())
    fields = given.parts(KEY_FIELDS)
    of_kafka = keys is KeyMode.KAFKA
    return Settings(
        group=sink_group(connector, config),
        address=address,
        user=given.text(USER) or address.user,
        password=config.get(PASSWORD, ""),
        insert_mode=InsertMode.INSERT if mode == "multi" else InsertMode(mode),
        deletes=given.is_on(DELETE),
        truncates=False,
        key_mode=keys,
        key_fields=() if of_kafka or keys is KeyMode.NONE else fields,
        makes_tables=given.is_on(CREATE),
        adds_columns=given.is_on(EVOLVE),
        name_format=given.text(NAME_FORMAT),
        quotes=given.text(QUOTE).upper() == "ALWAYS" or given.is_on(AIVEN_QUOTE),
        batch=max(1, int(given.text(BATCH))),
        zone=ZoneInfo(given.text(ZONE)),
        includes=frozenset(given.parts(WHITELIST)),
        excludes=frozenset(),
        reduces=False,
        retries=int(given.text(RETRIES)),
        retry_seconds=int(given.text(RETRY_DELAY)) / 1000,
        positions=given.text(POSITIONS),
        words=_WORDS,
        flat=True,
        skips_tombstones=given.is_on(SKIP_TOMBSTONES),
        naming=Naming.NORMALIZED if given.is_on(NORMALIZE) else Naming.AS_IT_IS,
        tables=dict(part.split(":") for part in given.parts(MAPPING)),
        kafka_columns=fields if of_kafka and fields else _KAFKA_COLUMNS,
        moments=True,
    )
