"""Exactly once: what a worker and a connector ask for, and what is checked before a connector is stored.

As in Kafka Connect (KIP-618) the worker decides: with ``exactly.once.source.support=enabled`` every task writes records
and source offset in one Kafka transaction. A connector's ``exactly.once.support=required`` only refuses workers that do
not. Names: Apache Kafka documentation, "Kafka Connect Configs" and "Source Connector Configs". Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

WORKER_SETTING: Final = "exactly.once.source.support"
DISABLED: Final = "disabled"
PREPARING: Final = "preparing"
ENABLED: Final = "enabled"
WORKER_VALUES: Final = (DISABLED, PREPARING, ENABLED)
"""``preparing`` makes Kafka Connect's leader write its own topics in transactions; tasks do not, so here it is
``disabled``."""

SUPPORT: Final = "exactly.once.support"
REQUIRED: Final = "required"
BOUNDARY: Final = "transaction.boundary"
BOUNDARY_INTERVAL: Final = "transaction.boundary.interval.ms"
POLL: Final = "poll"
INTERVAL: Final = "interval"
CONNECTOR: Final = "connector"


@dataclass(frozen=True, slots=True)
class TransactionBoundary:
    """When a Kafka transaction ends."""

    kind: str = POLL
    """``poll``: when what has arrived is sent. ``interval``: after `interval_seconds`."""
    interval_seconds: float | None = None
    """None: the worker's ``offset.flush.interval.ms``."""


def transactional_id(group: str, connector: str, task: int) -> str:
    """The transactional.id of a task, Kafka Connect's: whoever takes a connector over fences the former, either way."""
    return f"{group}-{connector}-{task}"


def boundary_problem(value: str) -> str | None:
    """What is wrong with a ``transaction.boundary`` of a known name."""
    if value.strip().lower() == CONNECTOR:
        return (
            "cannot be connector: the connector does not define transaction boundaries; use poll or interval"
        )
    return None


def preflight(config: Mapping[str, str], worker: str) -> dict[str, list[str]]:
    """What a connector asks for that its worker does not give, by option.

    Args:
        worker: the worker's ``exactly.once.source.support``.
    """
    if config.get(SUPPORT, "").strip().lower() == REQUIRED and worker != ENABLED:
        problem = (
            f"{SUPPORT}=required, but this worker does not have exactly-once source support enabled:"
            f" set {WORKER_SETTING}=enabled in its properties"
        )
        return {SUPPORT: [problem]}
    return {}
