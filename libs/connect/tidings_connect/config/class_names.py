"""What a class may be called in a configuration: by its class name, or by the short names that Kafka Connect knows it by.

Short names (``PluginUtils.pluginAliases``, ``Plugins.connectorClass``): the simple name, and that without
``Connector`` or ``Converter`` at its end. Case counts.
"""


def aliases(class_name: str) -> tuple[str, ...]:
    """The short names of a class."""
    simple = class_name.rpartition(".")[2]
    short = next((simple.removesuffix(s) for s in ("Connector", "Converter") if simple.endswith(s)), simple)
    return (simple, short) if short else (simple,)
