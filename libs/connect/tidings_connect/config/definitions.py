"""The definitions of options as ``/connector-plugins`` shows them: Kafka Connect's own, and those of its plugins.

``definitions.json`` holds what a real Kafka Connect 4.3.1 with Debezium 3.7.0.Final says of each option (name,
type, required, default, importance, group, order, width, display name, dependents) and which values it recommends; it is
recorded by ``scripts/record_connect_definitions.py``. The texts are ours.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Final

from tidings_connect.config.option import OUR_GROUP, Definition, definition_of_fact
from tidings_connect.config.plugins import Plugin, find_plugin, plugins
from tidings_connect.connector import Connector

_IMPORTANCE: Final = ("HIGH", "MEDIUM", "LOW")
_CHAINS: Final = (("transforms", "transformation"), ("predicates", "predicate"))
_GROUPS_OF_SOURCES: Final = frozenset({"Topic Creation", "Exactly Once Support", "offsets.topic"})
_LETTERS: Final = "errors.deadletterqueue."
_OF_SINKS: Final = (
    Definition("topics", "LIST", False, "", "HIGH", "Common", 4, "LONG", "Topics"),
    Definition("topics.regex", "STRING", False, "", "HIGH", "Common", 4, "LONG", "Topics regex"),
    Definition(
        f"{_LETTERS}topic.name",
        "STRING",
        False,
        "",
        "MEDIUM",
        "Error Handling",
        6,
        "MEDIUM",
        "Dead Letter Queue Topic Name",
    ),
    Definition(
        f"{_LETTERS}topic.replication.factor",
        "SHORT",
        False,
        "3",
        "MEDIUM",
        "Error Handling",
        7,
        "MEDIUM",
        "Dead Letter Queue Topic Replication Factor",
    ),
    Definition(
        f"{_LETTERS}context.headers.enable",
        "BOOLEAN",
        False,
        "false",
        "MEDIUM",
        "Error Handling",
        8,
        "MEDIUM",
        "Enable Error Context Headers",
    ),
)
"""What a real Kafka Connect 4.3.1 says of the options that only sinks have (``SinkConnectorConfig.configDef``)."""
PLUGIN_VERSION: Final = ".plugin.version"
_KIND_OF_CLASS: Final = {
    "key.converter": "converter",
    "value.converter": "converter",
    "header.converter": "header_converter",
}


@cache
def _recorded() -> dict[str, Any]:
    text = resources.files("tidings_connect.config").joinpath("definitions.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def _framework() -> tuple[Definition, ...]:
    return tuple(definition_of_fact(fact) for fact in _recorded()["framework"])


def connector_definitions(connector: Connector) -> dict[str, Definition]:
    """The options of a connector in the order of Kafka Connect's answer: those that every connector has first."""
    shared = [
        replace(d, default_value=connector.version) if d.name == f"connector{PLUGIN_VERSION}" else d
        for d in _framework()
        if connector.kind != "sink" or d.group not in _GROUPS_OF_SOURCES
    ]
    of_kind = _OF_SINKS if connector.kind == "sink" else ()
    return {d.name: d for d in (*shared, *of_kind, *connector.definitions())}


def groups(config: Mapping[str, str], connector: Connector) -> list[str]:
    """The groups of the options of a configuration."""
    chains = [
        f"{option.capitalize()}: {alias}" for option, _kind in _CHAINS for alias in _aliases(config, option)
    ]
    converters = (definition.group for definition in converter_definitions(config))
    own = [group for group in connector.groups() if group != OUR_GROUP]
    ours = [OUR_GROUP] if OUR_GROUP in connector.groups() else []
    of_all = [
        group
        for group in _recorded()["groups"]
        if connector.kind != "sink" or group not in _GROUPS_OF_SOURCES
    ]
    return list(dict.fromkeys([*of_all, *chains, *own, *filter(None, converters), *ours]))


def chain_definitions(config: Mapping[str, str]) -> list[Definition]:
    """What the transforms and predicates of a configuration take, under their aliases."""
    found = []
    for option, kind in _CHAINS:
        for alias in _aliases(config, option):
            found += _of_alias(f"{option}.{alias}.", f"{option.capitalize()}: {alias}", kind, alias, config)
    return found


def _of_alias(prefix: str, group: str, kind: str, alias: str, config: Mapping[str, str]) -> list[Definition]:
    plugin = find_plugin(config.get(f"{prefix}type", ""))
    version = None if plugin is None else plugin.version
    title = kind.capitalize()
    first = [
        Definition("type", "CLASS", True, None, "HIGH", None, -1, "LONG", f"{title} type for {alias}"),
        Definition(
            "plugin.version",
            "STRING",
            False,
            version,
            "HIGH",
            None,
            -1,
            "LONG",
            f"{title} version for {alias}",
        ),
    ]
    options = list(plugin_definitions(plugin)) if plugin is not None else []
    if plugin is not None and option_has_predicate(kind):
        options += [
            Definition("negate", "BOOLEAN", False, "false", "MEDIUM", None, -1, "NONE", "negate"),
            Definition("predicate", "STRING", False, None, "MEDIUM", None, -1, "NONE", "predicate"),
        ]
    options.sort(key=lambda d: (d.order_in_group, not d.required, _IMPORTANCE.index(d.importance), d.name))
    return [
        replace(definition, name=prefix + definition.name, group=group, order_in_group=order)
        for order, definition in enumerate([*first, *options])
    ]


def option_has_predicate(kind: str) -> bool:
    """Whether a plugin of that kind takes ``predicate`` and ``negate``."""
    return kind == "transformation"


def converter_definitions(config: Mapping[str, str]) -> list[Definition]:
    """What the converters take that a configuration itself names."""
    found = []
    for option in ("header.converter", "key.converter", "value.converter"):
        plugin = find_plugin(config.get(option, ""))
        if plugin is not None:
            found += [replace(d, name=f"{option}.{d.name}") for d in plugin_definitions(plugin)]
    return found


def plugin_definitions(plugin: Plugin) -> tuple[Definition, ...]:
    """The options of a plugin itself; of the connector, its own before Kafka Connect's."""
    if plugin.connector is not None:
        known = connector_definitions(plugin.connector).values()
        plain = [replace(d, default_value=None) if _is_of_converter(d.name) else d for d in known]
        return (*(d for d in plain if not d.of_framework), *(d for d in plain if d.of_framework))
    return tuple(definition_of_fact(fact) for fact in _recorded().get(plugin.class_name, ()))


def with_converters(definition: Definition, converters: Mapping[str, str]) -> Definition:
    """The definition of a converter, whose default is the worker's, or of a converter's version.

    Args:
        converters: the class of each converter that is used, by property; the worker's where the connector has none.
    """
    name = definition.name.removesuffix(PLUGIN_VERSION)
    if not _is_of_converter(definition.name) or name not in converters:
        return definition
    if name == definition.name:
        return replace(definition, default_value=converters[name])
    plugin = find_plugin(converters[name])
    return replace(definition, default_value=None if plugin is None else plugin.version)


def _is_of_converter(name: str) -> bool:
    return name.removesuffix(PLUGIN_VERSION) in _KIND_OF_CLASS


def recommended(definition: Definition, connector: Connector) -> list[str]:
    """The values to choose an option's from."""
    name = definition.name
    kind = _KIND_OF_CLASS.get(name)
    if name.startswith(("transforms.", "predicates.")) and name.endswith(".type"):
        kind = "transformation" if name.startswith("transforms.") else "predicate"
    if kind is not None:
        return [plugin.class_name for plugin in plugins() if plugin.kind == kind]
    if name.endswith(PLUGIN_VERSION):
        return [] if definition.default_value is None else [definition.default_value]
    return [] if definition.of_framework else connector.recommended(definition)


def _aliases(config: Mapping[str, str], option: str) -> list[str]:
    named = (alias.strip() for alias in config.get(option, "").split(","))
    return list(dict.fromkeys(alias for alias in named if alias))
