"""What a configuration of the search sink says, and how its indexes are called. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tidings_sinks.search import options as names
from tidings_sinks.search.options import is_on, is_stream, items_of, resources_of, urls_of, value_of

_ODD: Final = re.compile(r'[\\/*?"<>|\s,#:]')
_MOST_NAME_BYTES: Final = 255


class Behaviour(StrEnum):
    """What is done about something that is wrong with one record."""

    IGNORE = "ignore"
    WARN = "warn"
    REPORT = "report"
    FAIL = "fail"


class Nulls(StrEnum):
    """``behavior.on.null.values``."""

    IGNORE = "ignore"
    DELETE = "delete"
    FAIL = "fail"


class Strategy(StrEnum):
    """What identifies a document."""

    NONE = "none"
    KEY = "record.key"
    PLACE = "topic.partition.offset"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a configuration says."""

    urls: tuple[str, ...]
    user: str
    password: str = field(repr=False)
    tls: Mapping[str, str] = field(repr=False)
    """``ssl.*``, without what stands before."""
    trusts_all: bool
    connect_seconds: float
    read_seconds: float
    batch: int
    retries: int
    backoff_seconds: float
    most_seconds: float
    upserts: bool
    strategy: Strategy
    """Where the key is ignored."""
    ignores_keys: bool
    keyless_topics: frozenset[str]
    ignores_schemas: bool
    schemaless_topics: frozenset[str]
    compact: bool
    drops: bool
    nulls: Nulls
    malformed: Behaviour
    conflicts: Behaviour
    routes_by_key: bool
    routing_path: tuple[str, ...] | None
    """The steps of a JSON pointer."""
    streams: bool
    stream_prefix: str
    stream_time: str
    stream_template: str
    resource_kind: str
    resources: Mapping[str, str]
    id_header: str
    headers: tuple[str, ...]
    envelopes: bool

    def strategy_of(self, topic: str) -> Strategy:
        """What identifies a topic's documents."""
        if self.id_header:
            return Strategy.HEADER
        return self.strategy if self.ignores_keys or topic in self.keyless_topics else Strategy.KEY

    def takes_schema(self, topic: str) -> bool:
        """Whether a topic's schema decides on the mapping."""
        return not self.ignores_schemas and topic not in self.schemaless_topics

    @property
    def exists(self) -> bool:
        """Whether targets are there already, so that none is created."""
        return self.resource_kind != "none"

    def target(self, topic: str) -> str | None:
        """The name of a topic's index or data stream; None: it has none."""
        if self.exists:
            return self.resources.get(topic)
        name = index_name(topic)
        return f"{self.stream_prefix}-{name}" if self.streams and self.stream_prefix else name


def index_name(topic: str) -> str:
    """The index of a topic: in lower case, with underscores for what no index may be called."""
    name = _ODD.sub("_", topic.lower()).lstrip("-_+")
    if name in {".", ".."}:
        name = name.replace(".", "dot")
    return name.encode()[:_MOST_NAME_BYTES].decode(errors="ignore")


def read_settings(config: Mapping[str, str]) -> Settings:
    """What a configuration without problems says."""

    def value(name: str) -> str:
        return value_of(config, name)

    routing, path = value(names.ROUTING).lower(), value(names.ROUTING_PATH)
    prefix = f"{names.TLS}ssl."
    return Settings(
        urls=urls_of(value(names.URL)),
        user=value(names.USER),
        password=config.get(names.PASSWORD) or "",
        tls={
            name.removeprefix(names.TLS): text
            for name, text in config.items()
            if name.startswith(prefix) and (text or name.endswith("algorithm"))
        },
        trusts_all=is_on(config, names.TRUST_ALL),
        connect_seconds=int(value(names.CONNECT_TIMEOUT)) / 1000,
        read_seconds=int(value(names.READ_TIMEOUT)) / 1000,
        batch=int(value(names.BATCH)),
        retries=int(value(names.RETRIES)),
        backoff_seconds=int(value(names.BACKOFF)) / 1000,
        most_seconds=int(value(names.FLUSH_TIMEOUT)) / 1000,
        upserts=value(names.METHOD).lower() == "upsert",
        strategy=Strategy(value(names.STRATEGY).lower()),
        ignores_keys=is_on(config, names.KEY_IGNORE),
        keyless_topics=frozenset(items_of(config, names.KEY_TOPICS)),
        ignores_schemas=is_on(config, names.SCHEMA_IGNORE),
        schemaless_topics=frozenset(items_of(config, names.SCHEMA_TOPICS)),
        compact=is_on(config, names.COMPACT),
        drops=is_on(config, names.DROP),
        nulls=Nulls(value(names.NULLS).lower()),
        malformed=Behaviour(value(names.MALFORMED).lower()),
        conflicts=Behaviour(value(names.CONFLICTS).lower()),
        routes_by_key=routing == "key",
        routing_path=pointer(path) if routing == "value" else None,
        streams=is_stream(config),
        stream_prefix=value(names.STREAM_PREFIX).lower(),
        stream_time=value(names.STREAM_TIME),
        stream_template=value(names.STREAM_TEMPLATE),
        resource_kind=value(names.RESOURCE_TYPE).lower(),
        resources=resources_of(value(names.RESOURCES)),
        id_header=value(names.ID_HEADER),
        headers=items_of(config, names.HEADERS),
        envelopes=is_on(config, names.ENVELOPES),
    )


def pointer(text: str) -> tuple[str, ...]:
    """The steps of a JSON pointer (RFC 6901)."""
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])
