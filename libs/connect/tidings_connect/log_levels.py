"""Log levels that change while the worker runs: Kafka Connect's ``/admin/loggers``, on Python's loggers.

Level names are log4j's. The loggers are Tidings' own (``tidings_connect.kafka.topics``); ``tidings_capture``, and
``io.debezium`` and ``org.apache.kafka.connect``, which people and their tools know, stand for ``tidings_connect`` as well. A level lasts
until the process ends. Tasks are processes of their own and are told.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

ROOT: Final = "root"
OWN: Final = ("tidings_capture", "tidings_connect", "tidings_sinks")
_ALIASES: Final = ("io.debezium", "org.apache.kafka.connect")
LEVELS: Final = {
    "OFF": logging.CRITICAL + 50,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}
"""log4j's levels as Python's numbers."""
_NAMES: Final = {number: name for name, number in LEVELS.items()}


MOST_LOGGERS: Final = 1_000
"""That levels may be set of: Python keeps a logger for ever once it has been named."""
MOST_CHARACTERS: Final = 200


class LogLevels:
    """The levels of one process.

    Args:
        on_change: hears of every change, so that task processes follow.
    """

    def __init__(self, on_change: Callable[[Mapping[str, str]], None] = lambda _: None) -> None:
        self._on_change = on_change
        self._modified: dict[str, int] = {}
        self.changed: dict[str, str] = {}
        """What was set, in order, for a process that starts later."""

    def all(self) -> dict[str, dict[str, object]]:
        """The loggers whose level was set: ``{"level", "last_modified"}`` by name, with the root's."""
        names = {ROOT, *(name for name, logger in _loggers().items() if logger.level != logging.NOTSET)}
        return {name: found for name in sorted(names) if (found := self.level(name)) is not None}

    def level(self, name: str) -> dict[str, object] | None:
        """A logger's effective level, and when it was set (milliseconds since the Unix epoch, None: never here); None
        for a logger that nobody has used."""
        if name.lower() == ROOT:
            name, logger = ROOT, logging.getLogger()
        elif (found := _loggers().get(name)) is None:
            return None
        else:
            logger = found
        number = logger.getEffectiveLevel()
        return {
            "level": _NAMES.get(number, logging.getLevelName(number)),
            "last_modified": self._modified.get(name),
        }

    def may_set(self, namespace: str) -> bool:
        """Whether a level of it may be set: of a logger that nobody has used only while few have been named here."""
        known = namespace.lower() == ROOT or namespace in _loggers() or namespace in self.changed
        return known or (len(self.changed) < MOST_LOGGERS and len(namespace) <= MOST_CHARACTERS)

    def set(self, namespace: str, level: str) -> list[str]:
        """Set the level of a logger and of all below it; their names.

        Args:
            level: one of `LEVELS`, in capitals.
        """
        names = _affected(namespace)
        for name in names:
            _logger(name).setLevel(LEVELS[level])
            self._modified[name] = time.time_ns() // 1_000_000
        self.changed.pop(namespace, None)
        self.changed[namespace] = level
        self._on_change({namespace: level})
        return names


def apply_levels(levels: Mapping[str, str]) -> None:
    """What a task's process does with levels that were set in the worker."""
    for namespace, level in levels.items():
        for name in _affected(namespace):
            _logger(name).setLevel(LEVELS[level])


def _affected(namespace: str) -> list[str]:
    if namespace.lower() == ROOT:
        return sorted({ROOT, *_loggers()})
    spaces = {namespace, *_stands_for(namespace)}
    below = {name for name in _loggers() if any(name.startswith(f"{space}.") for space in spaces)}
    return sorted(spaces | below)


def _stands_for(namespace: str) -> tuple[str, ...]:
    if namespace == OWN[0] or any(
        namespace == alias or namespace.startswith(f"{alias}.") for alias in _ALIASES
    ):
        return OWN
    return ()


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _loggers() -> dict[str, logging.Logger]:
    known = logging.root.manager.loggerDict
    return {name: logger for name, logger in known.items() if isinstance(logger, logging.Logger)}
