"""The options of transforms and predicates: what Kafka Connect's ``ConfigDef`` does, in the same words."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

OptionKind = Literal["string", "int", "boolean", "list"]
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+")
_INT_LIMIT: Final = 2**31


class SettingError(Exception):
    """An option of a transform is missing or wrong.

    Args:
        option: the option without the alias's prefix.
        problem: what is wrong, to follow ``<prefix><option>``; or the value, a NUL and what is wrong with it.
        bare: the text names the option without the alias's prefix, as Kafka Connect does where a validator of the
            transform's own finds the mistake.
    """

    def __init__(self, option: str, problem: str, *, bare: bool = False) -> None:
        super().__init__(f"{option}: {problem}")
        self.option = option
        self.problem = problem
        self.bare = bare


@dataclass(frozen=True, slots=True)
class Setting:
    """One option."""

    name: str
    kind: OptionKind = "string"
    default: str | None = None
    required: bool = False
    values: tuple[str, ...] = ()
    """The values it takes; in any case (as in Debezium), unless `exact`."""
    exact: bool = False
    """The values are taken as they are written here (as in Kafka's transforms)."""
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
        if value is None:
            return None
        if self.exact and value not in self.values:
            raise self._refused(value, f"String must be one of: {', '.join(self.values)}")
        if self.values and not self.exact and str(value).lower() not in self.values:
            raise self._wrong(text, f"Value must be one of {', '.join(self.values)}")
        if self.check is not None and (problem := self.check(value)) is not None:
            if problem == _EMPTY:
                raise SettingError(self.name, _EMPTY)
            raise self._refused(value, problem)
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

    def _refused(self, value: Any, why: str) -> SettingError:
        """By a check, which sees the typed value."""
        shown = f"[{', '.join(value)}]" if isinstance(value, list) else value
        return SettingError(self.name, f"{shown}\0{why}", bare=True)


MISSING: Final = "\0missing"
"""The problem of an option that is required and not there."""
_EMPTY: Final = "\0empty"
NOT_EMPTY: Final[Callable[[list[str]], str | None]] = lambda value: None if value else _EMPTY  # noqa: E731
"""The check of a list that must have members."""


def problem_text(prefix: str, error: SettingError) -> str:
    """The error in Kafka Connect's words.

    Args:
        prefix: what stands before the option, for example ``transforms.unwrap.``.
    """
    name = prefix + error.option
    if error.problem == MISSING:
        return f'Missing required configuration "{name}" which has no default value.'
    if error.problem == _EMPTY:
        return f"Configuration '{error.option}' must not be empty. Valid values include: any non-empty value"
    value, separator, why = error.problem.partition("\0")
    if separator:
        return f"Invalid value {value} for configuration {error.option if error.bare else name}: {why}"
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
        for error in self.problems(config):
            raise error
        return Settings({name: setting.read(config.get(name)) for name, setting in self.settings.items()})

    def problems(self, config: Mapping[str, str]) -> Iterator[SettingError]:
        """All that is missing or wrong, or that there is none of."""
        for name in sorted(config.keys() - self.settings.keys()):
            yield SettingError(name, f"no such option; it takes {', '.join(self.settings) or 'none'}")
        for name, setting in self.settings.items():
            try:
                setting.read(config.get(name))
            except SettingError as error:
                yield error


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
