"""The options of the search sink: those of Aiven's connector by their names, obeyed or refused. Pure."""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import at_least_one_problem, not_negative_problem

URL: Final = "connection.url"
USER: Final = "connection.username"
PASSWORD: Final = "connection.password"  # noqa: S105 - the option's name
CONNECT_TIMEOUT: Final = "connection.timeout.ms"
READ_TIMEOUT: Final = "read.timeout.ms"
TRUST_ALL: Final = "connection.trust.all.certificates"
TLS: Final = "connection."
"""What stands before ``ssl.*``."""
BATCH: Final = "batch.size"
RETRIES: Final = "max.retries"
BACKOFF: Final = "retry.backoff.ms"
FLUSH_TIMEOUT: Final = "flush.timeout.ms"
METHOD: Final = "index.write.method"
KEY_IGNORE: Final = "key.ignore"
KEY_TOPICS: Final = "topic.key.ignore"
STRATEGY: Final = "key.ignore.id.strategy"
SCHEMA_IGNORE: Final = "schema.ignore"
SCHEMA_TOPICS: Final = "topic.schema.ignore"
COMPACT: Final = "compact.map.entries"
DROP: Final = "drop.invalid.message"
NULLS: Final = "behavior.on.null.values"
MALFORMED: Final = "behavior.on.malformed.documents"
CONFLICTS: Final = "behavior.on.version.conflict"
ROUTING: Final = "routing.type"
ROUTING_PATH: Final = "routing.type.record.value.path"
STREAMS: Final = "data.stream.enabled"
STREAM_PREFIX: Final = "data.stream.prefix"
STREAM_TIME: Final = "data.stream.timestamp.field"
STREAM_TEMPLATE: Final = "data.streams.existing.index.template.name"
RESOURCE_TYPE: Final = "existing.resource.type"
RESOURCES: Final = "topic.to.existing.resource.mapping"
ID_HEADER: Final = "tidings.id.header"
HEADERS: Final = "tidings.headers"
ENVELOPES: Final = "tidings.envelopes"

RESOURCE_KINDS: Final = ("none", "index", "index_alias", "data_stream", "data_stream_alias")
_AWS: Final = "requests are not signed for Amazon; use a login, or a proxy that signs"
REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "aws.access_key_id",
            "aws.secret_access_key",
            "aws.region",
            "aws.service.signing.name",
            "aws.sts.role.arn",
            "aws.sts.role.session.name",
            "aws.sts.role.session.duration",
            "aws.sts.role.external.id",
        ),
        _AWS,
    ),
    "connection.ssl.cipher.suites": "the versions of TLS decide",
    "connection.ssl.protocol": "connection.ssl.enabled.protocols decides",
    "type.name": "indexes have no types any more",
}


def _url(value: str) -> str | None:
    for url in urls_of(value):
        parts = urlsplit(url)
        try:
            good = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or 1) > 0
        except ValueError:  # the port is not a number
            good = False
        if not good or parts.query or parts.fragment:
            return "URLs are http://host:port or https://host:port, with commas between"
        if parts.username or parts.password:
            return f"A login belongs into {USER} and {PASSWORD}"
    return None


def urls_of(value: str) -> tuple[str, ...]:
    """The URLs of a list."""
    return tuple(part.strip().rstrip("/") for part in value.split(",") if part.strip())


def resources_of(value: str) -> dict[str, str]:
    """Resources by topic.

    Raises:
        ValueError: says what is wrong.
    """
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        topic, colon, resource = (text.strip() for text in part.partition(":"))
        if not (topic and colon and resource) or ":" in resource:
            raise ValueError("A list of topic:resource is expected")
        if topic in found:
            raise ValueError(f"Topic {topic} stands there twice")
        found[topic] = resource
    return found


def _resources(value: str) -> str | None:
    try:
        resources_of(value)
    except ValueError as error:
        return f"{error}"
    return None


def _pointer(value: str) -> str | None:
    return None if value.startswith("/") else "A JSON pointer is expected, such as /customer/id"


def _taken(name: str, kind: str, default: str, why: str) -> Option:
    assert kind in ("int", "long")
    check: Callable[[str], str | None] = not_negative_problem if kind == "long" else at_least_one_problem
    return Option(name, "int" if kind == "int" else "long", default, check=check, documentation=why)


_BEHAVIOURS: Final = ("ignore", "warn", "report", "fail")
OPTIONS: Final = (
    Option(URL, "string", required=True, check=_url, documentation="Where the cluster is: http://host:port, several with commas between. Another one is taken when one is away."),
    Option(USER, "string", "", documentation="The user; empty: no login."),
    Option(PASSWORD, "password", documentation="The user's password."),
    Option(CONNECT_TIMEOUT, "int", "1000", check=at_least_one_problem, documentation="How long to wait for a connection, in milliseconds."),
    Option(READ_TIMEOUT, "int", "30000", check=at_least_one_problem, documentation="How long to wait for an answer, in milliseconds."),
    Option(TRUST_ALL, "boolean", "false", documentation="Whether any certificate of the server's is taken."),
    Option("connection.ssl.truststore.location", "string", "", documentation="Whom to trust; empty: the system's authorities."),
    Option("connection.ssl.truststore.password", "password", documentation="Opens it."),
    Option("connection.ssl.truststore.type", "string", "JKS", values=("JKS", "PKCS12", "PEM"), documentation="Its form."),
    Option("connection.ssl.keystore.location", "string", "", documentation="The own certificate and its key."),
    Option("connection.ssl.keystore.password", "password", documentation="Opens it."),
    Option("connection.ssl.keystore.type", "string", "JKS", values=("JKS", "PKCS12", "PEM"), documentation="Its form."),
    Option("connection.ssl.key.password", "password", documentation="Opens the key in it."),
    Option("connection.ssl.enabled.protocols", "list", "TLSv1.2,TLSv1.3", documentation="The versions of TLS that are taken."),
    Option("connection.ssl.endpoint.identification.algorithm", "string", "https", values=("https", ""), documentation="Whether the certificate has to name the host; empty: no."),
    Option(BATCH, "int", "2000", check=at_least_one_problem, documentation="How many records a request has at most; it has at most 10 MB."),
    _taken("max.in.flight.requests", "int", "5", "Taken: requests follow one another, so that the records of a key keep their order."),
    _taken("max.buffered.records", "int", "20000", "Taken: a task holds the records of one poll, consumer.override.max.poll.records."),
    _taken("linger.ms", "long", "1", "Taken: nothing is held back."),
    Option(FLUSH_TIMEOUT, "long", "10000", check=not_negative_problem, documentation="How long records are tried again in place, in milliseconds; then the partitions rest, and it goes on without end."),
    Option(RETRIES, "int", "5", check=not_negative_problem, documentation="How often they are tried again in place at most."),
    Option(BACKOFF, "long", "100", check=not_negative_problem, documentation="The pause before they are tried again, in milliseconds; each is twice the one before."),
    Option(METHOD, "string", "insert", values=("insert", "upsert"), documentation="Whether a record replaces its document, or its fields are put over the document's."),
    Option(KEY_IGNORE, "boolean", "false", documentation="Whether documents are identified by something else than the key."),
    Option(KEY_TOPICS, "list", "", documentation="The topics for which that is so."),
    Option(STRATEGY, "string", "topic.partition.offset", values=("none", "record.key", "topic.partition.offset"), documentation="What then identifies a document."),
    Option(SCHEMA_IGNORE, "boolean", "false", documentation="Whether mappings are left to the server."),
    Option(SCHEMA_TOPICS, "list", "", documentation="The topics for which that is so."),
    Option(COMPACT, "boolean", "true", documentation="Whether maps with keys of text are objects; otherwise lists of key and value, as other maps are."),
    Option(DROP, "boolean", "false", documentation="Whether a record that cannot become a document is left out, whatever errors.tolerance says."),
    Option(NULLS, "string", "ignore", values=("ignore", "delete", "fail"), documentation="What a record without a value is, and an envelope of a delete."),
    Option(MALFORMED, "string", "report", values=_BEHAVIOURS, documentation="What happens to a document that the server refuses. report: as errors.tolerance says."),
    Option(CONFLICTS, "string", "ignore", values=_BEHAVIOURS, documentation="What happens to a record that is older than its document."),
    Option(ROUTING, "string", "none", values=("none", "key", "value"), documentation="What decides on the shard, beside the id."),
    Option(ROUTING_PATH, "string", "", check=_pointer, documentation="The JSON pointer of routing.type=value."),
    Option(STREAMS, "boolean", "false", documentation="Whether a topic goes to a data stream."),
    Option(STREAM_PREFIX, "string", "", documentation="What stands before the topic in the data stream's name, with a hyphen."),
    Option(STREAM_TIME, "string", "@timestamp", documentation="The field that holds a document's time; @timestamp is the record's time where a document has none."),
    Option(STREAM_TEMPLATE, "string", "", documentation="The index template of data streams: taken as it is, or created."),
    Option(RESOURCE_TYPE, "string", "none", values=RESOURCE_KINDS, documentation="What the topics' targets are that exist already."),
    Option(RESOURCES, "list", "", check=_resources, documentation="Their names: topic:resource, with commas between."),
    Option(ID_HEADER, "string", "", documentation="The header that identifies a document in place of the key, such as ce_id."),
    Option(HEADERS, "list", "", documentation="Headers that are written into the document, as fields of their names."),
    Option(ENVELOPES, "boolean", "true", documentation="Whether the row of a Debezium envelope becomes the document; otherwise the envelope."),
)  # fmt: skip
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


def is_stream(config: Mapping[str, str]) -> bool:
    """Whether topics go to data streams."""
    kind = value_of(config, RESOURCE_TYPE).lower()
    return is_on(config, STREAMS) if kind == "none" else kind.startswith("data_stream")


def check_together(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What options say that does not go together, by option."""

    def value(name: str) -> str:
        return value_of(config, name).lower()

    found: dict[str, list[str]] = {}

    def wrong(name: str, text: str) -> None:
        found.setdefault(name, []).append(text)

    deletes, upserts = value(NULLS) == "delete", value(METHOD) == "upsert"
    keyless = (is_on(config, KEY_IGNORE) or items_of(config, KEY_TOPICS)) and value(STRATEGY) != "record.key"
    if is_stream(config) and upserts:
        wrong(METHOD, f"{METHOD}=upsert is not possible with data streams: they only grow")
    if is_stream(config) and deletes:
        wrong(NULLS, f"{NULLS}=delete is not possible with data streams: they only grow")
    if upserts and keyless:
        wrong(STRATEGY, f"{STRATEGY} must be record.key with {METHOD}=upsert")
    if value(ROUTING) == "value" and not value(ROUTING_PATH):
        wrong(ROUTING_PATH, f"{ROUTING_PATH} is needed by {ROUTING}=value")
    if value(ROUTING) == "value" and deletes:
        wrong(NULLS, f"{NULLS}=delete is not possible with {ROUTING}=value: what is deleted has no value")
    if value(RESOURCE_TYPE) != "none" and not value(RESOURCES):
        wrong(RESOURCES, f"{RESOURCES} is needed by {RESOURCE_TYPE}")
    if value(RESOURCES) and value(RESOURCE_TYPE) == "none":
        wrong(RESOURCE_TYPE, f"{RESOURCES} needs {RESOURCE_TYPE}")
    if bool(value(USER)) != bool(config.get(PASSWORD)):
        wrong(USER, f"{USER} and {PASSWORD} stand together")
    return found
