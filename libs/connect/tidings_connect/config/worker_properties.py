"""What a worker is told: a Kafka Connect distributed worker's properties, unchanged.

Settings: Apache Kafka documentation, "Kafka Connect Configs". A setting that Tidings does not know is reported by name
(`WorkerConfig.unknown`), never an error, because one file serves workers of several versions.
"""

import os
from collections.abc import Mapping
from typing import Final

from tidings_connect.config.exactly_once import DISABLED, WORKER_SETTING
from tidings_connect.config.override_policy import read_override_policy
from tidings_connect.config.plugins import worker_options
from tidings_connect.config.properties.table import (
    MOST_CONNECTORS,
    PROPERTIES,
    REPORT_TIMEOUT,
    REST_SECRETS,
    WITHOUT_MEANING,
)
from tidings_connect.config.properties.values import OFFSET_FILE, PropertyValues
from tidings_connect.config.providers import ConfigProviders, is_provider_property, read_config_providers
from tidings_connect.config.rest.headers import read_rest_headers
from tidings_connect.config.rest.security import is_rest_property, read_rest_security
from tidings_connect.config.worker import GroupTimes, StorageTopic, WorkerConfig
from tidings_connect.errors import ConnectError, WorkerConfigError
from tidings_connect.kafka.settings import (
    CLIENT_SETTINGS,
    refused_settings,
    translate_client_settings,
    unknown_settings,
)
from tidings_connect.kafka.topic_bounds import MOST_TOPICS
from tidings_connect.limits import read_limits

_DISTRIBUTED: Final = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
"""What only a distributed worker needs."""
_STORAGE_PREFIXES: Final = ("config.storage.", "offset.storage.", "status.storage.")
_CONVERTER_PREFIXES: Final = ("key.converter", "value.converter", "header.converter")
_CLIENT_PREFIXES: Final = ("producer.", "consumer.", "admin.")


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
            if n.startswith(prefix) and not is_rest_property(n)  # admin.listeners is not a client's
        }
        for prefix in _CLIENT_PREFIXES
    }
    advertised_port = properties.get("rest.advertised.port")
    # Kafka Connect has two commands; here a worker without a group is a standalone one.
    offset_file = None if "group.id" in properties else properties.get(OFFSET_FILE)
    if offset_file is not None:
        if PropertyValues(properties, PROPERTIES).one_of(WORKER_SETTING) != DISABLED:
            raise WorkerConfigError(
                f"{WORKER_SETTING} needs a distributed worker: {OFFSET_FILE} is not a topic"
            )
        properties = {**dict.fromkeys(_DISTRIBUTED, "(none)"), **properties}
    own = PropertyValues(properties, PROPERTIES)
    return WorkerConfig(
        bootstrap_servers=own.required("bootstrap.servers"),
        group_id=own.required("group.id"),
        host=rest.listeners[0].host,
        port=rest.listeners[0].port,
        advertised_host=properties.get("rest.advertised.host.name"),
        advertised_port=None if advertised_port is None else own.integer("rest.advertised.port"),
        config_topic=_storage_topic(properties, "config", 1),
        offset_topic=_storage_topic(properties, "offset", own.integer("offset.storage.partitions")),
        status_topic=_storage_topic(properties, "status", own.integer("status.storage.partitions")),
        converters={n: v for n, v in properties.items() if n.startswith(_CONVERTER_PREFIXES)},
        client=translate_client_settings(client),
        producer=translate_client_settings(scoped["producer."], "producer."),
        consumer=translate_client_settings(scoped["consumer."], "consumer."),
        admin=translate_client_settings(scoped["admin."], "admin."),
        offset_flush_ms=own.integer("offset.flush.interval.ms"),
        graceful_stop_seconds=own.milliseconds("task.shutdown.graceful.timeout.ms"),
        topic_creation=own.boolean("topic.creation.enable"),
        offset_file=offset_file,
        group_times=_group_times(own),
        rebalance_delay_seconds=own.milliseconds("scheduled.rebalance.max.delay.ms"),
        report_timeout_seconds=max(0.0, own.milliseconds(REPORT_TIMEOUT)),
        providers=providers,
        exactly_once=own.one_of(WORKER_SETTING),
        topic_tracking=own.boolean("topic.tracking.enable"),
        topic_tracking_reset=own.boolean("topic.tracking.allow.reset"),
        override_policy=read_override_policy(properties),
        limits=read_limits(properties),
        rest=rest,
        rest_headers=read_rest_headers(properties),
        rest_shows_secrets=own.one_of(REST_SECRETS) == "shown",
        most_connectors=max(0, own.integer(MOST_CONNECTORS)),
        most_topics=max(1, own.integer(MOST_TOPICS)),
        connector_properties=PropertyValues(properties, worker_options()).checked(),
        references=references,
        unknown=_unknown(properties, scoped),
    )


def _group_times(own: PropertyValues) -> GroupTimes:
    times = GroupTimes(
        session=own.milliseconds("session.timeout.ms"),
        heartbeat=own.milliseconds("heartbeat.interval.ms"),
        rebalance=own.milliseconds("rebalance.timeout.ms"),
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
    known = {*PROPERTIES, *worker_options(), *WITHOUT_MEANING, *CLIENT_SETTINGS}
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


def _storage_topic(properties: Mapping[str, str], kind: str, partitions: int) -> StorageTopic:
    prefix = f"{kind}.storage."
    own = {"topic", "partitions", "replication.factor"}
    if kind == "config" and properties.get(f"{prefix}partitions", "1") != "1":
        raise WorkerConfigError(
            "config.storage.topic must have one partition: remove config.storage.partitions"
        )
    return StorageTopic(
        kind=kind,
        name=PropertyValues(properties, PROPERTIES).required(f"{prefix}topic"),
        partitions=partitions,
        replication_factor=PropertyValues(properties, PROPERTIES).integer(f"{prefix}replication.factor"),
        config={
            name.removeprefix(prefix): value
            for name, value in properties.items()
            if name.startswith(prefix) and name.removeprefix(prefix) not in own
        },
    )
