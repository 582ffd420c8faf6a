"""The options of the MongoDB sink: those of MongoDB's connector by their names, obeyed or refused. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import not_negative_problem
from tidings_connect.java.regex import compile_java, compile_replacement

URI: Final = "connection.uri"
TLS: Final = "connection.ssl."
DATABASE: Final = "database"
COLLECTION: Final = "collection"
MAPPER: Final = "namespace.mapper"
KEY_DATABASE: Final = "namespace.mapper.key.database.field"
VALUE_DATABASE: Final = "namespace.mapper.value.database.field"
KEY_COLLECTION: Final = "namespace.mapper.key.collection.field"
VALUE_COLLECTION: Final = "namespace.mapper.value.collection.field"
MAPPER_FAILS: Final = "namespace.mapper.error.if.invalid"
ID: Final = "document.id.strategy"
ID_OVERWRITES: Final = "document.id.strategy.overwrite.existing"
ID_UUID: Final = "document.id.strategy.uuid.format"
ID_KEY_TYPE: Final = "document.id.strategy.partial.key.projection.type"
ID_KEY_LIST: Final = "document.id.strategy.partial.key.projection.list"
ID_VALUE_TYPE: Final = "document.id.strategy.partial.value.projection.type"
ID_VALUE_LIST: Final = "document.id.strategy.partial.value.projection.list"
WRITES: Final = "writemodel.strategy"
DELETES: Final = "delete.on.null.values"
DELETE_WRITES: Final = "delete.writemodel.strategy"
CHAIN: Final = "post.processor.chain"
KEY_TYPE: Final = "key.projection.type"
KEY_LIST: Final = "key.projection.list"
VALUE_TYPE: Final = "value.projection.type"
VALUE_LIST: Final = "value.projection.list"
RENAMES: Final = "field.renamer.mapping"
REGEXPS: Final = "field.renamer.regexp"
MOST: Final = "max.batch.size"
ORDERED: Final = "bulk.write.ordered"
RATE_TIMEOUT: Final = "rate.limiting.timeout"
RATE_EVERY: Final = "rate.limiting.every.n"
TOLERANCE: Final = "mongo.errors.tolerance"
LOG_ERRORS: Final = "mongo.errors.log.enable"
HANDLER: Final = "change.data.capture.handler"
HANDLER_NULLS: Final = "change.data.capture.handler.remove.null.values"
API_VERSION: Final = "server.api.version"
API_DEPRECATION: Final = "server.api.deprecation.errors"
API_STRICT: Final = "server.api.strict"
OVERRIDE: Final = "topic.override."
POSITIONS: Final = "tidings.positions"
POSITIONS_FIELD: Final = "tidings.positions.field"
POSITIONS_COLLECTION: Final = "tidings.positions.collection"
POSITIONS_EPOCH: Final = "tidings.positions.epoch"
DELETES_KEPT: Final = "tidings.deletes.retention.ms"
VALUES: Final = "tidings.values"
ID_HEADER: Final = "tidings.id.header"
HEADERS: Final = "tidings.headers"

_SINK: Final = "com.mongodb.kafka.connect.sink."
ID_CLASSES: Final = {
    f"{_SINK}processor.id.strategy.{name}Strategy": name
    for name in (
        "BsonOid",
        "Uuid",
        "FullKey",
        "PartialKey",
        "PartialValue",
        "ProvidedInKey",
        "ProvidedInValue",
        "UuidProvidedInKey",
        "UuidProvidedInValue",
        "KafkaMetaData",
    )
}
WRITE_CLASSES: Final = {
    f"{_SINK}writemodel.strategy.{name}Strategy": name
    for name in (
        "DefaultWriteModel",
        "ReplaceOneDefault",
        "ReplaceOneBusinessKey",
        "UpdateOneDefault",
        "UpdateOneTimestamps",
        "UpdateOneBusinessKeyTimestamp",
        "InsertOneDefault",
        "DeleteOneDefault",
        "DeleteOneBusinessKey",
    )
}
DELETE_CLASSES: Final = {
    f"{_SINK}writemodel.strategy.{name}Strategy": name
    for name in ("DeleteOneDefault", "DeleteOneTombstoneBusinessKey")
}
PROCESSOR_CLASSES: Final = {
    f"{_SINK}processor.{name}": short
    for name, short in {
        "DocumentIdAdder": "id",
        "KafkaMetaAdder": "meta",
        "NullFieldValueRemover": "nulls",
        "AllowListKeyProjector": "allow.key",
        "AllowListValueProjector": "allow.value",
        "BlockListKeyProjector": "block.key",
        "BlockListValueProjector": "block.value",
        "WhitelistKeyProjector": "allow.key",
        "WhitelistValueProjector": "allow.value",
        "BlacklistKeyProjector": "block.key",
        "BlacklistValueProjector": "block.value",
        "field.renaming.RenameByMapping": "rename",
        "field.renaming.RenameByRegExp": "regexp",
        # As the documentation of the connector's predecessor named them.
        "field.renaming.RenameByRegex": "regexp",
    }.items()
}
HANDLER_CLASSES: Final = {
    f"{_SINK}cdc.debezium.rdbms.{name}": "rows"
    for name in ("RdbmsHandler", "mysql.MysqlHandler", "postgres.PostgresHandler")
}
_UNTESTED: Final = (
    "no server that can be had for tests has change streams, so that its records cannot be made here"
)
_REFUSED_HANDLERS: Final = {
    f"{_SINK}cdc.debezium.mongodb.MongoDbHandler": _UNTESTED,
    f"{_SINK}cdc.debezium.mongodb.ChangeStreamHandler": _UNTESTED,
    f"{_SINK}cdc.mongodb.ChangeStreamHandler": _UNTESTED,
    f"{_SINK}cdc.qlik.rdbms.RdbmsHandler": "Qlik's records cannot be made here",
}
MAPPER_CLASSES: Final = {
    f"{_SINK}namespace.mapping.DefaultNamespaceMapper": "default",
    f"{_SINK}namespace.mapping.FieldPathNamespaceMapper": "fields",
}
_JAVA: Final = "a class of Java's cannot be loaded here"
_SERIES: Final = "no server that can be had for tests has time series collections"
_ENCRYPTED: Final = "fields are not encrypted by the client"
REFUSED: Final[Mapping[str, str]] = {
    "field.value.transformer": _JAVA,
    "field.value.transformer.fields": _JAVA,
    **dict.fromkeys(
        (
            "timeseries.timefield",
            "timeseries.metafield",
            "timeseries.expire.after.seconds",
            "timeseries.granularity",
            "timeseries.timefield.auto.convert",
            "timeseries.timefield.auto.convert.date.format",
            "timeseries.timefield.auto.convert.locale.language.tag",
        ),
        _SERIES,
    ),
    **dict.fromkeys(
        (
            "csfle.enabled",
            "csfle.key.vault.namespace",
            "csfle.local.master.key",
            "csfle.schema.map",
            "csfle.bypass.query.analysis",
        ),
        _ENCRYPTED,
    ),
    "mongo.custom.auth.mechanism.enable": _JAVA,
    "mongo.custom.auth.mechanism.providerClass": _JAVA,
}
_BLOCK: Final = ("none", "AllowList", "BlockList", "Whitelist", "Blacklist", "allowlist", "blocklist")


def _uri(value: str) -> str | None:
    try:
        parts = urlsplit(value)
        hosts = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "A connection string is expected: mongodb://host:port"
    if parts.scheme not in {"mongodb", "mongodb+srv"} or not hosts:
        return "A connection string is expected: mongodb://host:port, or mongodb+srv://host"
    options = {name.lower(): text for name, text in parse_qsl(parts.query)}
    if options.get("w") == "0":
        return "w=0 is not possible: nobody would know what is written"
    return None


def _one_of(classes: Mapping[str, str], refused: Mapping[str, str] | None = None) -> Any:
    def check(value: str) -> str | None:
        if not value.strip() or value.strip() in classes:
            return None
        reason = (refused or {}).get(value.strip())
        if reason is not None:
            return f"{value} is not implemented: {reason}"
        return f"{_JAVA}; there are: {', '.join(sorted(name.rpartition('.')[2] for name in classes))}"

    return check


def _chain(value: str) -> str | None:
    for part in filter(None, map(str.strip, value.split(","))):
        found: str | None = _one_of(PROCESSOR_CLASSES)(part)
        if found is not None:
            return f"{part}: {found}"
    return None


def objects_of(value: str, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The objects of a JSON array, each with these members.

    Raises:
        ValueError: says what is wrong.
    """
    try:
        found = json.loads(value or "[]")
    except ValueError:
        raise ValueError("A JSON array is expected") from None
    for item in found if isinstance(found, list) else [None]:
        if not isinstance(item, dict) or not all(isinstance(item.get(name), str) for name in names):
            raise ValueError(f"An array of objects is expected, each with {' and '.join(names)}")
    return [tuple(item[name] for name in names) for item in found]


def _renames(value: str) -> str | None:
    try:
        objects_of(value, ("oldName", "newName"))
    except ValueError as error:
        return str(error)
    return None


def _regexps(value: str) -> str | None:
    try:
        for regexp, pattern, replace in objects_of(value, ("regexp", "pattern", "replace")):
            compile_java(regexp)
            compile_replacement(compile_java(pattern), replace)
    except (ValueError, re.error) as error:
        return str(error)
    return None


def _number(name: str, default: str, text: str, kind: Any = "int") -> Option:
    return Option(name, kind, default, check=not_negative_problem, documentation=text)


def _strategy(name: str, default: str, classes: Mapping[str, str], text: str) -> Option:
    return Option(name, "string", default, check=_one_of(classes), documentation=text)


OPTIONS: Final = (
    Option(URI, "password", "mongodb://localhost:27017", check=_uri, documentation="Where the servers are, as MongoDB's drivers have it; a login belongs into it."),
    Option("connection.ssl.truststore", "string", "", documentation="Whom to trust: a file of PKCS12, JKS or PEM; empty: the system's authorities."),
    Option("connection.ssl.truststorePassword", "password", documentation="Opens it."),
    Option("connection.ssl.keystore", "string", "", documentation="The own certificate and its key: a file of PKCS12, JKS or PEM."),
    Option("connection.ssl.keystorePassword", "password", documentation="Opens it."),
    Option(DATABASE, "string", required=True, documentation="The database."),
    Option(COLLECTION, "string", "", documentation="The collection; empty: the topic's name."),
    _strategy(MAPPER, f"{_SINK}namespace.mapping.DefaultNamespaceMapper", MAPPER_CLASSES, "What decides on database and collection."),
    Option(KEY_DATABASE, "string", "", documentation="The field of the key that names the database, with dots between its steps."),
    Option(VALUE_DATABASE, "string", "", documentation="The field of the value that names the database."),
    Option(KEY_COLLECTION, "string", "", documentation="The field of the key that names the collection."),
    Option(VALUE_COLLECTION, "string", "", documentation="The field of the value that names the collection."),
    Option(MAPPER_FAILS, "boolean", "false", documentation="Whether a record without such a field is a bad record; otherwise database and collection are used."),
    _strategy(ID, f"{_SINK}processor.id.strategy.BsonOidStrategy", ID_CLASSES, "What a document's _id is made of."),
    Option(ID_OVERWRITES, "boolean", "false", documentation="Whether it takes the place of an _id that the value has."),
    Option(ID_UUID, "string", "string", values=("string", "binary"), documentation="The form of UuidStrategy."),
    Option(ID_KEY_TYPE, "string", "", values=(*_BLOCK, ""), documentation="How PartialKeyStrategy reads its list: AllowList or BlockList."),
    Option(ID_KEY_LIST, "string", "", documentation="The fields of the key for PartialKeyStrategy."),
    Option(ID_VALUE_TYPE, "string", "", values=(*_BLOCK, ""), documentation="How PartialValueStrategy reads its list: AllowList or BlockList."),
    Option(ID_VALUE_LIST, "string", "", documentation="The fields of the value for PartialValueStrategy."),
    _strategy(WRITES, f"{_SINK}writemodel.strategy.DefaultWriteModelStrategy", WRITE_CLASSES, "What a record with a value does to its document."),
    Option(DELETES, "boolean", "false", documentation="Whether a record without a value deletes its document; otherwise it is a bad record."),
    _strategy(DELETE_WRITES, f"{_SINK}writemodel.strategy.DeleteOneDefaultStrategy", DELETE_CLASSES, "How the document of a record without a value is found."),
    Option(CHAIN, "list", f"{_SINK}processor.DocumentIdAdder", check=_chain, documentation="What is done to key and value before they are written, in order."),
    Option(KEY_TYPE, "string", "none", values=_BLOCK, documentation="For PartialKeyStrategy, where it has no type of its own."),
    Option(KEY_LIST, "string", "", documentation="The fields for the projectors of the key in the chain."),
    Option(VALUE_TYPE, "string", "none", values=_BLOCK, documentation="For PartialValueStrategy, where it has no type of its own."),
    Option(VALUE_LIST, "string", "", documentation="The fields for the projectors of the value in the chain."),
    Option(RENAMES, "string", "[]", check=_renames, documentation="For RenameByMapping: objects with oldName and newName."),
    Option(REGEXPS, "string", "[]", check=_regexps, documentation="For RenameByRegExp: objects with regexp, pattern and replace."),
    _number(MOST, "0", "How many records a request has at most; 0: as many as come."),
    Option(ORDERED, "boolean", "true", documentation="Whether the operations of a request are done one after the other; those of a document always are."),
    _number(RATE_TIMEOUT, "0", "How long to wait after some requests of a topic, in milliseconds."),
    _number(RATE_EVERY, "0", "After how many; 0: never."),
    Option(TOLERANCE, "string", "none", values=("none", "data", "all"), documentation="Where it is given: what errors.tolerance is to be for documents."),
    Option(LOG_ERRORS, "boolean", "false", documentation="Where it is given: what errors.log.enable is to be for documents."),
    Option(HANDLER, "string", "", check=_one_of(HANDLER_CLASSES, _REFUSED_HANDLERS), documentation="What reads envelopes: PostgresHandler, MysqlHandler or RdbmsHandler, which are the same."),
    Option(HANDLER_NULLS, "boolean", "false", documentation="Whether the fields that are null are left out then."),
    Option(API_VERSION, "string", "", values=("", "1"), documentation="The version of the server's API to ask for."),
    Option(API_DEPRECATION, "boolean", "false", documentation="Whether what that version deprecates is an error."),
    Option(API_STRICT, "boolean", "false", documentation="Whether what is not part of it is an error."),
    Option(POSITIONS, "string", "auto", values=("auto", "true", "false"), documentation="Whether documents keep the place of their record, so that a late or repeated record never replaces a newer one; auto: where the _id comes from the key."),
    Option(POSITIONS_FIELD, "string", "_tidings", documentation="The field that keeps it."),
    Option(POSITIONS_COLLECTION, "string", "tidings_sink_positions", documentation="The collection that keeps where deletes stood, and which task has which partition."),
    _number(POSITIONS_EPOCH, "0", "Raised by one after a topic was created anew, so that its offsets count again."),
    _number(DELETES_KEPT, "86400000", "How long deletes are remembered, in milliseconds.", "long"),
    Option(VALUES, "string", "bson", values=("bson", "text", "connect"), documentation="What Debezium's own types become: dates and decimals of BSON, timestamps as text with all digits, or the numbers that they are."),
    Option(ID_HEADER, "string", "", documentation="The header that is the _id in place of the strategy's, such as ce_id."),
    Option(HEADERS, "list", "", documentation="Headers that are written into the document, as fields of their names."),
)  # fmt: skip
OF_TOPICS: Final = frozenset(
    option.name
    for option in OPTIONS
    if not option.name.startswith(("connection.", "server.api.", POSITIONS, DELETES_KEPT))
)
"""What may be overridden for a topic."""
_DEFAULTS: Final = {option.name: option.default or "" for option in OPTIONS}


def value_of(config: Mapping[str, str], name: str) -> str:
    """An option's value, or its default."""
    return (config.get(name) or _DEFAULTS[name]).strip()


def items_of(config: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The items of a list."""
    return tuple(filter(None, (part.strip() for part in value_of(config, name).split(","))))


def is_on(config: Mapping[str, str], name: str) -> bool:
    """Whether an option is true."""
    return value_of(config, name).lower() == "true"


def overridden(name: str) -> tuple[str, str] | None:
    """The topic and the option of ``topic.override.<topic>.<option>``; None: there is no such option.

    Topics have dots in them as well, so that the longest option at the end counts.
    """
    rest = name.removeprefix(OVERRIDE)
    for option in sorted(OF_TOPICS | REFUSED.keys(), key=len, reverse=True):
        topic = rest.removesuffix(f".{option}")
        if topic and topic != rest:
            return topic, option
    return None


def topics_overridden(config: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The options that topics have of their own, by topic."""
    found: dict[str, dict[str, str]] = {}
    for name, text in config.items():
        parts = overridden(name) if name.startswith(OVERRIDE) else None
        if parts is not None:
            found.setdefault(parts[0], {})[parts[1]] = text
    return found
