"""Commits that are made again, where another one, as of a compaction, came between and Iceberg does not try them again itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tidings_lakehouse.tables.troubles import is_lost_race
from tidings_service import get_logger

_LOG = get_logger("tidings_lakehouse.tables.races")
R = TypeVar("R")


def until_it_holds(name: str, attempts: int, action: Callable[[], R]) -> R:
    """Do something that commits to a table; again when it lost the race.

    Args:
        name: of the table.
        attempts: at most; the last one's error is raised.
        action: does what is still to be done, on the table as it is then.
    """
    for _ in range(attempts - 1):
        try:
            return action()
        except (PySparkException, Py4JJavaError) as error:
            if not is_lost_race(error):
                raise
            _LOG.info("a change of a table is made again, since another commit came first", table=name)
    return action()
