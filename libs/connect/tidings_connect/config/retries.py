"""How often a failed task is started again: ``errors.max.retries`` and ``errors.retry.delay.*``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_DEFAULTS: Final = {
    "errors.max.retries": -1,
    "errors.retry.delay.initial.ms": 300,
    "errors.retry.delay.max.ms": 10000,
}


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """``errors.*``: how often, and how long to wait between attempts."""

    attempts: int
    """-1: without end."""
    first_seconds: float
    longest_seconds: float


def read_retry_options(config: Mapping[str, str]) -> RetryOptions:
    """The options that the worker itself needs of a connector."""

    def integer(name: str) -> int:
        return int(config.get(name, "").strip() or _DEFAULTS[name])

    return RetryOptions(
        integer("errors.max.retries"),
        integer("errors.retry.delay.initial.ms") / 1000,
        integer("errors.retry.delay.max.ms") / 1000,
    )
