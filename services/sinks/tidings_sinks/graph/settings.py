"""What a configuration of the graph sink says. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings_connect.config.sink_options import sink_group
from tidings_sinks.graph import options as names
from tidings_sinks.graph.options import is_on, items_of, seconds_of, topics_with, value_of
from tidings_sinks.graph.patterns import (
    NodePattern,
    RelationshipPattern,
    RowPattern,
    parse_pattern,
    parse_row,
)


@dataclass(frozen=True, slots=True)
class Cypher:
    """Records of a topic are put to a statement."""

    statement: str
    word = "CYPHER"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Records of a topic are nodes or relationships."""

    pattern: NodePattern | RelationshipPattern

    @property
    def word(self) -> str:
        """As positions of Neo4j's own connector name it."""
        return "NODE_PATTERN" if isinstance(self.pattern, NodePattern) else "RELATIONSHIP_PATTERN"


@dataclass(frozen=True, slots=True)
class Cud:
    """Records of a topic say themselves what is to be done."""

    word = "CUD"


@dataclass(frozen=True, slots=True)
class Row:
    """Records of a topic are the rows of a table."""

    pattern: RowPattern
    word = "ROW"


Strategy = Cypher | Pattern | Cud | Row


@dataclass(frozen=True, slots=True)
class Binds:
    """By which names a statement or a pattern knows the parts of a record; an empty one: by none."""

    timestamp: str
    header: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in, and how."""

    kind: str
    principal: str
    credentials: str = field(repr=False)
    realm: str
    scheme: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What a configuration says."""

    group: str
    """The consumer group, under which positions are kept."""
    uris: tuple[str, ...]
    database: str
    login: Login
    encrypted: bool
    trust: str
    verifies_host: bool
    certificates: tuple[str, ...]
    connect_seconds: float
    pool: int
    acquisition_seconds: float
    lifetime_seconds: float
    idle_seconds: float | None
    retry_seconds: float
    batch: int
    most_queries: int
    offsets_label: str
    positions_label: str
    strategies: Mapping[str, Strategy]
    """By topic."""
    cypher_binds: Binds
    as_event: bool
    pattern_binds: Binds
    merges_nodes: bool
    merges_relationships: bool
    makes_constraints: bool
    placeholder: str
    decimals_as_float: bool
    flattens: bool
    semantic: bool


def read_settings(connector: str, config: Mapping[str, str]) -> Settings:
    """What a configuration without problems says."""

    def value(name: str) -> str:
        return value_of(config, name)

    def seconds(name: str) -> float:
        return seconds_of(value(name))

    return Settings(
        group=sink_group(connector, config),
        uris=items_of(config, names.URI),
        database=value(names.DATABASE),
        login=_login(config),
        encrypted=is_on(config, names.ENCRYPTED),
        trust=value(names.TRUST).upper(),
        verifies_host=is_on(config, names.VERIFY),
        certificates=items_of(config, names.CERTIFICATES),
        connect_seconds=seconds(names.CONNECT_TIMEOUT),
        pool=int(value(names.POOL)),
        acquisition_seconds=seconds(names.ACQUISITION),
        lifetime_seconds=seconds(names.LIFETIME),
        idle_seconds=seconds(names.IDLE) if value(names.IDLE) else None,
        retry_seconds=seconds(names.RETRY_TIME),
        batch=int(value(names.BATCH)),
        most_queries=int(value(names.MOST_QUERIES)),
        offsets_label=value(names.OFFSETS),
        positions_label=value(names.POSITIONS),
        strategies=_strategies(config),
        cypher_binds=_binds(config, names.CYPHER_BINDS),
        as_event=is_on(config, names.AS_EVENT),
        pattern_binds=_binds(config, names.PATTERN_BINDS),
        merges_nodes=is_on(config, names.MERGE_NODES),
        merges_relationships=is_on(config, names.MERGE_RELATIONSHIPS),
        makes_constraints=is_on(config, names.CONSTRAINTS),
        placeholder=value(names.PLACEHOLDER),
        decimals_as_float=value(names.DECIMALS).lower() == "float",
        flattens=value(names.DOCUMENTS).lower() == "flatten",
        semantic=is_on(config, names.SEMANTIC),
    )


def _strategies(config: Mapping[str, str]) -> dict[str, Strategy]:
    found: dict[str, Strategy] = {
        topic: Cypher(text.strip()) for topic, text in topics_with(config, names.CYPHER).items()
    }
    found |= {
        topic: Pattern(parse_pattern(text)) for topic, text in topics_with(config, names.PATTERN).items()
    }
    found |= {topic: Row(parse_row(text)) for topic, text in topics_with(config, names.ROW).items()}
    return found | {topic: Cud() for topic in items_of(config, names.CUD)}


def _binds(config: Mapping[str, str], prefix: str) -> Binds:
    return Binds(**{what: value_of(config, f"{prefix}{what}-as") for what in names.BINDS})


def _login(config: Mapping[str, str]) -> Login:
    def value(name: str) -> str:
        return value_of(config, name)

    kind = value(names.AUTH).upper()
    match kind:
        case "BASIC":
            return Login(kind, value(names.USER), value(names.PASSWORD), value(names.REALM), "basic")
        case "KERBEROS":
            return Login(kind, "", value(names.TICKET), "", "kerberos")
        case "BEARER":
            return Login(kind, "", value(names.TOKEN), "", "bearer")
        case "CUSTOM":
            return Login(
                kind,
                value(names.CUSTOM_PRINCIPAL),
                value(names.CUSTOM_CREDENTIALS),
                value(names.CUSTOM_REALM),
                value(names.CUSTOM_SCHEME),
            )
        case _:
            return Login(kind, "", "", "", "none")
