"""The connectors' own slots: where they are, and how it is with them: from the last look at the server and from the task.

Configurations are resolved once per look (a secret may be a reference, and may have been rotated), not at every scrape.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings_capture.postgres.client import Endpoint
from tidings_capture.postgres.settings.config import read_endpoint, read_slot_name
from tidings_capture.postgres.streaming.report import stream_report
from tidings_capture.postgres.wal.forecast import LOST, ServerWal
from tidings_capture.postgres.wal.options import WalOptions, read_wal_options
from tidings_connect.connector import RunningTask
from tidings_connect.errors import ConnectError
from tidings_service import get_logger

OURS: Final = "ours"
INACTIVE: Final = "inactive"
MISSING: Final = "missing"
HELD: Final = "held"
"""By a consumer that is not the connector's task."""
STATES: Final = (OURS, INACTIVE, MISSING, HELD, LOST)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OwnSlot:
    """Where a connector's slot is, and what it says about WAL."""

    endpoint: Endpoint
    name: str
    options: WalOptions
    expected: bool = True
    """Whether the connector has a slot at all: one that only takes a snapshot has not."""


def own_slots(
    runs: Iterable[RunningTask], resolve: Callable[[Mapping[str, str]], Mapping[str, str]]
) -> dict[str, OwnSlot]:
    """The slots by connector. One whose configuration cannot be read is left out: its task says what is wrong with it.

    Args:
        resolve: puts secrets in the place of references to them.
    """
    found = {}
    for run in runs:
        try:
            config = resolve(run.config)
            found[run.name] = OwnSlot(
                read_endpoint(config), read_slot_name(config), read_wal_options(config), _streams(config)
            )
        except (ConnectError, ValueError) as error:
            _log.warning("a connector's database is not watched", connector=run.name, reason=str(error))
    return found


def _streams(config: Mapping[str, str]) -> bool:
    based = config.get("snapshot.mode.configuration.based.start.stream", "").lower() == "true"
    mode = config.get("snapshot.mode", "").strip().lower()
    return mode != "initial_only" and (mode != "configuration_based" or based)


def slot_state(slot_name: str, task_pid: int | None, server: ServerWal) -> str:
    """How it is with a connector's slot: one of `STATES`.

    Args:
        task_pid: the server's process of the task's stream.
    """
    slot = server.slot(slot_name)
    if slot is None:
        return MISSING
    if slot.wal_status == LOST:
        return LOST
    if not slot.active:
        return INACTIVE
    return OURS if task_pid is not None and task_pid == slot.active_pid else HELD


class SlotCollector(Collector):
    """What ``/metrics`` says about the connectors' own slots.

    Args:
        known: the slots as of the last look, by connector.
        server: what the last look saw of a server.
    """

    def __init__(
        self,
        runs: Callable[[], Iterable[RunningTask]],
        known: Callable[[], Mapping[str, OwnSlot]],
        server: Callable[[Endpoint], ServerWal | None],
    ) -> None:
        self._runs = runs
        self._known = known
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """The families; a connector whose server did not answer has none."""
        state = GaugeMetricFamily(
            "tidings_capture_slot_state",
            "1 for the state of the connector's slot; held: by a consumer that is not its task.",
            labels=["connector", "slot_name", "server", "state"],
        )
        known = self._known()
        for run in self._runs():
            own = known.get(run.name)
            server = None if own is None else self._server(own.endpoint)
            if own is None or server is None or not own.expected:
                continue
            found = slot_state(own.name, stream_report(run.report).walsender_pid, server)
            for name in STATES:
                state.add_metric([run.name, own.name, server.server, name], float(name == found))
        yield state
