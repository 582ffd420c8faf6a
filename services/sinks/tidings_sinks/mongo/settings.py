"""What a configuration of the MongoDB sink says, for the whole and for each topic. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tidings_connect.config.sink_options import sink_group
from tidings_sinks.mongo import options as names
from tidings_sinks.mongo.options import is_on, items_of, topics_overridden, value_of


class Id(StrEnum):
    """``document.id.strategy``, without what all their names share."""

    OBJECT_ID = "BsonOid"
    UUID = "Uuid"
    KEY = "FullKey"
    PARTIAL_KEY = "PartialKey"
    PARTIAL_VALUE = "PartialValue"
    IN_KEY = "ProvidedInKey"
    IN_VALUE = "ProvidedInValue"
    UUID_IN_KEY = "UuidProvidedInKey"
    UUID_IN_VALUE = "UuidProvidedInValue"
    PLACE = "KafkaMetaData"
    HEADER = "header"
    """Ours: ``tidings.id.header``."""


class Write(StrEnum):
    """``writemodel.strategy`` and ``delete.writemodel.strategy``, likewise."""

    REPLACE = "ReplaceOneDefault"
    REPLACE_BUSINESS = "ReplaceOneBusinessKey"
    UPDATE = "UpdateOneDefault"
    UPDATE_TIMES = "UpdateOneTimestamps"
    UPDATE_BUSINESS_TIMES = "UpdateOneBusinessKeyTimestamp"
    INSERT = "InsertOneDefault"
    DELETE = "DeleteOneDefault"
    DELETE_BUSINESS = "DeleteOneBusinessKey"
    DELETE_TOMBSTONE_BUSINESS = "DeleteOneTombstoneBusinessKey"


class Tolerance(StrEnum):
    """What is done about a bad record."""

    FRAMEWORK = "framework"
    """What ``errors.tolerance`` says."""
    NONE = "none"
    ALL = "all"


class Values(StrEnum):
    """``tidings.values``."""

    BSON = "bson"
    TEXT = "text"
    CONNECT = "connect"


_KEYED: Final = frozenset((Id.KEY, Id.PARTIAL_KEY, Id.IN_KEY, Id.UUID_IN_KEY))
BUSINESS: Final = frozenset((Write.REPLACE_BUSINESS, Write.UPDATE_BUSINESS_TIMES, Write.DELETE_BUSINESS))


@dataclass(frozen=True, slots=True)
class Projection:
    """Some fields of a document: those named, or all but those."""

    fields: frozenset[str]
    blocks: bool


@dataclass(frozen=True, slots=True)
class Topic:
    """What it says of a topic."""

    database: str
    collection: str
    """Empty: the topic's name."""
    by_fields: bool
    key_database: str
    value_database: str
    key_collection: str
    value_collection: str
    mapper_fails: bool
    id: Id
    id_overwrites: bool
    id_binary: bool
    id_projection: Projection | None
    id_header: str
    writes: Write
    deletes: bool
    delete_writes: Write
    chain: tuple[str, ...]
    key_projection: frozenset[str]
    value_projection: frozenset[str]
    renames: Mapping[str, str]
    regexps: tuple[tuple[str, str, str], ...]
    most: int
    ordered: bool
    rate_seconds: float
    rate_every: int
    tolerance: Tolerance
    logs_errors: bool
    envelopes: bool
    """Whether a handler reads them."""
    leaves_nulls_out: bool
    values: Values
    headers: tuple[str, ...]
    positions: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """What it says of the whole."""

    uri: str = field(repr=False)
    tls: Mapping[str, str] = field(repr=False)
    """``ssl.*`` in Kafka's words."""
    api_version: str
    api_deprecation: bool
    api_strict: bool
    group: str
    field: str
    """The field of positions."""
    positions_collection: str
    epoch: int
    kept_ms: int
    default: Topic
    topics: Mapping[str, Topic]

    def of(self, topic: str) -> Topic:
        """What it says of a topic."""
        return self.topics.get(topic, self.default)


def read_settings(connector: str, config: Mapping[str, str]) -> Settings:
    """What a configuration without problems says.

    Args:
        connector: its name, of which its group's is made.
    """
    return Settings(
        uri=value_of(config, names.URI),
        tls=_tls(config),
        api_version=value_of(config, names.API_VERSION),
        api_deprecation=is_on(config, names.API_DEPRECATION),
        api_strict=is_on(config, names.API_STRICT),
        group=sink_group(connector, config),
        field=value_of(config, names.POSITIONS_FIELD),
        positions_collection=value_of(config, names.POSITIONS_COLLECTION),
        epoch=int(value_of(config, names.POSITIONS_EPOCH)),
        kept_ms=int(value_of(config, names.DELETES_KEPT)),
        default=_topic(config),
        topics={topic: _topic({**config, **own}) for topic, own in topics_overridden(config).items()},
    )


def _tls(config: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for theirs, ours in (("truststore", "truststore"), ("keystore", "keystore")):
        location = config.get(f"{names.TLS}{theirs}", "").strip()
        if location:
            found[f"ssl.{ours}.location"] = location
            found[f"ssl.{ours}.type"] = _store_type(location)
            password = config.get(f"{names.TLS}{theirs}Password", "").strip()
            if password:
                found[f"ssl.{ours}.password"] = password
    return found


def _store_type(location: str) -> str:
    """Of PKCS12 and JKS the reader itself tells which one it is."""
    return "PEM" if location.lower().endswith((".pem", ".crt", ".cer")) else "PKCS12"


def _topic(config: Mapping[str, str]) -> Topic:
    def value(name: str) -> str:
        return value_of(config, name)

    header = value(names.ID_HEADER)
    chosen = Id.HEADER if header else Id(names.ID_CLASSES[value(names.ID)])
    writes = names.WRITE_CLASSES[value(names.WRITES)]
    writes = Write.REPLACE if writes == "DefaultWriteModel" else Write(writes)
    handler = bool(value(names.HANDLER))
    return Topic(
        database=value(names.DATABASE),
        collection=value(names.COLLECTION),
        by_fields=names.MAPPER_CLASSES[value(names.MAPPER)] == "fields",
        key_database=value(names.KEY_DATABASE),
        value_database=value(names.VALUE_DATABASE),
        key_collection=value(names.KEY_COLLECTION),
        value_collection=value(names.VALUE_COLLECTION),
        mapper_fails=is_on(config, names.MAPPER_FAILS),
        id=chosen,
        id_overwrites=is_on(config, names.ID_OVERWRITES),
        id_binary=value(names.ID_UUID).lower() == "binary",
        id_projection=id_projection(config, chosen),
        id_header=header,
        writes=writes,
        deletes=is_on(config, names.DELETES),
        delete_writes=Write(names.DELETE_CLASSES[value(names.DELETE_WRITES)]),
        chain=_chain(config),
        key_projection=frozenset(items_of(config, names.KEY_LIST)),
        value_projection=frozenset(items_of(config, names.VALUE_LIST)),
        renames=dict(names.objects_of(value(names.RENAMES), ("oldName", "newName"))),  # type: ignore[arg-type]
        regexps=tuple(names.objects_of(value(names.REGEXPS), ("regexp", "pattern", "replace"))),  # type: ignore[arg-type]
        most=int(value(names.MOST)),
        ordered=is_on(config, names.ORDERED),
        rate_seconds=int(value(names.RATE_TIMEOUT)) / 1000,
        rate_every=int(value(names.RATE_EVERY)),
        tolerance=_tolerance(config),
        logs_errors=is_on(config, names.LOG_ERRORS),
        envelopes=handler,
        leaves_nulls_out=is_on(config, names.HANDLER_NULLS),
        values=Values(value(names.VALUES).lower()),
        headers=items_of(config, names.HEADERS),
        positions=_positions(value(names.POSITIONS).lower(), chosen, writes, handler),
    )


def _positions(wish: str, chosen: Id, writes: Write, handler: bool) -> bool:
    if wish != "auto":
        return wish == "true"
    return handler or (chosen in _KEYED and writes not in BUSINESS)


def _tolerance(config: Mapping[str, str]) -> Tolerance:
    if names.TOLERANCE not in config:
        return Tolerance.FRAMEWORK
    return Tolerance.NONE if value_of(config, names.TOLERANCE).lower() == "none" else Tolerance.ALL


def _chain(config: Mapping[str, str]) -> tuple[str, ...]:
    found = tuple(names.PROCESSOR_CLASSES[name] for name in items_of(config, names.CHAIN))
    return found if "id" in found else ("id", *found)


def id_projection(config: Mapping[str, str], chosen: Id) -> Projection | None:
    """The fields that the id is made of; None: the strategy has none, or its options say none."""
    if chosen is Id.PARTIAL_KEY:
        own = (names.ID_KEY_TYPE, names.KEY_TYPE, names.ID_KEY_LIST, names.KEY_LIST)
    elif chosen is Id.PARTIAL_VALUE:
        own = (names.ID_VALUE_TYPE, names.VALUE_TYPE, names.ID_VALUE_LIST, names.VALUE_LIST)
    else:
        return None
    kind = (value_of(config, own[0]) or value_of(config, own[1])).lower()
    fields = frozenset(items_of(config, own[2]) or items_of(config, own[3]))
    if kind in {"", "none"}:
        return None
    return Projection(fields, kind in {"blocklist", "blacklist"})


def check_topic(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What options of a topic say that does not go together, by option. Each by itself is right."""
    found: dict[str, list[str]] = {}

    def wrong(name: str, text: str) -> None:
        found.setdefault(name, []).append(text)

    topic = _topic(config)
    if topic.id in {Id.PARTIAL_KEY, Id.PARTIAL_VALUE} and topic.id_projection is None:
        own = names.ID_KEY_TYPE if topic.id is Id.PARTIAL_KEY else names.ID_VALUE_TYPE
        wrong(own, f"{own} is needed by {names.ID}: AllowList or BlockList")
    if topic.deletes and not topic.envelopes:
        if topic.delete_writes is Write.DELETE and topic.id not in _KEYED | {Id.HEADER}:
            wrong(
                names.DELETES,
                f"{names.DELETES} needs an _id that comes from the key; {names.ID} takes it from elsewhere",
            )
        if topic.delete_writes is Write.DELETE_TOMBSTONE_BUSINESS and topic.id is not Id.PARTIAL_KEY:
            wrong(names.DELETE_WRITES, f"{names.DELETE_WRITES} needs PartialKeyStrategy as {names.ID}")
    if topic.positions and not topic.envelopes and topic.writes in BUSINESS:
        wrong(
            names.POSITIONS,
            f"{names.POSITIONS} is not possible with {names.WRITES}: what it looks for is not the _id",
        )
    paths = (topic.key_database, topic.value_database, topic.key_collection, topic.value_collection)
    if topic.by_fields and not any(paths):
        wrong(names.MAPPER, f"{names.MAPPER} needs a field of database or collection")
    for one, other in (
        (names.KEY_DATABASE, names.VALUE_DATABASE),
        (names.KEY_COLLECTION, names.VALUE_COLLECTION),
    ):
        if topic.by_fields and value_of(config, one) and value_of(config, other):
            wrong(one, f"{one} and {other} cannot both be set")
    return found
