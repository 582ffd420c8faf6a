"""A connector's configuration as the engine uses it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Final
from zoneinfo import ZoneInfo

from tidings_connect.config.sink_options import sink_group
from tidings_sinks.jdbc import options as names
from tidings_sinks.jdbc.options import is_on, items_of, value_of
from tidings_sinks.jdbc.url import Address, read_url
from tidings_sinks.transactions.options import TransactionSettings, read_transaction_settings


class InsertMode(StrEnum):
    """``insert.mode``."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"


class KeyMode(StrEnum):
    """``primary.key.mode``."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"
    RECORD_HEADER = "record_header"


class Naming(Enum):
    """How a topic stands in the name of its table."""

    UNDERSCORES = auto()
    """With underscores for its dots."""
    AS_IT_IS = auto()
    """A dot of it parts schema and table."""
    NORMALIZED = auto()
    """With underscores for all but ASCII's letters and digits."""


@dataclass(frozen=True, slots=True)
class Words:
    """What a person has to write, in the words of the connector's class: for messages."""

    key_mode: str
    key_fields: str
    makes_tables: str
    adds_columns: str
    renaming: str
    """What tells two fields apart whose names differ in capitals only."""
    leaves_out: str


KAFKA_COLUMNS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
_WORDS: Final = Words(
    key_mode=names.KEY_MODE,
    key_fields=names.KEY_FIELDS,
    makes_tables=f"{names.EVOLUTION}=basic",
    adds_columns=f"{names.EVOLUTION}=basic",
    renaming=f"{names.QUOTE}=true, if the database tells capitals apart, or a transform that renames one",
    leaves_out=names.EXCLUDE,
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a configuration says."""

    group: str
    """The consumer group, under which positions are kept."""
    address: Address
    user: str | None
    password: str = field(repr=False)
    insert_mode: InsertMode
    deletes: bool
    truncates: bool
    key_mode: KeyMode
    key_fields: tuple[str, ...]
    makes_tables: bool
    adds_columns: bool
    name_format: str
    quotes: bool
    batch: int
    zone: ZoneInfo
    includes: frozenset[str]
    excludes: frozenset[str]
    reduces: bool
    retries: int
    retry_seconds: float
    positions: str
    words: Words = _WORDS
    flat: bool = False
    """Whether values are rows, and no envelopes."""
    skips_tombstones: bool = True
    """Whether a record without a value that deletes nothing is nothing; otherwise it is refused."""
    naming: Naming = Naming.UNDERSCORES
    tables: Mapping[str, str] = field(default_factory=dict)
    """Names of tables by topic, in place of the format's."""
    kafka_columns: tuple[str, ...] = KAFKA_COLUMNS
    """For topic, partition and offset, where they are the key."""
    transactions: TransactionSettings | None = None
    """Whether, and how, transactions of the source are kept together."""
    tolerates: bool = False
    """Whether rows that are refused are left out."""
    moments: bool = False
    """Whether Connect's Timestamp is a moment, which a column without a zone holds in `zone`."""

    def takes(self, topic: str, name: str) -> bool:
        """Whether a field of a value is written."""
        both = (name, f"{topic}:{name}")
        if self.includes:
            return not self.includes.isdisjoint(both)
        return self.excludes.isdisjoint(both)


def read_settings(connector: str, config: Mapping[str, str]) -> Settings:
    """What a configuration without problems says."""
    address = read_url(config[names.URL])
    return Settings(
        group=sink_group(connector, config),
        address=address,
        user=config.get(names.USER, "").strip() or address.user,
        password=config.get(names.PASSWORD, ""),
        insert_mode=InsertMode(value_of(config, names.INSERT_MODE).lower()),
        deletes=is_on(config, names.DELETE),
        truncates=is_on(config, names.TRUNCATE),
        key_mode=KeyMode(value_of(config, names.KEY_MODE).lower()),
        key_fields=tuple(items_of(config, names.KEY_FIELDS)),
        makes_tables=value_of(config, names.EVOLUTION).lower() == "basic",
        adds_columns=value_of(config, names.EVOLUTION).lower() == "basic",
        name_format=config.get(names.FORMER_NAME_FORMAT, "").strip() or value_of(config, names.NAME_FORMAT),
        quotes=is_on(config, names.QUOTE),
        batch=int(value_of(config, names.BATCH)),
        zone=ZoneInfo(config.get(names.FORMER_ZONE, "").strip() or value_of(config, names.ZONE)),
        includes=frozenset(items_of(config, names.INCLUDE)),
        excludes=frozenset(items_of(config, names.EXCLUDE)),
        reduces=is_on(config, names.REDUCTION),
        retries=int(value_of(config, names.RETRIES)),
        retry_seconds=int(value_of(config, names.RETRY_DELAY)) / 1000,
        positions=value_of(config, names.POSITIONS),
        transactions=read_transaction_settings(config),
        tolerates=config.get("errors.tolerance", "").strip().lower() == "all",
    )
