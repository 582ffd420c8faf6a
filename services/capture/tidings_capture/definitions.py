"""The definitions of options as ``/connector-plugins`` shows them: Debezium's, Kafka Connect's and ours.

``connect_definitions.json`` holds what a real Kafka Connect 4.3.1 with Debezium 3.7.0.Final says of each option (name,
type, required, default, importance, group, order, width, display name, dependents) and which values it recommends; it is
recorded by ``scripts/record_connect_definitions.py``. The texts are ours (`option_texts`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final

from tidings_capture.option_table import FIXED, OPTIONS, Option, is_refused
from tidings_capture.option_texts import TEXTS
from tidings_capture.plugins import PLUGINS, Plugin, find_plugin

_FRAMEWORK_GROUPS: Final = frozenset(
    {
        "Common",
        "Transforms",
        "Predicates",
        "Error Handling",
        "Topic Creation",
        "Exactly Once Support",
        "offsets.topic",
    }
)
_TYPES: Final = {
    "int": "INT",
    "long": "LONG",
    "boolean": "BOOLEAN",
    "list": "LIST",
    "class": "CLASS",
    "password": "PASSWORD",
}
_OURS: Final = "TIDINGS"
_REFUSED: Final = "Not implemented here: refused when set."
_IMPORTANCE: Final = ("HIGH", "MEDIUM", "LOW")
_CHAINS: Final = (("transforms", "transformation"), ("predicates", "predicate"))
PLUGIN_VERSION: Final = ".plugin.version"
_KIND_OF_CLASS: Final = {
    "key.converter": "converter",
    "value.converter": "converter",
    "header.converter": "header_converter",
}


@dataclass(frozen=True, slots=True)
class Definition:
    """One option's definition; the fields are those of ``ConfigKeyInfo``."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: tuple[str, ...] = ()

    @property
    def of_framework(self) -> bool:
        """Whether Kafka Connect itself defines it, rather than the connector."""
        return self.group in _FRAMEWORK_GROUPS or (self.group or "").startswith(
            ("Transforms: ", "Predicates: ")
        )

    def shown(self, text: str | None = None) -> dict[str, Any]:
        """As ``/connector-plugins`` answers."""
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "default_value": self.default_value,
            "importance": self.importance,
            "documentation": documentation(self.name) if text is None else text,
            "group": self.group,
            "order_in_group": self.order_in_group,
            "width": self.width,
            "display_name": self.display_name,
            "dependents": list(self.dependents),
        }


def documentation(name: str) -> str:
    """What an option means, in a sentence."""
    if is_refused(name):
        return _REFUSED
    option = OPTIONS.get(name)
    said = [TEXTS.get(name, "") or ("" if option is None else option.documentation)]
    if name in FIXED:
        said.append(f"The only value it takes here is {FIXED[name] or 'an empty one'}.")
    return " ".join(filter(None, said))


@cache
def _recorded() -> dict[str, Any]:
    text = resources.files("tidings_capture").joinpath("connect_definitions.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def connector_definitions() -> dict[str, Definition]:
    """The connector's options in the order of Kafka Connect's answer, ours at the end."""
    found = [_definition(fact) for fact in _recorded()["connector"]]
    own = [option for option in OPTIONS.values() if option.name.startswith("tidings.")]
    found += [_own_definition(option, order) for order, option in enumerate(own, 1)]
    return {definition.name: definition for definition in found}


def groups(config: Mapping[str, str]) -> list[str]:
    """The groups of the options of a configuration."""
    framework = [group for group in _recorded()["groups"] if group in _FRAMEWORK_GROUPS]
    connector = [group for group in _recorded()["groups"] if group not in _FRAMEWORK_GROUPS]
    chains = [
        f"{option.capitalize()}: {alias}" for option, _kind in _CHAINS for alias in _aliases(config, option)
    ]
    converters = (definition.group for definition in converter_definitions(config))
    return list(dict.fromkeys([*framework, *chains, *connector, *filter(None, converters), _OURS]))


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
    if plugin.kind == "source":
        known = connector_definitions().values()
        plain = [replace(d, default_value=None) if _is_of_converter(d.name) else d for d in known]
        return (*(d for d in plain if not d.of_framework), *(d for d in plain if d.of_framework))
    return tuple(_definition(fact) for fact in _recorded().get(plugin.class_name, ()))


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


def recommended(definition: Definition) -> list[str]:
    """The values to choose an option's from: Debezium's, without those that are not implemented here."""
    name = definition.name
    option, kind = OPTIONS.get(name), _KIND_OF_CLASS.get(name)
    if name.startswith(("transforms.", "predicates.")) and name.endswith(".type"):
        kind = "transformation" if name.startswith("transforms.") else "predicate"
    if kind is not None:
        return [plugin.class_name for plugin in PLUGINS if plugin.kind == kind]
    if name.endswith(PLUGIN_VERSION):
        return [] if definition.default_value is None else [definition.default_value]
    taken = None if option is None or not option.values else {value.lower() for value in option.values}
    if name in FIXED:
        taken = {FIXED[name]}
    values: list[str] = _recorded()["recommended"].get(name, [])
    if not values and option is not None and name.startswith("tidings."):
        return list(option.values)
    return [] if is_refused(name) else [value for value in values if taken is None or value in taken]


def _definition(fact: list[Any]) -> Definition:
    values = dict(zip(Definition.__slots__, fact, strict=True))
    return Definition(**{**values, "dependents": tuple(values["dependents"])})


def _own_definition(option: Option, order: int) -> Definition:
    kind = _TYPES.get(option.kind, "STRING")
    return Definition(
        option.name, kind, option.required, option.default, "MEDIUM", _OURS, order, "MEDIUM", option.name
    )


def _aliases(config: Mapping[str, str], option: str) -> list[str]:
    named = (alias.strip() for alias in config.get(option, "").split(","))
    return list(dict.fromkeys(alias for alias in named if alias))
