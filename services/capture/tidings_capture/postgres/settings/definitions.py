"""The definitions of the connector's own options: Debezium's as recorded, and ours.

``connect_definitions.json`` holds what a real Kafka Connect with Debezium says of each option, and which values it
recommends; it is recorded by ``scripts/record_connect_definitions.py``. The texts are ours (`option_table`).
"""

import json
from functools import cache
from importlib import resources
from typing import Any, Final

from tidings_capture.postgres.settings.option_table import FIXED, OPTIONS, is_refused, text_beside_options
from tidings_connect.config.framework import FRAMEWORK_TEXTS
from tidings_connect.config.option import OUR_GROUP, Definition, definition_of_fact

_REFUSED: Final = "Not implemented here: refused when set to anything but its default."


@cache
def _recorded() -> dict[str, Any]:
    text = (
        resources.files("tidings_capture.postgres.settings")
        .joinpath("connect_definitions.json")
        .read_text(encoding="utf-8")
    )
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def own_definitions() -> tuple[Definition, ...]:
    """In the order of Kafka Connect's answer, ours at the end."""
    recorded = [definition_of_fact(fact) for fact in _recorded()["connector"]]
    own = [option for option in OPTIONS.values() if option.name.startswith("tidings.")]
    return (*recorded, *(option.definition(OUR_GROUP, order) for order, option in enumerate(own, 1)))


@cache
def recorded_defaults() -> dict[str, str | None]:
    """Debezium's defaults, by option."""
    return {definition.name: definition.default_value for definition in own_definitions()}


def own_groups() -> list[str]:
    """Their groups, in order."""
    return [*_recorded()["groups"], OUR_GROUP]


def documentation(name: str) -> str:
    """What an option means, in a sentence."""
    if is_refused(name):
        return _REFUSED
    option = OPTIONS.get(name)
    known = "" if option is None else option.documentation
    said = [known or text_beside_options(name) or FRAMEWORK_TEXTS.get(name, "")]
    if name in FIXED:
        said.append(f"The only value it takes here is {FIXED[name] or 'an empty one'}.")
    return " ".join(filter(None, said))


def recommended(name: str) -> list[str]:
    """The values to choose an option's from: Debezium's, without those that are not implemented here."""
    option = OPTIONS.get(name)
    taken = None if option is None or not option.values else {value.lower() for value in option.values}
    if name in FIXED:
        taken = {FIXED[name]}
    values: list[str] = _recorded()["recommended"].get(name, [])
    if not values and option is not None and name.startswith("tidings."):
        return list(option.values)
    return [] if is_refused(name) else [value for value in values if taken is None or value in taken]
