"""The values of a worker's properties, read by what their options say of them: type, default and checks. Tasks use it too."""

from collections.abc import Mapping
from typing import Final

from tidings_connect.config.option import Option, value_problem
from tidings_connect.data.sizes import parse_size
from tidings_connect.errors import WorkerConfigError

OFFSET_FILE: Final = "offset.storage.file.filename"


class PropertyValues:
    """Reads properties by what their options say of them.

    Args:
        given: as in the file, with references resolved.
        options: by name.
    """

    def __init__(self, given: Mapping[str, str], options: Mapping[str, Option]) -> None:
        self._given = given
        self._options = options

    def required(self, name: str) -> str:
        """A text that must be there."""
        value = self._given.get(name, "").strip()
        if not value:
            raise WorkerConfigError(
                f"{name} is missing in the worker's properties",
                hint=f"a Kafka Connect distributed worker's file has it; a standalone one has {OFFSET_FILE} "
                "and no group.id",
            )
        return value

    def integer(self, name: str) -> int:
        """A whole number; the default where it is not given."""
        try:
            return int(self._text(name))
        except ValueError as error:
            raise WorkerConfigError(f"{name} must be a whole number") from error

    def milliseconds(self, name: str) -> float:
        """In seconds."""
        return self.integer(name) / 1000

    def size(self, name: str) -> int | None:
        """Bytes; None where there is neither a value nor a default."""
        text = self._text(name).strip()
        try:
            return parse_size(text) if text else None
        except ValueError as error:
            raise WorkerConfigError(f"{name} {error}") from error

    def boolean(self, name: str) -> bool:
        """True or false."""
        value = self._text(name).strip().lower()
        if value not in {"true", "false"}:
            raise WorkerConfigError(f"{name} must be true or false")
        return value == "true"

    def one_of(self, name: str) -> str:
        """One of its values."""
        value = self._text(name).strip().lower()
        values = self._options[name].values
        if value not in values:
            raise WorkerConfigError(f"{name} must be one of {', '.join(values)}")
        return value

    def checked(self) -> dict[str, str]:
        """The options' values and defaults by name, without those that have neither."""
        for name, option in self._options.items():
            if option.kind in {"short", "int", "long"}:
                self.integer(name)
            elif problem := value_problem(option, self._text(name)):
                raise WorkerConfigError(f"{name} {problem}")
        return {name: text for name in self._options if (text := self._text(name).strip())}

    def _text(self, name: str) -> str:
        return self._given.get(name, self._options[name].default or "")
