"""A connector's configuration as the engine uses it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from zoneinfo import ZoneInfo

from tidings_connect.config.sink_options import sink_group
from tidings_sinks.jdbc import options as names
from tidings_sinks.jdbc.options import is_on, items_of, value_of
from tidings_sinks.jdbc.url import Address, read_url


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
    evolves: bool
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
        evolves=value_of(config, names.EVOLUTION).lower() == "basic",
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
    )
