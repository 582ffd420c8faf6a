"""The classes a connector's configuration can name here: what ``GET /connector-plugins`` lists."""

from dataclasses import dataclass
from typing import Final

from tidings_capture.class_names import CONNECTOR_CLASS, aliases
from tidings_capture.option_table import CONNECTOR_VERSION
from tidings_connect.converters.encoding import (
    APICURIO_AVRO_CONVERTER,
    CONFLUENT_AVRO_CONVERTER,
    JSON_CONVERTER,
)
from tidings_connect.transforms.kinds import PREDICATES, TRANSFORMS

KAFKA_CONNECT_VERSION: Final = "4.3.1"
"""The release of Kafka Connect whose API and classes these are."""
SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class of Kafka Connect's or Debezium's that is implemented here."""

    class_name: str
    kind: str
    """``source``, ``transformation``, ``predicate``, ``converter`` or ``header_converter``."""

    @property
    def version(self) -> str | None:
        """The release whose behaviour it has; None for a class that states none."""
        if self.class_name.startswith("io.debezium."):
            return CONNECTOR_VERSION
        return KAFKA_CONNECT_VERSION if self.class_name.startswith("org.apache.kafka.") else None


PLUGINS: Final = (
    Plugin(CONNECTOR_CLASS, "source"),
    *(Plugin(name, "transformation") for name in sorted(TRANSFORMS)),
    *(Plugin(name, "predicate") for name in sorted(PREDICATES)),
    *(
        Plugin(name, "converter")
        for name in sorted((APICURIO_AVRO_CONVERTER, CONFLUENT_AVRO_CONVERTER, JSON_CONVERTER))
    ),
    Plugin(SIMPLE_HEADER_CONVERTER, "header_converter"),
)


def find_plugin(name: str) -> Plugin | None:
    """A plugin by its class name, or by its simple name, which may leave out what its kind ends with
    (``PostgresConnector``, ``Postgres``, ``JsonConverter``)."""
    for plugin in PLUGINS:
        if name in {plugin.class_name, *aliases(plugin.class_name)}:
            return plugin
    return None
