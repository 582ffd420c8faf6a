"""The options of the schema history (``schema.history.internal.*``): where it is, and the clients that write it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidings_connect.errors import WorkerConfigError
from tidings_connect.kafka.settings import translate_client_settings

HISTORY: Final = "schema.history.internal"
HISTORY_CLASS: Final = "io.debezium.storage.kafka.history.KafkaSchemaHistory"
HISTORY_TOPIC: Final = f"{HISTORY}.kafka.topic"
HISTORY_SERVERS: Final = f"{HISTORY}.kafka.bootstrap.servers"
_PRODUCER: Final = f"{HISTORY}.producer."
_CONSUMER: Final = f"{HISTORY}.consumer."


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """Where the history is written; the settings are librdkafka's."""

    topic: str
    producer: dict[str, str] = field(repr=False)
    consumer: dict[str, str] = field(repr=False)


def read_history(config: Mapping[str, str]) -> HistoryOptions | None:
    """The history that a configuration names; None: none.

    As in Debezium, the clients have nothing of the worker's: logins stand in the connector's own options.

    Raises:
        WorkerConfigError: a client's setting cannot be used; by name.
    """
    topic = (config.get(HISTORY_TOPIC) or "").strip()
    servers = (config.get(HISTORY_SERVERS) or "").strip()
    if not topic or not servers:
        return None
    return HistoryOptions(topic, _client(config, _PRODUCER, servers), _client(config, _CONSUMER, servers))


def _client(config: Mapping[str, str], prefix: str, servers: str) -> dict[str, str]:
    given = {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
    return {"bootstrap.servers": servers, **translate_client_settings(given, prefix)}


def history_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with the history's options."""
    pair = (HISTORY_TOPIC, HISTORY_SERVERS)
    given = [name for name in pair if (config.get(name) or "").strip()]
    if len(given) == 1:
        (missing,) = set(pair) - set(given)
        return {missing: [f"{missing} is missing: {given[0]} is nothing without it. Give both, or none"]}
    try:
        read_history(config)
    except WorkerConfigError as error:
        return {HISTORY_TOPIC: [str(error)]}
    return {}
