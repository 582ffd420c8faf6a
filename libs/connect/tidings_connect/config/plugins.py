"""The classes a connector's configuration can name here: what ``GET /connector-plugins`` lists.

The one place that says which ``connector.class`` is ours, for the REST API, validation, connector files, and what a worker
runs. Connectors are found by the entry points of installed distributions, and by nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from tidings_connect.config.class_names import aliases
from tidings_connect.config.option import Option
from tidings_connect.connector import Connector
from tidings_connect.converters.encoding import converter_table
from tidings_connect.registered import registered
from tidings_connect.transforms.kinds import PREDICATES, TRANSFORMS

KAFKA_CONNECT_VERSION: Final = "4.3.1"
"""The release of Kafka Connect whose API and classes these are."""
DEBEZIUM_VERSION: Final = "3.7.0.Final"
"""The release of Debezium whose transforms these are."""
SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_GROUP: Final = "tidings.connectors"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class of Kafka Connect's or Debezium's that is implemented here."""

    class_name: str
    kind: str
    """``source``, ``sink``, ``transformation``, ``predicate``, ``converter`` or ``header_converter``."""
    connector: Connector | None = None

    @property
    def version(self) -> str | None:
        """The release whose behaviour it has; None for a class that states none."""
        if self.connector is not None:
            return self.connector.version
        if self.class_name.startswith("io.debezium."):
            return DEBEZIUM_VERSION
        return KAFKA_CONNECT_VERSION if self.class_name.startswith("org.apache.kafka.") else None


@cache
def connectors() -> Mapping[str, Connector]:
    """The connectors that are installed, by class name."""
    made: list[Connector] = [connector_class() for connector_class in registered(_GROUP)]
    return {connector.class_name: connector for connector in made}


def find_connector(name: str | None) -> Connector | None:
    """The connector that a ``connector.class`` names, by its class name or one of its short names."""
    return next((c for c in connectors().values() if name in {c.class_name, *aliases(c.class_name)}), None)


def connector_of(config: Mapping[str, str]) -> Connector | None:
    """The connector that runs a configuration."""
    return find_connector(config.get("connector.class"))


def version_of(config: Mapping[str, str]) -> str:
    """What the status of a connector says of its version; Kafka Connect says ``unknown`` of a class that it has not."""
    connector = connector_of(config)
    return "unknown" if connector is None else connector.version


def kind_of(config: Mapping[str, str]) -> str:
    """``source`` or ``sink``; ``unknown`` of a class that is not here, as in Kafka Connect."""
    connector = connector_of(config)
    return "unknown" if connector is None else connector.kind


def removable() -> list[str]:
    """What connectors leave at their sources (`Connector.removable`)."""
    return sorted({what for connector in connectors().values() for what in connector.removable})


def worker_options() -> dict[str, Option]:
    """The worker's properties that connectors have declared, by name."""
    return {option.name: option for c in connectors().values() for option in c.worker_options}


@cache
def secret_names() -> frozenset[str]:
    """The options that one of the connectors calls a password."""
    return frozenset(
        name for c in connectors().values() for name, option in c.options.items() if option.secret
    )


@cache
def plugins() -> tuple[Plugin, ...]:
    """All of them."""
    return (
        *(Plugin(name, connector.kind, connector) for name, connector in connectors().items()),
        *(Plugin(name, "transformation") for name in sorted(TRANSFORMS)),
        *(Plugin(name, "predicate") for name in sorted(PREDICATES)),
        *(Plugin(name, "converter") for name in sorted(converter_table())),
        Plugin(SIMPLE_HEADER_CONVERTER, "header_converter"),
    )


def find_plugin(name: str) -> Plugin | None:
    """A plugin by its class name, or by its simple name, which may leave out what its kind ends with
    (``PostgresConnector``, ``Postgres``, ``JsonConverter``)."""
    for plugin in plugins():
        if name in {plugin.class_name, *aliases(plugin.class_name)}:
            return plugin
    return None
