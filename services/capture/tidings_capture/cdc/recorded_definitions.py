"""The definitions of a connector's own options: the reference connector's as recorded, with our texts, and ours.

A file of the package holds what a real Kafka Connect with Debezium says of each option, and which values it recommends; it is
recorded by ``scripts/record_connect_definitions.py``.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import resources
from typing import Any, ClassVar, Final

from tidings_connect.config.framework import FRAMEWORK_TEXTS
from tidings_connect.config.option import OUR_GROUP, Definition, Option, definition_of_fact
from tidings_connect.connector import Connector

_REFUSED: Final = "Not implemented here: refused when set to anything but its default."


class RecordedDefinitions:
    """Those of one connector.

    Args:
        package: in which the file is.
        file: its name.
        options: that are obeyed, by name.
        fixed: options that take one value, and which.
        ours: options to show behind the reference connector's, but for those that it lists itself.
        is_refused: whether an option is one that is not implemented.
        text: what an option means that is not obeyed, in a sentence; empty where nothing is known.
    """

    def __init__(
        self,
        package: str,
        file: str,
        *,
        options: Mapping[str, Option],
        fixed: Mapping[str, str],
        ours: Iterable[Option],
        is_refused: Callable[[str], bool],
        text: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._package, self._file = package, file
        self._options, self._fixed = options, fixed
        self._ours = tuple(ours)
        self._is_refused, self._text = is_refused, text

    @cached_property
    def _recorded(self) -> dict[str, Any]:
        text = resources.files(self._package).joinpath(self._file).read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found

    @cached_property
    def _unlisted(self) -> dict[str, Option]:
        listed = {fact[0] for fact in self._recorded["connector"]}
        return {option.name: option for option in self._ours if option.name not in listed}

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """In the order of Kafka Connect's answer, ours at the end."""
        recorded = [definition_of_fact(fact) for fact in self._recorded["connector"]]
        own = enumerate(self._unlisted.values(), 1)
        return (*recorded, *(option.definition(OUR_GROUP, order) for order, option in own))

    @cached_property
    def defaults(self) -> dict[str, str | None]:
        """Debezium's defaults, by option."""
        return {definition.name: definition.default_value for definition in self.definitions}

    @property
    def groups(self) -> list[str]:
        """Their groups, in order."""
        return [*self._recorded["groups"], OUR_GROUP]

    def documentation(self, name: str) -> str:
        """What an option means, in a sentence."""
        if self._is_refused(name):
            return _REFUSED
        option = self._options.get(name)
        known = "" if option is None else option.documentation
        said = [known or self._text(name) or FRAMEWORK_TEXTS.get(name, "")]
        if name in self._fixed:
            said.append(f"The only value it takes here is {self._fixed[name] or 'an empty one'}.")
        return " ".join(filter(None, said))

    def recommended(self, name: str) -> list[str]:
        """The values to choose an option's from: Debezium's, without those that are not implemented here."""
        if name in self._unlisted:
            return list(self._unlisted[name].values)
        if self._is_refused(name):
            return []
        option = self._options.get(name)
        taken = None if option is None or not option.values else {value.lower() for value in option.values}
        if name in self._fixed:
            taken = {self._fixed[name]}
        values: list[str] = self._recorded["recommended"].get(name, [])
        return [value for value in values if taken is None or value.lower() in taken]


class DebeziumConnector(Connector):
    """A connector whose options are shown as Debezium shows them."""

    recorded: ClassVar[RecordedDefinitions]

    def definitions(self) -> Sequence[Definition]:
        """Debezium's and ours."""
        return self.recorded.definitions

    def groups(self) -> Sequence[str]:
        """Debezium's and ours."""
        return self.recorded.groups

    def documentation(self, name: str) -> str:
        """What an option means, in a sentence."""
        return self.recorded.documentation(name)

    def recommended(self, definition: Definition) -> list[str]:
        """Debezium's, without those that are not implemented here."""
        return self.recorded.recommended(definition.name)
