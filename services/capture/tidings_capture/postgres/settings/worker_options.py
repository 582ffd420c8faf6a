"""The worker's properties that are PostgreSQL's: how often slots are looked at, and what a spool may take on disk."""

from collections.abc import Mapping
from typing import Final

from tidings_capture.cdc.spool import FREE_DISK, MOST_DISK
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import size_problem
from tidings_connect.config.properties.values import PropertyValues
from tidings_service.disk import DEFAULT_FREE_BYTES

WAL_INTERVAL: Final = "tidings.wal.interval.ms"
_SIZE: Final = "bytes; `KB`, `MB`, `GB` may follow"
WORKER_OPTIONS: Final = (
    Option(
        MOST_DISK,
        form=_SIZE,
        default_text="what there is",
        check=size_problem,
        documentation="What unfinished transactions of a PostgreSQL task may take on disk.",
    ),
    Option(
        FREE_DISK,
        default=str(DEFAULT_FREE_BYTES),
        form=_SIZE,
        check=size_problem,
        documentation="What must be left free of that disk.",
    ),
    Option(
        WAL_INTERVAL,
        "int",
        "10000",
        documentation="Between two looks at the slots of the PostgreSQL connectors' servers.",
    ),
)
_OPTIONS: Final = {option.name: option for option in WORKER_OPTIONS}
_SHORTEST_SECONDS: Final = 0.1


def wal_interval_seconds(properties: Mapping[str, str]) -> float:
    """Between two looks at the slots."""
    return max(_SHORTEST_SECONDS, PropertyValues(properties, _OPTIONS).milliseconds(WAL_INTERVAL))


def spool_bounds(properties: Mapping[str, str]) -> tuple[int | None, int]:
    """What a spool may take on disk (None: as much as there is room for), and what it must leave free, in bytes."""
    own = PropertyValues(properties, _OPTIONS)
    return own.size(MOST_DISK), own.size(FREE_DISK) or DEFAULT_FREE_BYTES
