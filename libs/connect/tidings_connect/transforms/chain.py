"""The chain of transforms of one connector, from its options."""

import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidings_connect.errors import ConnectError
from tidings_connect.transforms.config import MISSING, SettingError, Settings, problem_text
from tidings_connect.transforms.kinds import find_predicate, find_transform
from tidings_connect.transforms.record import DataError, Predicate, SourceRecord, Transform
from tidings_service import Retry

_TYPE: Final = "type"
_IMPLICIT: Final = ("predicate", "negate")


class TransformError(ConnectError):
    """A transform failed; names it and the record's position."""

    code = "transform"


@dataclass(frozen=True, slots=True)
class Stage:
    """One transform, and when it is applied."""

    alias: str
    kind: str
    transform: Transform
    predicate: Predicate | None
    negate: bool


class Chain:
    """Applies transforms in order.

    Args:
        pauses: of a transform whose failure may pass (``retry`` is timed): each pause is followed by another attempt.
    """

    def __init__(self, stages: list[Stage], pauses: Callable[[], Iterator[None]] | None = None) -> None:
        self._stages = stages
        self._pauses = pauses
        self.router: str | None = None
        """The last transform that sent a record to another topic."""

    def apply(self, record: SourceRecord, where: str) -> SourceRecord | None:
        """The record that comes out at the end; None: a transform dropped it.

        Args:
            where: the record's position, for messages.

        Raises:
            TransformError: a transform failed.
        """
        current: SourceRecord | None = record
        for stage in self._stages:
            if current is None:
                return None
            made, failure = _applied(stage, current, where)
            if failure is not None:
                made = self._again(stage, current, where, failure)
            if made is not None and made.topic != current.topic:
                self.router = stage.alias
            current = made
        return current

    def _again(
        self, stage: Stage, record: SourceRecord, where: str, failure: TransformError
    ) -> SourceRecord | None:
        if self._pauses is not None and failure.retry == Retry.TIMED:
            for _ in self._pauses():
                made, further = _applied(stage, record, where)
                if further is None:
                    return made
                failure = further
                if failure.retry != Retry.TIMED:
                    break
        # Without its cause: what other people's exceptions say may be a value.
        raise failure from None

    def close(self) -> None:
        """Close all transforms."""
        for stage in self._stages:
            stage.transform.close()


def _applied(
    stage: Stage, record: SourceRecord, where: str
) -> tuple[SourceRecord | None, TransformError | None]:
    """What one transform makes of a record, or how it failed."""
    try:
        if stage.predicate is not None and stage.predicate.test(record) is stage.negate:
            return record, None
        return stage.transform.apply(record), None
    except Exception as error:  # noqa: BLE001 - a transform may be anybody's code
        return None, _failure(stage, error, where)


def _failure(stage: Stage, error: Exception, where: str) -> TransformError:
    what = f"transforms.{stage.alias} ({stage.kind}) failed on {where}"
    if getattr(error, "retry", None) == Retry.TIMED:
        return TransformError(f"{what}, for now: {type(error).__name__}", retry=Retry.TIMED)
    if isinstance(error, DataError):
        return TransformError(f"{what}: {error}", hint="correct the transform, or give it a predicate")
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {frames[-1].name}, line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
    return TransformError(f"{what}: {type(error).__name__}{place}", hint="correct the transform")


def has_transforms(config: Mapping[str, str]) -> bool:
    """Whether a connector's options ask for any."""
    return bool(_aliases(config, "transforms"))


def check_transforms(config: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with ``transforms`` and ``predicates``, by option; the words are Kafka Connect's where it has any."""
    problems: dict[str, list[str]] = {}
    _build(config, problems)
    return problems


def make_chain(config: Mapping[str, str], pauses: Callable[[], Iterator[None]] | None = None) -> Chain:
    """The chain of a configuration that `check_transforms` finds nothing wrong with.

    Args:
        pauses: see `Chain`.

    Raises:
        TransformError: there is something wrong after all.
    """
    problems: dict[str, list[str]] = {}
    stages = _build(config, problems)
    if problems:
        raise TransformError("; ".join(text for texts in problems.values() for text in texts))
    return Chain(stages, pauses)


def _aliases(config: Mapping[str, str], option: str) -> list[str]:
    return [alias.strip() for alias in config.get(option, "").split(",") if alias.strip()]


def _build(config: Mapping[str, str], problems: dict[str, list[str]]) -> list[Stage]:
    for option in ("transforms", "predicates"):
        _check_aliases(config, option, problems)
    predicates = {
        alias: _make(
            f"predicates.{alias}.", _options(config, f"predicates.{alias}."), find_predicate, problems
        )
        for alias in _aliases(config, "predicates")
    }
    stages = []
    for alias in _aliases(config, "transforms"):
        prefix = f"transforms.{alias}."
        options = _options(config, prefix)
        predicate, negate = _implicit(prefix, options, predicates.keys(), problems)
        kind = options.get(_TYPE, "")
        made = _make(prefix, options, find_transform, problems)
        if isinstance(made, Transform):
            found = predicates.get(predicate) if predicate is not None else None
            stages.append(Stage(alias, kind, made, found if isinstance(found, Predicate) else None, negate))
    return stages


def _check_aliases(config: Mapping[str, str], option: str, problems: dict[str, list[str]]) -> None:
    aliases = _aliases(config, option)
    twice = sorted({alias for alias in aliases if aliases.count(alias) > 1})
    if twice:
        problems[option] = [f"{option} names {', '.join(twice)} more than once"]
    prefixes = tuple(f"{option}.{alias}." for alias in aliases)
    for name in config:
        if name.startswith(f"{option}.") and not name.startswith(prefixes):
            alias = name.split(".")[1]
            problems[name] = [f"{name}: {option} does not name {alias}"]


def _options(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}


def _implicit(
    prefix: str, options: dict[str, str], known: Collection[str], problems: dict[str, list[str]]
) -> tuple[str | None, bool]:
    """Takes ``predicate`` and ``negate`` out of a transform's options."""
    predicate, negate = (options.pop(name, None) for name in _IMPLICIT)
    if negate is not None and predicate is None:
        text = f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a predicate"
        problems[f"{prefix}negate"] = [f"{text} to be negated."]
    if negate is not None and negate.strip().lower() not in ("true", "false"):
        problems[f"{prefix}negate"] = [
            f"Invalid value {negate} for configuration {prefix}negate: Expected value to be either true or false"
        ]
    if predicate is not None and predicate.strip() not in known:
        problems[f"{prefix}predicate"] = [f"{prefix}predicate={predicate}: predicates does not name it"]
    return None if predicate is None else predicate.strip(), (negate or "").strip().lower() == "true"


def _make(
    prefix: str,
    options: dict[str, str],
    find: Callable[[str], type[Transform] | type[Predicate]],
    problems: dict[str, list[str]],
) -> Transform | Predicate | None:
    kind = options.pop(_TYPE, "").strip()
    if not kind:
        problems[prefix + _TYPE] = [problem_text(prefix, SettingError(_TYPE, MISSING))]
        return None
    try:
        found = find(kind)
        for error in found.CONFIG.problems(options) if found.CONFIG is not None else ():
            problems[prefix + error.option] = [problem_text(prefix, error)]
        settings = found.CONFIG.read(options) if found.CONFIG is not None else Settings(options)
        made: Transform | Predicate = found(settings)
    except SettingError as error:
        problems[prefix + error.option if error.option else prefix + _TYPE] = [problem_text(prefix, error)]
        return None
    except Exception as error:  # noqa: BLE001 - the constructor of somebody's class
        problems[prefix + _TYPE] = [f"{prefix}{_TYPE}={kind} cannot be made: {type(error).__name__}"]
        return None
    return made
