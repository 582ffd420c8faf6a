"""A connector's options: type, default and checks of each, and its definition as ``/connector-plugins`` shows it. Pure."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["string", "password", "short", "int", "long", "boolean", "list", "class"]

OF_FRAMEWORK: Final = frozenset(
    {
        *("name", "connector.class", "tasks.max", "key.converter", "value.converter", "header.converter"),
        *(
            "transforms",
            "predicates",
            "config.action.reload",
            "errors.retry.delay.max.ms",
            "topic.creation.groups",
        ),
    }
)
"""Options that Kafka Connect checks, in its own words, before it asks the connector."""
_BITS: Final = {"short": 16, "int": 32, "long": 64}
"""Of Java's types, which Kafka Connect reads an option as."""
FRAMEWORK_GROUPS: Final = frozenset(
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
"""The groups of the options that Kafka Connect itself defines."""
OUR_GROUP: Final = "TIDINGS"
"""Of options that neither Kafka Connect nor Debezium has; shown last."""
_TYPES: Final = {
    "short": "SHORT",
    "int": "INT",
    "long": "LONG",
    "boolean": "BOOLEAN",
    "list": "LIST",
    "class": "CLASS",
    "password": "PASSWORD",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its type, its default, and what values it takes."""

    name: str
    kind: Kind = "string"
    default: str | None = None
    required: bool = False
    values: tuple[str, ...] = ()
    check: Callable[[str], str | None] | None = None
    """A further check; what is wrong, or None."""
    documentation: str = ""
    """What it means, in a sentence; no Markdown."""
    may_be_empty: bool = True
    """Whether an empty value is as good as none."""
    only: str | None = None
    """The one value it takes here, where there is but one behaviour."""
    remark: str = ""
    """What the page of options says beside the meaning, in Markdown: what is particular here."""
    form: str = ""
    """How its values look, for the page, where type and `values` do not say it; Markdown."""
    default_text: str = ""
    """What the page says of a default that no constant is; Markdown."""

    @property
    def secret(self) -> bool:
        """Whether its values are hidden from answers, logs and traces."""
        return self.kind == "password"

    def definition(self, group: str, order: int) -> "Definition":
        """The definition of an option that no Kafka Connect has told us."""
        return Definition(
            self.name,
            _TYPES.get(self.kind, "STRING"),
            self.required,
            self.default,
            "MEDIUM",
            group,
            order,
            "MEDIUM",
            self.name,
        )


@dataclass(frozen=True, slots=True)
class Family:
    """Options whose names follow a pattern."""

    name: str
    """As the page shows it, with what varies in angle brackets."""
    recorded: str = ""
    """The name under which the reference connector describes them; empty: it does not."""
    documentation: str = ""
    remark: str = ""
    form: str = "list"
    """How their values look, for the page; Markdown."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A prefix of options that somebody else reads."""

    prefix: str
    goes_to: str = ""
    """Who reads them, in Markdown."""


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
        return self.group in FRAMEWORK_GROUPS or (self.group or "").startswith(
            ("Transforms: ", "Predicates: ")
        )

    def shown(self, documentation: str) -> dict[str, Any]:
        """As ``/connector-plugins`` answers.

        Args:
            documentation: what the option means, in a sentence.
        """
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "default_value": self.default_value,
            "importance": self.importance,
            "documentation": documentation,
            "group": self.group,
            "order_in_group": self.order_in_group,
            "width": self.width,
            "display_name": self.display_name,
            "dependents": list(self.dependents),
        }


def definition_of_fact(fact: list[Any]) -> Definition:
    """A definition as ``scripts/record_connect_definitions.py`` has recorded it."""
    values = dict(zip(Definition.__slots__, fact, strict=True))
    return Definition(**{**values, "dependents": tuple(values["dependents"])})


def worded(name: str, problem: str, value: str = "", of_framework: Collection[str] = OF_FRAMEWORK) -> str:
    """A problem as Debezium words it, or Kafka Connect where it is first to check the option.

    Args:
        of_framework: the options that Kafka Connect is first to check.
    """
    if name in of_framework:
        return f"Invalid value {value} for configuration {name}: {problem}"
    return f"The '{name}' value is invalid: {problem}"


def _is_integer(value: str, bits: int) -> bool:
    if not re.fullmatch(r"[+-]?\d{1,40}", value):
        return False
    return -(1 << (bits - 1)) <= int(value) < 1 << (bits - 1)


def value_problem(option: Option, value: str, of_framework: Collection[str] = OF_FRAMEWORK) -> str | None:
    """What is wrong with an option's value, or None.

    Args:
        of_framework: see `worded`.
    """
    value = value.strip()
    if option.required and not value:
        return None  # reported as missing
    framework = option.name in of_framework
    if option.kind in _BITS and value and not _is_integer(value, _BITS[option.kind]):
        if framework:
            return f"Not a number of type {option.kind.upper()}"
        return "A long value is expected" if option.kind == "long" else "An integer is expected"
    if option.kind == "boolean" and value.lower() not in {"true", "false"}:
        return (
            "Expected value to be either true or false"
            if framework
            else "Either 'true' or 'false' is expected"
        )
    taken = option.values if option.kind == "class" else {v.lower() for v in option.values}
    if option.values and (value if option.kind == "class" else value.lower()) not in taken:
        kind = "String must be one of:" if framework else "Value must be one of"
        return f"{kind} {', '.join(option.values)}"
    if option.check is None or (not value and option.may_be_empty):
        return None
    return option.check(value)
