"""Reconciles the running tasks with the config topic and the group's assignment.

A connector is looked at whenever something may have changed: is it to run here, with which configuration, in which
state? If what runs differs, it is stopped, started anew or let go, one step at a time for each connector.
"""

import asyncio
from collections.abc import Awaitable, Callable

from tidings_connect.config.plugins import version_of
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.errors import ConnectError
from tidings_connect.group.worker_group import Group
from tidings_connect.herder.local_connector import UNASSIGNED, ConnectorRun
from tidings_connect.herder.remote_connector import RemoteRun
from tidings_connect.storage.kafka import Storage
from tidings_connect.storage.records import STARTED, STOPPED, StoredConnector
from tidings_connect.supervised import OnEnd, supervise
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.forks import TaskForks
from tidings_connect.threads import STORAGE
from tidings_service import Health, get_logger

_log = get_logger(__name__)


class Reconciler:
    """The connectors that one worker runs.

    Args:
        runs: where they are kept, by name.
        wake: set when something may have changed.
        make_job: a task's job from a connector's name and configuration.
        forks: starts the tasks' processes.
        on_end: hears when nobody looks any more.
    """

    def __init__(
        self,
        worker: WorkerConfig,
        worker_id: str,
        storage: Storage,
        group: Group,
        runs: dict[str, ConnectorRun],
        health: Health,
        wake: asyncio.Event,
        make_job: Callable[[str, dict[str, str]], TaskJob],
        forks: TaskForks,
        on_end: OnEnd,
    ) -> None:
        self._worker = worker
        self._worker_id = worker_id
        self._storage = storage
        self._group = group
        self._runs = runs
        self._health = health
        self._wake = wake
        self._make_job = make_job
        self._forks = forks
        self._on_end = on_end
        self._conforming: dict[str, asyncio.Task[None]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._reconciling: asyncio.Task[None] | None = None
        self._status_told: dict[str, tuple[object, ...]] = {}
        self._foreign: set[str] = set()

    @property
    def connectors(self) -> dict[str, StoredConnector]:
        """Every connector of the group that a worker of this kind can run."""
        stored = self._storage.configs.connectors
        return {name: connector for name, connector in stored.items() if connector.is_ours}

    def start(self) -> None:
        """Begin to look."""
        self._reconciling = supervise(self._reconcile(), "reconcile", self._on_end)

    async def stop(self) -> None:
        """Look no more; what is being started or stopped is waited for. What runs goes on."""
        if self._reconciling is not None:
            self._reconciling.cancel()
            await asyncio.gather(self._reconciling, *self._conforming.values(), return_exceptions=True)

    async def renew_leases(self) -> None:
        """As long as tasks run. Apart from all that may wait for Kafka: a task whose lease ends believes that nobody looks
        after it."""
        while True:
            for run in self._runs.values():
                run.renew_lease(self._group.lease)
            await asyncio.sleep(min(1.0, self._worker.group_times.session / 10))

    async def _reconcile(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for name in sorted(self.connectors.keys() | self._runs.keys()):
                if self._differs(name) and name not in self._conforming:
                    self._conforming[name] = asyncio.create_task(self._conform_in_passing(name))
            await self._tell_group()

    async def _conform_in_passing(self, name: str) -> None:
        try:
            await self.conform(name)
        except Exception:  # noqa: BLE001 - logged; one connector's trouble is not another's
            _log.exception("a connector could not be started or stopped", connector=name)
            await asyncio.sleep(1.0)
        finally:
            self._conforming.pop(name, None)
            self._wake.set()

    async def _tell_group(self) -> None:
        holds = self._group.holds
        self._health.set("group", holds, "" if holds else f"not a member of {self._worker.group_id}")
        self.tell_health()
        for name, stored in self._storage.configs.connectors.items():
            if not stored.is_ours and name not in self._foreign:
                self._foreign.add(name)
                _log.warning("a stored connector is of a class this worker does not have", connector=name)
        if all(self._group.owner(name) == self._worker_id for name in self._runs):
            try:
                await self._group.applied()
            except ConnectError as error:
                _log.warning("the group could not be told", reason=str(error))

    def _wanted(self, name: str) -> StoredConnector | None:
        """A connector that this worker is to run."""
        stored = self.connectors.get(name)
        group = self._group
        if stored is None or not group.holds or group.owner(name) != self._worker_id:
            return None
        return stored

    def _differs(self, name: str) -> bool:
        run, wanted = self._runs.get(name), self._wanted(name)
        if run is None or wanted is None:
            return (run is None) != (wanted is None)
        return (run.revision, run.target_state) != (wanted.revision, wanted.target_state)

    async def conform(self, name: str, *, anew: bool = False) -> None:
        """Make one connector's run equal to what is stored; `anew`: start its task again in any case."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            if not anew and not self._differs(name):
                return
            former = self._runs.get(name)
            if former is not None:
                await former.stop(kill=not self._group.holds)
            wanted = self._wanted(name)
            if wanted is not None:
                self._run(name, wanted)
            elif former is not None:
                await self._let_go(former)

    async def interrupt(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        """End a connector's task, do something, and start the task again, whatever came of it; only where it runs."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            run = self._runs.get(name)
            if run is None or self._wanted(name) is None:
                return
            await run.stop()
            try:
                await action()
            finally:
                wanted = self._wanted(name)
                if wanted is not None:
                    self._run(name, wanted)
                else:
                    await self._let_go(run)

    async def hold(self, name: str, reason: str | None) -> None:
        """Let a connector's task rest for a reason, or go on (None). Nothing is stored: a restart forgets it."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            run = self._runs.get(name)
            if run is not None and run.target_state == STARTED and run.held != reason:
                text = "a connector rests" if reason else "a connector goes on"
                _log.warning(text, connector=name, reason=reason)
                await run.hold(reason)

    async def _let_go(self, run: ConnectorRun) -> None:
        del self._runs[run.name]
        if run.name not in self.connectors:
            self._storage.statuses.delete(run.name)
        elif self._group.holds:
            self.tell_unassigned(run)
        self._status_told.pop(run.name, None)
        await STORAGE.run(self._storage.statuses.flush, 5.0)  # before the next worker says RUNNING

    def _run(self, name: str, stored: StoredConnector) -> None:
        former = self._runs.get(name)
        run = ConnectorRun(
            name,
            stored.config,
            stored.target_state,
            self._make_job,
            self._forks,
            self._changed,
            stop_seconds=self._worker.graceful_stop_seconds,
            silence_seconds=self._worker.report_timeout_seconds,
            worker_id=self._worker_id,
            revision=stored.revision,
            tasks=stored.tasks,
        )
        if former is not None:
            run.continue_from(former)
        self._runs[name] = run
        run.renew_lease(self._group.lease)
        run.start()

    def is_stopped(self, name: str) -> bool:
        """Whether no worker has a task of a connector that is meant to be stopped."""
        run = self._runs.get(name)
        if run is not None:
            return run.target_state == STOPPED
        owner, told = self._group.owner(name), self._storage.statuses.connector(name)
        return owner is None or (told is not None and (told.worker_id, told.state) == (owner, STOPPED))

    def run_or_view(self, name: str, stored: StoredConnector) -> ConnectorRun | RemoteRun:
        """A connector that runs here, or what is known of it from the worker that runs it."""
        run = self._runs.get(name)
        if run is not None:
            return run
        owner = self._group.owner(name)
        told, task = self._storage.statuses.connector(name), self._storage.statuses.task(name, 0)
        if task is None or task.worker_id != owner:
            task = None  # of a worker that runs it no more
        return RemoteRun(
            name,
            stored.config,
            stored.target_state,
            worker_id=owner or (told.worker_id if told is not None else self._worker_id),
            task_state=UNASSIGNED if task is None else task.state,
            trace=None if task is None else task.trace,
            assigned=owner is not None and told is not None and told.worker_id == owner,
            restarts=0,
            tasks=stored.tasks,
        )

    def _changed(self, run: ConnectorRun) -> None:
        statuses = self._storage.statuses
        now = (run.connector_state, run.has_task, run.task_state, run.trace)
        if self._status_told.get(run.name) != now and self._group.holds:
            self._status_told[run.name] = now
            version = version_of(run.config)
            statuses.put_connector(run.name, run.connector_state, None, run.generation, version)
            if run.has_task:
                statuses.put_task(run.name, 0, run.task_state, run.trace, run.generation, version)
        self.tell_health()

    def tell_unassigned(self, run: ConnectorRun) -> None:
        """Say that nobody runs a connector any more."""
        version = version_of(run.config)
        if run.has_task:
            self._storage.statuses.put_task(run.name, 0, UNASSIGNED, None, run.generation, version)
        self._storage.statuses.put_connector(run.name, UNASSIGNED, None, run.generation, version)

    def tell_health(self) -> None:
        """Say whether every connector of this worker does what it is meant to do."""
        unhealthy = [run.name for run in self._runs.values() if not run.healthy]
        self._health.set(
            "connectors", not unhealthy, f"not running: {', '.join(unhealthy)}" if unhealthy else ""
        )
