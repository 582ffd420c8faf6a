"""The options of the graph sink: those of Neo4j's own connector by their names, obeyed or refused. Pure."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import at_least_one_problem, refused_by
from tidings_sinks.graph.patterns import parse_pattern, parse_row

URI: Final = "neo4j.uri"
DATABASE: Final = "neo4j.database"
AUTH: Final = "neo4j.authentication.type"
USER: Final = "neo4j.authentication.basic.username"
PASSWORD: Final = "neo4j.authentication.basic.password"  # noqa: S105 - the option's name
REALM: Final = "neo4j.authentication.basic.realm"
TICKET: Final = "neo4j.authentication.kerberos.ticket"
TOKEN: Final = "neo4j.authentication.bearer.token"  # noqa: S105 - the option's name
CUSTOM_SCHEME: Final = "neo4j.authentication.custom.scheme"
CUSTOM_PRINCIPAL: Final = "neo4j.authentication.custom.principal"
CUSTOM_CREDENTIALS: Final = "neo4j.authentication.custom.credentials"
CUSTOM_REALM: Final = "neo4j.authentication.custom.realm"
ENCRYPTED: Final = "neo4j.security.encrypted"
TRUST: Final = "neo4j.security.trust-strategy"
VERIFY: Final = "neo4j.security.hostname-verification-enabled"
CERTIFICATES: Final = "neo4j.security.cert-files"
CONNECT_TIMEOUT: Final = "neo4j.connection-timeout"
POOL: Final = "neo4j.pool.max-connection-pool-size"
ACQUISITION: Final = "neo4j.pool.connection-acquisition-timeout"
LIFETIME: Final = "neo4j.pool.max-connection-lifetime"
IDLE: Final = "neo4j.pool.idle-time-before-connection-test"
RETRY_TIME: Final = "neo4j.max-retry-time"
BATCH: Final = "neo4j.batch-size"
BATCH_TIMEOUT: Final = "neo4j.batch-timeout"
MOST_QUERIES: Final = "neo4j.max-batched-queries"
OFFSETS: Final = "neo4j.eos-offset-label"
CYPHER: Final = "neo4j.cypher.topic."
PATTERN: Final = "neo4j.pattern.topic."
CUD: Final = "neo4j.cud.topics"
ROW: Final = "tidings.row.topic."
CYPHER_BINDS: Final = "neo4j.cypher.bind-"
PATTERN_BINDS: Final = "neo4j.pattern.bind-"
BINDS: Final = {"timestamp": "__timestamp", "header": "__header", "key": "__key", "value": "__value"}
AS_EVENT: Final = "neo4j.cypher.bind-value-as-event"
MERGE_NODES: Final = "neo4j.pattern.merge-node-properties"
MERGE_RELATIONSHIPS: Final = "neo4j.pattern.merge-relationship-properties"
CONSTRAINTS: Final = "tidings.constraints"
PLACEHOLDER: Final = "tidings.placeholder.label"
POSITIONS: Final = "tidings.positions.label"
DECIMALS: Final = "tidings.decimals"
DOCUMENTS: Final = "tidings.documents"
SEMANTIC: Final = "tidings.semantic.types"
FAMILIES: Final = (CYPHER, PATTERN, ROW)

_CDC: Final = "changes that Neo4j's own change data capture has written are not read here; take a statement of Cypher, or a pattern"
REFUSED: Final[Mapping[str, str]] = dict.fromkeys(
    (
        "neo4j.cdc.source-id.topics",
        "neo4j.cdc.source-id.label-name",
        "neo4j.cdc.source-id.property-name",
        "neo4j.cdc.schema.topics",
    ),
    _CDC,
)
_DURATION: Final = re.compile(r"(?:\d+(?:ms|s|m|h|d))+")
_PART: Final = re.compile(r"(\d+)(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SCHEMES: Final = frozenset(f"{base}{more}" for base in ("neo4j", "bolt") for more in ("", "+s", "+ssc"))


def seconds_of(value: str) -> float:
    """Seconds of a duration, such as ``1m30s``."""
    return sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(value))


def _duration(value: str) -> str | None:
    if _DURATION.fullmatch(value):
        return None
    return "A duration is expected, such as 30s or 1m30s, with the units ms, s, m, h and d"


def _uri(value: str) -> str | None:
    for uri in filter(None, (part.strip() for part in value.split(","))):
        parts = urlsplit(uri)
        try:
            good = parts.scheme in _SCHEMES and parts.hostname and (parts.port or 1) > 0
        except ValueError:  # the port is no number
            good = False
        if not good:
            return "URIs are neo4j://host:port, with neo4j+s, neo4j+ssc, bolt, bolt+s or bolt+ssc before it, and commas between"
        if parts.username or parts.password:
            return f"A login belongs into {USER} and {PASSWORD}"
    return None


def _files(value: str) -> str | None:
    missing = [
        name for name in (part.strip() for part in value.split(",")) if name and not Path(name).is_file()
    ]
    return f"There is no file {missing[0]}" if missing else None


def _bound(prefix: str) -> tuple[Option, ...]:
    return tuple(
        Option(
            f"{prefix}{what}-as",
            "string",
            name,
            documentation=f"The name by which the record's {what} is known; empty: none.",
        )
        for what, name in BINDS.items()
    )


OPTIONS: Final = (
    Option(URI, "list", required=True, check=_uri, documentation="Where the server is: neo4j://host:port; several members of one cluster with commas between."),
    Option(DATABASE, "string", "", documentation="The database; empty: the user's home database."),
    Option(AUTH, "string", "BASIC", values=("NONE", "BASIC", "KERBEROS", "BEARER", "CUSTOM"), documentation="How to log in."),
    Option(USER, "string", "", documentation="The user, with BASIC."),
    Option(PASSWORD, "password", "", documentation="The user's password."),
    Option(REALM, "string", "", documentation="The user's realm."),
    Option(TICKET, "password", "", documentation="The ticket, with KERBEROS."),
    Option(TOKEN, "password", "", documentation="The token, with BEARER."),
    Option(CUSTOM_SCHEME, "string", "", documentation="The scheme, with CUSTOM."),
    Option(CUSTOM_PRINCIPAL, "string", "", documentation="Who it is, with CUSTOM."),
    Option(CUSTOM_CREDENTIALS, "password", "", documentation="What proves it, with CUSTOM."),
    Option(CUSTOM_REALM, "string", "", documentation="The realm, with CUSTOM."),
    Option(ENCRYPTED, "boolean", "false", documentation="Whether TLS is used, where the URI does not say so."),
    Option(TRUST, "string", "TRUST_SYSTEM_CA_SIGNED_CERTIFICATES", values=("TRUST_ALL_CERTIFICATES", "TRUST_SYSTEM_CA_SIGNED_CERTIFICATES", "TRUST_CUSTOM_CA_SIGNED_CERTIFICATES"), documentation="Whom to trust, with TLS by neo4j.security.encrypted."),
    Option(VERIFY, "boolean", "true", documentation="Whether the certificate has to name the host."),
    Option(CERTIFICATES, "list", "", check=_files, documentation="The authorities' certificates (PEM), with TRUST_CUSTOM_CA_SIGNED_CERTIFICATES."),
    Option(CONNECT_TIMEOUT, "string", "30s", check=_duration, documentation="How long to wait for a connection."),
    Option(POOL, "int", "100", check=at_least_one_problem, documentation="How many connections there are at most; a task needs one."),
    Option(ACQUISITION, "string", "1m", check=_duration, documentation="How long to wait for a connection of the pool."),
    Option(LIFETIME, "string", "1h", check=_duration, documentation="How old a connection grows."),
    Option(IDLE, "string", "", check=_duration, documentation="How long a connection may be idle before it is tested; empty: it is not."),
    Option(RETRY_TIME, "string", "30s", check=_duration, documentation="How long deadlocks and a busy server are tried again in place; then the partitions rest, and it goes on without end."),
    Option(BATCH, "int", "1000", check=at_least_one_problem, documentation="How many records a statement takes at most."),
    Option(BATCH_TIMEOUT, "string", "0s", check=_duration, documentation="Taken: the connector it comes from makes no use of it either."),
    Option(MOST_QUERIES, "int", "50", check=at_least_one_problem, documentation="How many different statements are put into one at most, where records ask for different ones in turn."),
    Option(OFFSETS, "string", "", documentation="The label of the nodes that hold positions as Neo4j's own connector has them; empty: our own nodes do."),
    *_bound(CYPHER_BINDS),
    Option(AS_EVENT, "boolean", "true", documentation="Whether the record's value is known as event, too."),
    *_bound(PATTERN_BINDS),
    Option(MERGE_NODES, "boolean", "false", documentation="Whether a node's other properties stay when a pattern writes it; otherwise they are replaced."),
    Option(MERGE_RELATIONSHIPS, "boolean", "false", documentation="The same of relationships."),
    Option(CUD, "list", "", documentation="The topics whose records say what to create, update and delete (Neo4j's CUD format)."),
    Option(CONSTRAINTS, "boolean", "true", documentation="Whether the constraints and indexes are made that the keys of tidings.row.topic.* need."),
    Option(PLACEHOLDER, "string", "Placeholder", documentation="The label of nodes of which only foreign keys tell, as their own row has not come yet, or is deleted."),
    Option(POSITIONS, "string", "TidingsPosition", documentation="The label of the nodes that hold where partitions go on."),
    Option(DECIMALS, "string", "text", values=("text", "float"), documentation="What decimals are: text with all their digits, or floating point numbers."),
    Option(DOCUMENTS, "string", "json", values=("json", "flatten"), documentation="What objects in a row are: text of JSON, or a property for each of their members, with dots between names."),
    Option(SEMANTIC, "boolean", "false", documentation="Whether Debezium's dates, times and decimals are Neo4j's types for Cypher, patterns and CUD also."),
)  # fmt: skip
_DEFAULTS: Final = {option.name: option.default or "" for option in OPTIONS}


def value_of(config: Mapping[str, str], name: str) -> str:
    """An option's value; its default where it is left out. An empty name is an answer: of what is bound to none."""
    found = config.get(name)
    if found is None or (not found.strip() and not name.endswith("-as")):
        found = _DEFAULTS[name]
    return found.strip()


def items_of(config: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The items of a list."""
    return tuple(filter(None, (part.strip() for part in value_of(config, name).split(","))))


def is_on(config: Mapping[str, str], name: str) -> bool:
    """Whether an option is true."""
    return value_of(config, name).lower() == "true"


def topics_with(config: Mapping[str, str], family: str) -> dict[str, str]:
    """What the options of a family say, by topic."""
    return {name.removeprefix(family): text for name, text in config.items() if name.startswith(family)}


_PARSERS: Final = {PATTERN: refused_by(parse_pattern), ROW: refused_by(parse_row)}
_NEEDED: Final = {
    "BASIC": (USER, PASSWORD),
    "KERBEROS": (TICKET,),
    "BEARER": (TOKEN,),
    "CUSTOM": (CUSTOM_SCHEME, CUSTOM_PRINCIPAL, CUSTOM_CREDENTIALS),
}


def check_families(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with the options that name a topic."""
    found: dict[str, list[str]] = {}
    for family in FAMILIES:
        for topic, text in topics_with(config, family).items():
            parse = _PARSERS.get(family)
            wrong = (
                "A statement is expected" if not text.strip() else parse(text) if parse is not None else None
            )
            if wrong is not None:
                found.setdefault(f"{family}{topic}", []).append(
                    f"The '{family}{topic}' value is invalid: {wrong}"
                )
    return found


def check_together(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What options say that does not go together, by option."""
    found: dict[str, list[str]] = {}
    for name in _NEEDED.get(value_of(config, AUTH).upper(), ()):
        if not value_of(config, name):
            found[name] = [f"{name} is needed by {AUTH}={value_of(config, AUTH).upper()}"]
    custom = value_of(config, TRUST).upper() == "TRUST_CUSTOM_CA_SIGNED_CERTIFICATES"
    if is_on(config, ENCRYPTED) and custom and not items_of(config, CERTIFICATES):
        found[CERTIFICATES] = [f"{CERTIFICATES} is needed by {TRUST}"]
    if not is_on(config, AS_EVENT) and not any(
        value_of(config, f"{CYPHER_BINDS}{what}-as") for what in BINDS
    ):
        found[AS_EVENT] = ["At least one variable binding must be specified for Cypher strategies."]
    _check_topics(config, found)
    return found


def _check_topics(config: Mapping[str, str], found: dict[str, list[str]]) -> None:
    """Each topic has one strategy, and each strategy a topic that is read."""
    asked = [(f"{family}{topic}", topic) for family in FAMILIES for topic in topics_with(config, family)]
    asked += [(CUD, topic) for topic in items_of(config, CUD)]
    seen: dict[str, str] = {}
    for name, topic in asked:
        if topic in seen:
            found.setdefault(name, []).append(f"Topic {topic} has two strategies: {seen[topic]} and {name}")
        seen[topic] = name
    if config.get("transforms", "").strip():
        return  # which may give topics other names
    read = [topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()]
    if not read:  # an expression, which may match any
        if not seen:
            found.setdefault("topics.regex", []).append(
                "No topic has a strategy: neo4j.cypher.topic.*, or another of its kind"
            )
        return
    for topic in read:
        if topic not in seen:
            found.setdefault("topics", []).append(
                f"Topic {topic} has no strategy: {CYPHER}{topic}, or another of its kind"
            )
    for topic, name in seen.items():
        if topic not in read:
            found.setdefault(name, []).append(f"Topic {topic} is not among topics")
