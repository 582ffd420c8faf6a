"""The options of transforms and predicates: what Kafka Connect's ``ConfigDef`` does, in the same words."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

OptionKind = Literal["string", "int", "boolean", "list"]
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+")
_INT_LIMIT: Final = 2**31


class SettingError(Exception):
    """An option of a transform is missing or wrong.

    Args:
        option: the option without the alias's prefix.
        problem: what is wrong, to follow ``<prefix><option>``; a complete sentence where `whole` is set.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option}: {problem}")
        self.option = option
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Setting:
    """One option."""

    name: str
    kind: OptionKind = "string"
    default: str | None = None
    required: bool = False
    values: tuple[str, ...] = ()
    """The values it takes; in any case (as in Debezium)."""
    check: Callable[[Any], str | None] | None = None
    """A further check of the typed value; what is wrong, or None."""

    def read(self, text: str | None) -> Any:
        """The typed value.

        Raises:
            SettingError: it is missing, of another type, or not allowed.
        """
        if text is None:
            if self.required:
                raise SettingError(self.name, MISSING)
            text = self.default
        value = self._parsed(text)
        if self.values and value is not None and str(value).lower() not in self.values:
            raise self._wrong(text, f"Value must be one of {', '.join(self.values)}")
        if self.check is not None and value is not None:
            problem = self.check(value)
            if problem is not None:
                raise self._wrong(text, problem)
        return value

    def _parsed(self, text: str | None) -> Any:
        if text is None:
            return [] if self.kind == "list" else None
        match self.kind:
            case "boolean":
                if text.strip().lower() not in ("true", "false"):
                    raise self._wrong(text, "Expected value to be either true or false")
                return text.strip().lower() == "true"
            case "int":
                if not _WHOLE_NUMBER.fullmatch(text.strip()) or not -_INT_LIMIT <= int(text) < _INT_LIMIT:
                    raise self._wrong(text, "Not a number of type INT")
                return int(text)
            case "list":
                return [part.strip() for part in text.split(",")] if text.strip() else []
            case _:
                return text.strip()

    def _wrong(self, text: str | None, why: str) -> SettingError:
        return SettingError(self.name, f"{text}\0{why}")


MISSING: Final = "\0missing"
"""The problem of an option that is required and not there."""
NOT_EMPTY: Final[Callable[[list[str]], str | None]] = lambda value: None if value else "Empty list"  # noqa: E731


def problem_text(prefix: str, error: SettingError) -> str:
    """The error in Kafka Connect's words.

    Args:
        prefix: what stands before the option, for example ``transforms.unwrap.``.
    """
    name = prefix + error.option
    if error.problem == MISSING:
        return f'Missing required configuration "{name}" which has no default value.'
    value, separator, why = error.problem.partition("\0")
    if separator:
        return f"Invalid value {value} for configuration {name}: {why}"
    return f"{name}: {error.problem}" if error.option else f"{prefix.rstrip('.')}: {error.problem}"


class ConfigSpec:
    """The options a class takes."""

    def __init__(self, *settings: Setting) -> None:
        self.settings = {setting.name: setting for setting in settings}

    def read(self, config: Mapping[str, str]) -> "Settings":
        """Type all of them.

        Raises:
            SettingError: the first that is missing or wrong, or that there is none of.
        """
        unknown = sorted(config.keys() - self.settings.keys())
        if unknown:
            raise SettingError(unknown[0], f"no such option; it takes {', '.join(self.settings) or 'none'}")
        return Settings({name: setting.read(config.get(name)) for name, setting in self.settings.items()})


class Settings(dict[str, Any]):
    """Typed options by name; text for classes that have no `ConfigSpec`."""

    def text(self, name: str) -> str:
        """An option that has a value."""
        return str(self[name])

    def optional(self, name: str) -> str | None:
        """An option that may have no value."""
        value = self[name]
        return None if value is None else str(value)

    def flag(self, name: str) -> bool:
        return bool(self[name])

    def items_of(self, name: str) -> list[str]:
        """A list."""
        return list(self[name])


def names(settings: Iterable[Setting]) -> list[str]:
    """The options' names."""
    return [setting.name for setting in settings]


REPLACE_NULL: Final = Setting("replace.null.with.default", "boolean", "true")
