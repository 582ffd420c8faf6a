"""What a class may be called in a configuration: by its class name, or by the short names that Kafka Connect knows it by.

The one place that says which ``connector.class`` is ours, for the REST API, validation, connector files, and what a worker
runs. Short names (``PluginUtils.pluginAliases``, ``Plugins.connectorClass``): the simple name, and that without
``Connector`` or ``Converter`` at its end. Case counts.
"""

from typing import Final


def aliases(class_name: str) -> tuple[str, ...]:
    """The short names of a class."""
    simple = class_name.rpartition(".")[2]
    short = next((simple.removesuffix(s) for s in ("Connector", "Converter") if simple.endswith(s)), simple)
    return (simple, short) if short else (simple,)


CONNECTOR_CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
CONNECTOR_NAMES: Final = (CONNECTOR_CLASS, *aliases(CONNECTOR_CLASS))
"""Every name of the connector's class."""
