"""Reconciles the running tasks with the config topic and the group's assignment.

A connector is looked at whenever something may have changed: which of its tasks are to run here, with which configuration,
in which state? What differs is stopped, started anew or let go, one step at a time for each connector: none of its tasks
starts here before all of them that have to end have ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from tidings_connect.config.plugins import version_of
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.errors import ConnectError
from tidings_connect.group.worker_group import Group
from tidings_connect.herder.fencing import Fencing
from tidings_connect.herder.local_task import UNASSIGNED, LocalTask
from tidings_connect.herder.remote_task import AnyTask, ConnectorView, RemoteTask
from tidings_connect.storage.kafka import Storage
from tidings_connect.storage.records import STARTED, STOPPED, StoredConnector
from tidings_connect.supervised import OnEnd, supervise
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.forks import TaskForks
from tidings_connect.task_id import TaskId
from tidings_connect.threads import STORAGE
from tidings_service import Health, get_logger

_log = get_logger(__name__)


class Reconciler:
    """The tasks that one worker runs.

    Args:
        runs: where they are kept.
        wake: set when something may have changed.
        make_job: a task's job from its configuration.
        forks: starts the tasks' processes.
        on_end: hears when nobody looks any more.
        fencing: what tasks wait for before they start; None: for nothing.
    """

    def __init__(
        self,
        worker: WorkerConfig,
        worker_id: str,
        storage: Storage,
        group: Group,
        runs: dict[TaskId, LocalTask],
        health: Health,
        wake: asyncio.Event,
        make_job: Callable[[TaskId, dict[str, str]], TaskJob],
        forks: TaskForks,
        on_end: OnEnd,
        fencing: Fencing | None = None,
    ) -> None:
        self._fencing = fencing
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
        self._status_told: dict[TaskId, tuple[object, ...]] = {}
        self._foreign: set[str] = set()
        self._seen: dict[str, int] = {}
        """By connector: the highest number of a task that has run here, and one."""

    @property
    def connectors(self) -> dict[str, StoredConnector]:
        """Every connector of the group that a worker of this kind can run."""
        stored = self._storage.configs.connectors
        return {name: connector for name, connector in stored.items() if connector.is_ours}

    def _stored(self, name: str) -> StoredConnector | None:
        stored = self._storage.configs.connectors.get(name)
        return stored if stored is not None and stored.is_ours else None

    def start(self) -> None:
        """Begin to look."""
        self._reconciling = supervise(self._reconcile(), "reconcile", self._on_end)

    async def stop(self) -> None:
        """Look no more; what is being started or stopped is waited for. What runs goes on."""
        if self._reconciling is not None:
            self._reconciling.cancel()
            await asyncio.gather(self._reconciling, *self._conforming.values(), return_exceptions=True)
        if self._fencing is not None:
            await self._fencing.stop()

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
            if self._fencing is not None:
                self._fencing.look()
            for name in sorted({*self.connectors, *(task_id.connector for task_id in self._runs)}):
                if name not in self._conforming and any(map(self._differs, self._tasks_of(name))):
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
        if all(self._group.owner(task_id) == self._worker_id for task_id in self._runs):
            try:
                await self._group.applied()
            except ConnectError as error:
                _log.warning("the group could not be told", reason=str(error))

    def _local(self, name: str) -> list[LocalTask]:
        """The tasks of a connector that run here, in order."""
        ids = (TaskId(name, number) for number in range(self._seen.get(name, 0)))
        return [self._runs[task_id] for task_id in ids if task_id in self._runs]

    def _tasks_of(self, name: str) -> list[TaskId]:
        """Those that a connector has, and those that run here although it has them no more."""
        stored = self._stored(name)
        count = 0 if stored is None else max(1, stored.tasks_now)
        return [TaskId(name, number) for number in range(max(count, self._seen.get(name, 0)))]

    def _wanted(self, task_id: TaskId) -> StoredConnector | None:
        """The connector of a task that this worker is to run."""
        stored = self._stored(task_id.connector)
        group = self._group
        if stored is None or not group.holds or group.owner(task_id) != self._worker_id:
            return None
        return stored if task_id.task < max(1, stored.tasks_now) else None

    def _differs(self, task_id: TaskId) -> bool:
        run, wanted = self._runs.get(task_id), self._wanted(task_id)
        if run is None or wanted is None:
            return (run is None) != (wanted is None)
        return (run.revision, run.target_state) != (wanted.revision, wanted.target_state)

    async def conform(self, name: str, *, anew: Callable[[TaskId], bool] = lambda _: False) -> None:
        """Make what runs of a connector equal to what is stored; `anew`: which tasks are started again in any case."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            wrong = [task_id for task_id in self._tasks_of(name) if anew(task_id) or self._differs(task_id)]
            await self._end(wrong)
            await self._begin(wrong)

    async def interrupt(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        """End a connector's tasks, do something, and start them again, whatever came of it; only where it runs."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            if TaskId(name) not in self._runs or self._wanted(TaskId(name)) is None:
                return
            tasks = [run.id for run in self._local(name)]
            await self._end(tasks)
            try:
                await action()
            finally:
                await self._begin(tasks)

    async def _end(self, tasks: Iterable[TaskId]) -> None:
        running = [self._runs[task_id] for task_id in tasks if task_id in self._runs]
        await asyncio.gather(*(run.stop(kill=not self._group.holds) for run in running))

    async def _begin(self, tasks: Iterable[TaskId]) -> None:
        """Start the tasks that are to run here, and let go of the others."""
        for task_id in tasks:
            wanted = self._wanted(task_id)
            if wanted is not None:
                self._run(task_id, wanted)
            elif task_id in self._runs:
                await self._let_go(self._runs[task_id])

    async def hold(self, name: str, reason: str | None) -> None:
        """Let a connector's tasks rest for a reason, or go on (None). Nothing is stored: a restart forgets it."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            for run in self._local(name):
                if run.target_state == STARTED and run.held != reason:
                    text = "a connector rests" if reason else "a connector goes on"
                    _log.warning(text, connector=name, reason=reason)
                    await run.hold(reason)

    async def _let_go(self, run: LocalTask) -> None:
        del self._runs[run.id]
        stored = self._stored(run.name)
        if stored is None:
            self._storage.statuses.delete(run.name)
        elif run.task and run.task >= stored.tasks_now:
            self._storage.statuses.delete_task(run.name, run.task)
        elif self._group.holds:
            self.tell_unassigned(run)
        self._status_told.pop(run.id, None)
        await STORAGE.run(self._storage.statuses.flush, 5.0)  # before the next worker says RUNNING

    def _run(self, task_id: TaskId, stored: StoredConnector) -> None:
        former = self._runs.get(task_id)
        tasks = stored.tasks_now
        run = LocalTask(
            task_id.connector,
            stored.config,
            stored.target_state,
            self._make_job,
            self._forks,
            self._changed,
            stop_seconds=self._worker.graceful_stop_seconds,
            silence_seconds=self._worker.report_timeout_seconds,
            worker_id=self._worker_id,
            revision=stored.revision,
            tasks=tasks,
            task=task_id.task,
            task_config=stored.task_configs[task_id.task],
            config_digest="" if self._fencing is None else self._fencing.digest(stored),
            may_start=None if self._fencing is None else self._fencing.wait,
        )
        if former is not None:
            run.continue_from(former)
        self._runs[task_id] = run
        self._seen[task_id.connector] = max(self._seen.get(task_id.connector, 0), task_id.task + 1)
        run.renew_lease(self._group.lease)
        run.start()

    def is_stopped(self, name: str) -> bool:
        """Whether no worker has a task of a connector that is meant to be stopped."""
        local = self._local(name)
        if any(run.target_state != STOPPED for run in local) or self._group.further_tasks(name):
            return False
        if local:
            return True
        owner, told = self._group.owner(TaskId(name)), self._storage.statuses.connector(name)
        return owner is None or (told is not None and (told.worker_id, told.state) == (owner, STOPPED))

    def view(self, name: str, stored: StoredConnector) -> ConnectorView:
        """What is known of a connector, here or from the workers that run its tasks."""
        first = self._task(TaskId(name), stored)
        further = (self._task(TaskId(name, number), stored) for number in range(1, stored.tasks_now))
        return ConnectorView(first, (first, *further) if first.has_task else ())

    def _task(self, task_id: TaskId, stored: StoredConnector) -> AnyTask:
        run = self._runs.get(task_id)
        if run is not None:
            return run
        owner = self._group.owner(task_id)
        statuses = self._storage.statuses
        told, task = statuses.connector(task_id.connector), statuses.task(*task_id)
        if task is None or task.worker_id != owner:
            task = None  # of a worker that runs it no more
        return RemoteTask(
            task_id.connector,
            stored.config,
            stored.target_state,
            worker_id=owner or (told.worker_id if told is not None else self._worker_id),
            task_state=UNASSIGNED if task is None else task.state,
            trace=None if task is None else task.trace,
            assigned=owner is not None and told is not None and told.worker_id == owner,
            tasks=stored.tasks_now,
            task=task_id.task,
        )

    def _changed(self, run: LocalTask) -> None:
        statuses = self._storage.statuses
        now = (run.connector_state, run.has_task, run.task_state, run.trace)
        if self._status_told.get(run.id) != now and self._group.holds:
            self._status_told[run.id] = now
            version = version_of(run.config)
            if not run.task:
                statuses.put_connector(run.name, run.connector_state, None, run.generation, version)
            if run.has_task:
                statuses.put_task(run.name, run.task, run.task_state, run.trace, run.generation, version)
        self.tell_health()

    def tell_unassigned(self, run: LocalTask) -> None:
        """Say that nobody runs a task any more, nor the connector with its first one."""
        version = version_of(run.config)
        if run.has_task:
            self._storage.statuses.put_task(run.name, run.task, UNASSIGNED, None, run.generation, version)
        if not run.task:
            self._storage.statuses.put_connector(run.name, UNASSIGNED, None, run.generation, version)

    def tell_health(self) -> None:
        """Say whether every connector of this worker does what it is meant to do."""
        unhealthy = sorted({run.name for run in self._runs.values() if not run.healthy})
        self._health.set(
            "connectors", not unhealthy, f"not running: {', '.join(unhealthy)}" if unhealthy else ""
        )
