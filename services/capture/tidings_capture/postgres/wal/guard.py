"""The guard: keeps a connector's slot from filling the primary's disk. Opt-in, by ``tidings.wal.guard.*``.

After every look at the servers each connector's slot has a level: 0, or the highest step whose limit it retains more
than. The steps: 1 ``warn`` says so; 2 ``stop.snapshots`` interrupts snapshots and lets no new one begin, because while one
is read the slot stands still; 3 ``pause`` rests heartbeat queries and those connectors of
other servers that ``tidings.wal.guard.pause.connectors`` names; 4 ``drop`` ends the task, drops the slot, and starts the task again, which
goes on as ``on.slot.loss`` says (``incremental`` by default here). A level is left again below 90 % of its limit.

The guard is part of the worker, not of the task: it acts for a task that failed, is paused, or cannot reach Kafka, too.
It never drops what another consumer holds, nor a slot whose end would free nothing because another retains as much.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings_capture.postgres.server.setup import drop_slot
from tidings_capture.postgres.streaming.report import stream_report
from tidings_capture.postgres.wal.forecast import ServerWal, SlotWal
from tidings_capture.postgres.wal.monitor import Place, WalMonitor, place_of
from tidings_capture.postgres.wal.options import GUARD_LEVEL, STEPS, WalOptions
from tidings_capture.postgres.wal.slots import OwnSlot
from tidings_connect.connector import RunningTask
from tidings_connect.data.sizes import format_size
from tidings_connect.errors import ConnectError
from tidings_service import get_logger

WARN: Final = 1
STOP_SNAPSHOTS: Final = 2
PAUSE: Final = 3
DROP: Final = 4
_LEFT_BELOW: Final = 0.9

_log = get_logger(__name__)


class Guarded(Protocol):
    """What the guard needs of the supervisor."""

    @property
    def local_runs(self) -> Mapping[str, RunningTask]:
        """The connectors of this worker."""
        ...

    async def interrupt(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        """End a connector's task, do something, and start the task again."""
        ...

    async def hold(self, name: str, reason: str | None) -> None:
        """Let a connector's task rest for a reason, or go on (None)."""
        ...


def room_of(server: ServerWal) -> float | None:
    """The bytes of WAL a slot may retain at most, None where nothing says so. Pure."""
    known = [server.keep_limit_bytes] if server.keep_limit_bytes >= 0 else []
    if server.volume_bytes is not None:
        known.append(server.volume_bytes)
    return min(known, default=None)


def level_of(options: WalOptions, slot: SlotWal | None, server: ServerWal, former: int = 0) -> int:
    """The highest step that a slot has come to, 0 for none. Pure."""
    if slot is None or slot.retained_bytes is None:
        return 0
    found, room = 0, room_of(server)
    for level, limit in sorted(options.limits.items()):
        size = limit.bytes_of(room)
        if size is not None and slot.retained_bytes >= size * (_LEFT_BELOW if level <= former else 1.0):
            found = level
    return found


def others_that_hold(slot: SlotWal, server: ServerWal) -> list[str]:
    """The slots that retain as much: without them, the WAL would not be freed. Pure."""
    assert slot.retained_bytes is not None
    return [
        other.name
        for other in server.slots
        if other.name != slot.name and (other.retained_bytes or 0.0) >= slot.retained_bytes
    ]


@dataclass(slots=True)
class _Known:
    own: OwnSlot
    server: str
    level: int = 0
    told_unlimited: bool = False
    told_useless: bool = False


class Guard(Collector):
    """Acts after every look of the monitor; a collector for ``/metrics``.

    Args:
        runs: the tasks that are told the level of their connector.
    """

    def __init__(
        self, supervisor: Guarded, monitor: WalMonitor, runs: Callable[[], Iterable[RunningTask]]
    ) -> None:
        self._supervisor = supervisor
        self._runs = runs
        self._monitor = monitor
        self._known: dict[str, _Known] = {}
        self._drops: dict[str, int] = {}

    async def act(self, place: Place | None = None) -> None:
        """Look at the guarded slots of a server, and do what their levels ask for; None: only forget those that are gone.

        Called for several servers at the same time.
        """
        guarded = {name: own for name, own in self._monitor.known.items() if own.options.limits}
        for name in self._known.keys() - guarded.keys():
            del self._known[name]
        here = {name: own for name, own in guarded.items() if place_of(own.endpoint) == place}
        for name, own in here.items():
            server = self._monitor.server(own.endpoint)
            if server is None:
                continue  # it cannot be asked: the level stays
            known = self._known.setdefault(name, _Known(own, server.server))
            known.own = own
            try:
                await self._look(name, known, server)
            except ConnectError as error:
                _log.error("the guard could not act", connector=name, reason=str(error), hint=error.hint)
        await self._hold_others()
        for run in self._runs():
            level = self._known[run.name].level if run.name in self._known else 0
            run.tell(GUARD_LEVEL, str(level))

    async def _look(self, name: str, known: _Known, server: ServerWal) -> None:
        own = known.own
        slot = server.slot(own.name)
        level = level_of(own.options, slot, server, known.level)
        if room_of(server) is None and not known.told_unlimited:
            known.told_unlimited = True
            shares = [limit.text for limit in own.options.limits.values() if limit.share is not None]
            if shares:
                _log.error(
                    "the guard has nothing to take a percentage of",
                    connector=name,
                    limits=shares,
                    hint="set max_slot_wal_keep_size on the server, or tidings.wal.volume.size",
                )
        if level != known.level:
            self._say(name, known, slot, level)
            known.level, known.told_useless = level, False
        if level == DROP and slot is not None:
            await self._drop(name, known, slot, server)

    def _say(self, name: str, known: _Known, slot: SlotWal | None, level: int) -> None:
        retained = None if slot is None else slot.retained_bytes
        about = {"connector": name, "slot": known.own.name, "retained": format_size(retained)}
        if level > known.level:
            step, limit = STEPS[level - 1], known.own.options.limits[level].text
            say = _log.warning if level == WARN else _log.error
            say("the guard's limit is reached", **about, step=step, limit=limit)
        else:
            _log.info("the guard eases", **about, level=level)

    async def _drop(self, name: str, known: _Known, slot: SlotWal, server: ServerWal) -> None:
        run = self._supervisor.local_runs.get(name)
        if slot.active and (run is None or stream_report(run.report).walsender_pid != slot.active_pid):
            if not known.told_useless:
                known.told_useless = True
                _log.error(
                    "the guard cannot drop the slot: another consumer holds it",
                    connector=name,
                    slot=slot.name,
                    pid=slot.active_pid,
                )
            return
        others = others_that_hold(slot, server)
        if others:
            if not known.told_useless:
                known.told_useless = True
                _log.error(
                    "the guard keeps the slot: dropping it would free nothing",
                    connector=name,
                    slot=slot.name,
                    retained_by=others,
                    hint="these slots retain as much; see to their consumers",
                )
            return

        async def drop() -> None:
            await self._monitor.in_thread(known.own.endpoint, drop_slot, known.own.endpoint, slot.name)
            self._drops[name] = self._drops.get(name, 0) + 1
            _log.error(
                "the guard dropped the slot to save the primary",
                connector=name,
                slot=slot.name,
                freed=format_size(slot.retained_bytes),
                hint=f"on.slot.loss={known.own.options.on_loss or 'fail'} decides how the connector goes on",
            )

        await self._supervisor.interrupt(name, drop)

    async def _hold_others(self) -> None:
        reasons: dict[str, str] = {}
        for name, known in self._known.items():
            if known.level < PAUSE:
                continue
            for other in self._supervisor.local_runs:
                at = self._monitor.known.get(other)
                # On the same server it would only be one more slot that stands still.
                if (
                    at is None
                    or place_of(at.endpoint) == place_of(known.own.endpoint)
                    or not known.own.options.may_pause(other)
                ):
                    continue
                if other not in self._known or not self._known[other].level:
                    reasons[other] = f"rests for connector {name}, whose slot retains too much WAL"
        for other, run in list(self._supervisor.local_runs.items()):
            if run.held != reasons.get(other):
                await self._supervisor.hold(other, reasons.get(other))

    def collect(self) -> Iterator[Metric]:
        """All families; connectors without a guard have none."""
        labels = ["connector", "slot_name", "server"]
        level = GaugeMetricFamily(
            "tidings_wal_guard_level",
            "0 all is well, 1 warned, 2 no snapshots, 3 other work rests, 4 the slot is to be dropped.",
            labels=labels,
        )
        limit = GaugeMetricFamily(
            "tidings_wal_guard_limit_bytes",
            "WAL the slot may retain before a step.",
            labels=["connector", "step"],
        )
        drops = CounterMetricFamily(
            "tidings_wal_guard_drops", "Slots that the guard dropped.", labels=["connector"]
        )
        held = GaugeMetricFamily(
            "tidings_capture_held", "Whether the connector rests for another's slot.", labels=["connector"]
        )
        for name, known in list(self._known.items()):
            level.add_metric([name, known.own.name, known.server], known.level)
            drops.add_metric([name], self._drops.get(name, 0))
            server = self._monitor.server(known.own.endpoint)
            for number, one in known.own.options.limits.items():
                size = one.bytes_of(None if server is None else room_of(server))
                if size is not None:
                    limit.add_metric([name, STEPS[number - 1]], size)
        for name, run in self._supervisor.local_runs.items():
            held.add_metric([name], float(run.held is not None))
        yield from (level, limit, drops, held)
