"""What a worker is told: a Kafka Connect distributed worker's properties, unchanged.

Settings: Apache Kafka documentation, "Kafka Connect Configs". A setting that Tidings does not know is reported by name
(`WorkerConfig.unknown`), never an error, because one file serves workers of several versions.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidings_connect.config.exactly_once import DISABLED, WORKER_SETTING, WORKER_VALUES
from tidings_connect.config.override_policy import OVERRIDE_POLICY, read_override_policy
from tidings_connect.config.providers import ConfigProviders, is_provider_property, read_config_providers
from tidings_connect.config.rest_headers import (
    ALLOWED_METHODS,
    ALLOWED_ORIGINS,
    RESPONSE_HEADERS,
    RestHeaders,
    read_rest_headers,
)
from tidings_connect.config.rest_security import RestSecurity, is_rest_property, read_rest_security
from tidings_connect.data.sizes import parse_size
from tidings_connect.errors import ConnectError, WorkerConfigError
from tidings_connect.kafka.settings import (
    CLIENT_SETTINGS,
    refused_settings,
    translate_client_settings,
    unknown_settings,
)
from tidings_connect.kafka.topic_bounds import DEFAULT_MOST_TOPICS, MOST_TOPICS
from tidings_connect.limits import FREE_DISK, LIMIT_PROPERTIES, MOST_DISK, ConnectorLimits, read_limits
from tidings_service.disk import DEFAULT_FREE_BYTES


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """The group's times in seconds: ``session.timeout.ms`` and so on."""

    session: float = 10.0
    """After this long without a heartbeat a worker counts as dead."""
    heartbeat: float = 1.0
    """Kafka Connect's default is 3; the next leader is found within it."""
    rebalance: float = 60.0


DEFAULT_OFFSET_FLUSH_MS: Final = 1000
"""Kafka Connect's default is a minute; the slot would hold a minute's WAL for nothing."""

REPORT_TIMEOUT: Final = "tidings.task.report.timeout.ms"
MOST_CONNECTORS: Final = "tidings.connectors.max"
REST_SECRETS: Final = "tidings.rest.secrets"
_KNOWN: Final = frozenset(
    {
        "bootstrap.servers",
        "group.id",
        "rest.advertised.host.name",
        "rest.advertised.port",
        "config.storage.topic",
        "offset.storage.topic",
        "status.storage.topic",
        "offset.flush.interval.ms",
        "task.shutdown.graceful.timeout.ms",
        "topic.creation.enable",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "rebalance.timeout.ms",
        "scheduled.rebalance.max.delay.ms",
        WORKER_SETTING,
        "topic.tracking.enable",
        "topic.tracking.allow.reset",
        OVERRIDE_POLICY,
        ALLOWED_ORIGINS,
        ALLOWED_METHODS,
        RESPONSE_HEADERS,
        "tidings.wal.interval.ms",
        REPORT_TIMEOUT,
        MOST_CONNECTORS,
        REST_SECRETS,
        MOST_TOPICS,
        MOST_DISK,
        FREE_DISK,
        *LIMIT_PROPERTIES,
    }
)
_WITHOUT_MEANING: Final = frozenset(
    {
        # Java's class loading and Kafka Connect's own internals.
        "plugin.path",
        "plugin.discovery",
        "offset.flush.timeout.ms",
        "worker.sync.timeout.ms",
        "worker.unsync.backoff.ms",
        "connect.protocol",
        "inter.worker.signature.algorithm",
        "inter.worker.key.generation.algorithm",
        "inter.worker.key.size",
        "inter.worker.key.ttl.ms",
        "inter.worker.verification.algorithms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "internal.key.converter",
        "internal.value.converter",
        "internal.key.converter.schemas.enable",
        "internal.value.converter.schemas.enable",
    }
)
_OFFSET_FILE: Final = "offset.storage.file.filename"
_DISTRIBUTED: Final = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
"""What only a distributed worker needs."""
_STORAGE_PREFIXES: Final = ("config.storage.", "offset.storage.", "status.storage.")
_CONVERTER_PREFIXES: Final = ("key.converter", "value.converter", "header.converter")
_CLIENT_PREFIXES: Final = ("producer.", "consumer.", "admin.")


@dataclass(frozen=True, slots=True)
class StorageTopic:
    """One of the three topics a worker keeps its state in."""

    kind: str
    """``config``, ``offset`` or ``status``: the property's prefix."""
    name: str
    partitions: int
    replication_factor: int
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """A worker's settings; client settings are librdkafka's."""

    bootstrap_servers: str
    group_id: str
    host: str
    port: int
    advertised_host: str | None
    advertised_port: int | None
    config_topic: StorageTopic
    offset_topic: StorageTopic
    status_topic: StorageTopic
    converters: dict[str, str]
    """``key.converter*`` and ``value.converter*``, the defaults of every connector."""
    client: dict[str, str] = field(repr=False)
    producer: dict[str, str] = field(repr=False)
    consumer: dict[str, str] = field(repr=False)
    admin: dict[str, str] = field(default_factory=dict, repr=False)
    """For the topics that connectors write to."""
    offset_flush_ms: int = DEFAULT_OFFSET_FLUSH_MS
    graceful_stop_seconds: float = 10.0
    topic_creation: bool = True
    offset_file: str | None = None
    """``offset.storage.file.filename`` of a standalone worker, which has no storage topics; None: distributed."""
    group_times: GroupTimes = GroupTimes()
    rebalance_delay_seconds: float = 0.0
    """How long the connectors of a worker that has left wait for it to come back."""
    wal_interval_seconds: float = 10.0
    """``tidings.wal.interval.ms``: between two looks at the slots of the connectors' servers."""
    report_timeout_seconds: float = 300.0
    """``tidings.task.report.timeout.ms``: a task that has said nothing for so long is FAILED and killed; 0: never."""
    providers: ConfigProviders = field(default_factory=ConfigProviders, repr=False)
    """What resolves references to secrets, in the connectors' configurations as in the worker's."""
    exactly_once: str = DISABLED
    """``exactly.once.source.support``: disabled, preparing or enabled."""
    topic_tracking: bool = True
    """``topic.tracking.enable``."""
    topic_tracking_reset: bool = True
    """``topic.tracking.allow.reset``."""
    override_policy: str = "All"
    """What connectors may override of their clients' settings; see `override_policy`."""
    limits: ConnectorLimits = ConnectorLimits()
    """What connectors may name: modules, files, expressions."""
    rest: RestSecurity = field(default_factory=RestSecurity)
    """All listeners; `host` and `port` are the first one's."""
    rest_headers: RestHeaders = RestHeaders()
    """What is added to the REST API's answers."""
    rest_shows_secrets: bool = False
    """``tidings.rest.secrets=shown``: answers have the secrets of configurations, as Kafka Connect's have."""
    most_connectors: int = 1_000
    """``tidings.connectors.max``: of the group; a further one is refused."""
    most_topics: int = DEFAULT_MOST_TOPICS
    """``tidings.task.topics.max``: those that transforms make up, for each task; of metrics, labels by topic or table."""
    spool_bytes: int | None = None
    """``tidings.spool.max.bytes``: what unfinished transactions of a task may take on disk; None: as much as there is room."""
    spool_free_bytes: int = DEFAULT_FREE_BYTES
    """``tidings.spool.free.bytes``: what must be left free of that disk."""
    references: dict[str, str] = field(default_factory=dict)
    """The properties with references to what stands elsewhere, as they are in the file: a secret there may change."""
    unknown: tuple[str, ...] = ()

    def common_client(self) -> dict[str, str]:
        """Settings every Kafka client of this worker shares."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            # As Kafka's Java clients; with librdkafka's ten seconds a broker that is back stays unseen for as long.
            "reconnect.backoff.max.ms": "1000",
            **self.client,
        }


def read_worker_config(properties: Mapping[str, str]) -> WorkerConfig:
    """Understand a worker's properties.

    Raises:
        WorkerConfigError: a property is missing or wrong; names it.
    """
    providers = read_config_providers(properties)
    references = {name: value for name, value in properties.items() if "${" in value}
    properties = _resolved(providers, properties)
    rest = read_rest_security(properties, os.environ)
    _refuse(properties)
    client = {name: value for name, value in properties.items() if name in CLIENT_SETTINGS}
    scoped = {
        prefix: {
            n.removeprefix(prefix): v
            for n, v in properties.items()
            if n.startswith(prefix) and not is_rest_property(n)  # admin.listeners is no client's
        }
        for prefix in _CLIENT_PREFIXES
    }
    advertised_port = properties.get("rest.advertised.port")
    # Kafka Connect has two commands; here a worker without a group is a standalone one.
    offset_file = None if "group.id" in properties else properties.get(_OFFSET_FILE)
    if offset_file is not None:
        if _exactly_once(properties) != DISABLED:
            raise WorkerConfigError(
                f"{WORKER_SETTING} needs a distributed worker: {_OFFSET_FILE} is no topic"
            )
        properties = {**dict.fromkeys(_DISTRIBUTED, "(none)"), **properties}
    return WorkerConfig(
        bootstrap_servers=_required(properties, "bootstrap.servers"),
        group_id=_required(properties, "group.id"),
        host=rest.listeners[0].host,
        port=rest.listeners[0].port,
        advertised_host=properties.get("rest.advertised.host.name"),
        advertised_port=None if advertised_port is None else _integer(properties, "rest.advertised.port", 0),
        config_topic=_storage_topic(properties, "config", partitions=1),
        offset_topic=_storage_topic(properties, "offset", partitions=25),
        status_topic=_storage_topic(properties, "status", partitions=5),
        converters={n: v for n, v in properties.items() if n.startswith(_CONVERTER_PREFIXES)},
        client=translate_client_settings(client),
        producer=translate_client_settings(scoped["producer."], "producer."),
        consumer=translate_client_settings(scoped["consumer."], "consumer."),
        admin=translate_client_settings(scoped["admin."], "admin."),
        offset_flush_ms=_integer(properties, "offset.flush.interval.ms", DEFAULT_OFFSET_FLUSH_MS),
        graceful_stop_seconds=_integer(properties, "task.shutdown.graceful.timeout.ms", 10_000) / 1000,
        topic_creation=_boolean(properties, "topic.creation.enable", default=True),
        offset_file=offset_file,
        group_times=_group_times(properties),
        rebalance_delay_seconds=_integer(properties, "scheduled.rebalance.max.delay.ms", 0) / 1000,
        wal_interval_seconds=max(0.1, _integer(properties, "tidings.wal.interval.ms", 10_000) / 1000),
        report_timeout_seconds=max(0, _integer(properties, REPORT_TIMEOUT, 300_000)) / 1000,
        providers=providers,
        exactly_once=_exactly_once(properties),
        topic_tracking=_boolean(properties, "topic.tracking.enable", default=True),
        topic_tracking_reset=_boolean(properties, "topic.tracking.allow.reset", default=True),
        override_policy=read_override_policy(properties),
        limits=read_limits(properties),
        rest=rest,
        rest_headers=read_rest_headers(properties),
        rest_shows_secrets=_one_of(properties, REST_SECRETS, ("masked", "shown")) == "shown",
        most_connectors=max(0, _integer(properties, MOST_CONNECTORS, 1_000)),
        most_topics=max(1, _integer(properties, MOST_TOPICS, DEFAULT_MOST_TOPICS)),
        spool_bytes=_size(properties, MOST_DISK),
        spool_free_bytes=_size(properties, FREE_DISK) or DEFAULT_FREE_BYTES,
        references=references,
        unknown=_unknown(properties, scoped),
    )


def _group_times(properties: Mapping[str, str]) -> GroupTimes:
    times = GroupTimes(
        session=_integer(properties, "session.timeout.ms", 10_000) / 1000,
        heartbeat=_integer(properties, "heartbeat.interval.ms", 1_000) / 1000,
        rebalance=_integer(properties, "rebalance.timeout.ms", 60_000) / 1000,
    )
    if not 0 < times.heartbeat <= times.session / 2:
        raise WorkerConfigError("heartbeat.interval.ms must be at most half of session.timeout.ms")
    return times


def _resolved(providers: ConfigProviders, properties: Mapping[str, str]) -> dict[str, str]:
    try:
        return providers.resolve(properties)
    except ConnectError as error:
        raise WorkerConfigError(str(error), hint=error.hint) from error


def _refuse(properties: Mapping[str, str]) -> None:
    for prefix in ("", *_CLIENT_PREFIXES):
        names = [
            n.removeprefix(prefix) for n in properties if n.startswith(prefix) and not is_rest_property(n)
        ]
        for name in refused_settings(names):
            raise WorkerConfigError(f"{prefix}{name} is not supported", hint="leave it out")


def _unknown(properties: Mapping[str, str], scoped: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    known = _KNOWN | _WITHOUT_MEANING | CLIENT_SETTINGS
    prefixes = (*_STORAGE_PREFIXES, *_CONVERTER_PREFIXES, *_CLIENT_PREFIXES)
    plain = [
        n
        for n in properties
        if n not in known
        and not n.startswith(prefixes)
        and not is_provider_property(n, properties)
        and not is_rest_property(n)
    ]
    clients = [prefix + name for prefix, names in scoped.items() for name in unknown_settings(names)]
    return tuple(sorted(plain + clients))


def _required(properties: Mapping[str, str], name: str) -> str:
    value = properties.get(name, "").strip()
    if not value:
        raise WorkerConfigError(
            f"{name} is missing in the worker's properties",
            hint="a Kafka Connect distributed worker's file has it; a standalone one has offset.storage.file.filename "
            "and no group.id",
        )
    return value


def _integer(properties: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(properties.get(name, default))
    except ValueError as error:
        raise WorkerConfigError(f"{name} must be a whole number") from error


def _size(properties: Mapping[str, str], name: str) -> int | None:
    try:
        return parse_size(properties[name]) if properties.get(name, "").strip() else None
    except ValueError as error:
        raise WorkerConfigError(f"{name} {error}") from error


def _boolean(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = properties.get(name, str(default)).strip().lower()
    if value not in {"true", "false"}:
        raise WorkerConfigError(f"{name} must be true or false")
    return value == "true"


def _one_of(properties: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    value = properties.get(name, values[0]).strip().lower()
    if value not in values:
        raise WorkerConfigError(f"{name} must be one of {', '.join(values)}")
    return value


def _exactly_once(properties: Mapping[str, str]) -> str:
    return _one_of(properties, WORKER_SETTING, WORKER_VALUES)


def _storage_topic(properties: Mapping[str, str], kind: str, *, partitions: int) -> StorageTopic:
    prefix = f"{kind}.storage."
    own = {"topic", "partitions", "replication.factor"}
    if kind == "config" and properties.get(f"{prefix}partitions", "1") != "1":
        raise WorkerConfigError(
            "config.storage.topic must have one partition: remove config.storage.partitions"
        )
    return StorageTopic(
        kind=kind,
        name=_required(properties, f"{prefix}topic"),
        partitions=_integer(properties, f"{prefix}partitions", partitions),
        replication_factor=_integer(properties, f"{prefix}replication.factor", 3),
        config={
            name.removeprefix(prefix): value
            for name, value in properties.items()
            if name.startswith(prefix) and name.removeprefix(prefix) not in own
        },
    )
