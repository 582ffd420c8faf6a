"""The supervisor: which connectors exist, which of them this worker runs, and that it is done. Kafka Connect's herder.

One per worker, on the event loop; everything that blocks (Kafka, PostgreSQL) runs in threads. What is asked for is
written by the worker that leads the group, and takes effect where it is read: each worker compares what the topics say
with what it runs, and makes the two equal (`Reconciler`), whoever wrote and however often. So a worker that is killed, or
comes back, or takes over does nothing special.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final

from tidings_connect.config.override_policy import check_overrides
from tidings_connect.config.plugins import connector_of
from tidings_connect.config.properties.table import MOST_CONNECTORS
from tidings_connect.config.secrets import with_stored_secrets
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.errors import ConflictError, NotFoundError, NotStoppedError, TooManyConnectorsError
from tidings_connect.group.worker_group import AloneGroup, Group, KafkaGroup
from tidings_connect.herder.fencing import Fencing
from tidings_connect.herder.jobs import task_job
from tidings_connect.herder.leadership import LEADER_SECONDS, Leadership
from tidings_connect.herder.local_task import LocalTask
from tidings_connect.herder.reconciler import Reconciler
from tidings_connect.herder.remote_task import ConnectorView
from tidings_connect.herder.topics import TopicTracker
from tidings_connect.log_levels import LEVELS, LogLevels
from tidings_connect.renewals import Renewal
from tidings_connect.storage.kafka import KafkaStorage, Storage
from tidings_connect.storage.memory import MemoryStorage
from tidings_connect.storage.offsets import ConnectorOffsets
from tidings_connect.storage.records import PAUSED, STARTED, STOPPED, StoredConnector
from tidings_connect.supervised import supervise
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.forks import TaskForks
from tidings_connect.task_id import TaskId
from tidings_connect.threads import STORAGE, Places
from tidings_service import Health, TidingsError, get_logger
from tidings_service.logins import show_login

_LOOK_SECONDS: Final = 0.1

_log = get_logger(__name__)


class Herder:
    """The connectors of one worker.

    Args:
        worker_id: ``host:port`` of its REST interface, as the other workers reach it; may be set until `start`.
        forks: starts the tasks' processes; whoever made it closes it.
    """

    def __init__(
        self,
        worker: WorkerConfig,
        worker_id: str,
        health: Health,
        *,
        log_level: str,
        log_format: str,
        forks: TaskForks | None = None,
    ) -> None:
        self._forks = forks or TaskForks()
        self.worker = worker
        self.worker_id = worker_id
        self.scheme = "http"
        self.local_tasks: dict[TaskId, LocalTask] = {}
        """Those of this worker."""
        self.storage: Storage | None = None
        self.group: Group | None = None
        self.failure: TidingsError | None = None
        """Why the worker has to end."""
        self.failed = asyncio.Event()
        self.started = asyncio.Event()
        """Set once every stored connector is known."""
        self.log_levels = LogLevels(self._tell_log_levels)
        self.topics: TopicTracker | None = None
        self.offsets = ConnectorOffsets(
            worker.common_client(), worker.consumer, worker.offset_topic.name, worker.offset_file
        )
        self._health = health
        self._log_level = log_level
        self._log_format = log_format
        self._changing = Places(1)
        """By connector: a task of one that ends slowly, because its server hangs, keeps no other connector waiting."""
        self._leadership = Leadership()
        self._wake = asyncio.Event()
        self._reconciler: Reconciler | None = None
        self._fencing: Fencing | None = None
        self._tracking: asyncio.Task[None] | None = None
        self._leasing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Reach Kafka, make the storage topics, and join the group; what it gives this worker is started.

        Raises:
            BrokerError: Kafka cannot be reached or refuses a topic.
            WorkerConfigError: the group has workers of another kind.
        """
        self._health.set("group", False, "not joined yet")
        self.storage, self.group = self._open()
        self._leadership.of(self.storage, self.group)
        self._fencing = Fencing(self.worker, self.storage, self.group, self._leadership, self._job)
        self._reconciler = Reconciler(
            self.worker,
            self.worker_id,
            self.storage,
            self.group,
            self.local_tasks,
            self._health,
            self._wake,
            self._job,
            self._forks,
            self._fail,
            self._fencing,
        )
        await self.storage.start()
        self._health.set("kafka", True)
        self.storage.configs.on_log_level = self._log_level_heard
        self.topics = TopicTracker(self.storage, self.local_tasks, enabled=self.worker.topic_tracking)
        self._tracking = self.run_loop(self.topics.run(), "topics")
        self.started.set()
        self._reconciler.start()
        self._leasing = self.run_loop(self._reconciler.renew_leases(), "leases")
        await self.group.start()
        self._wake.set()
        connectors = sorted(self.storage.configs.connectors)
        _log.info("worker started", worker=self.worker_id, connectors=connectors)

    def _open(self) -> tuple[Storage, Group]:
        if self.worker.offset_file is not None:
            return MemoryStorage(self.worker, self.worker_id, self._wake.set), AloneGroup(self.worker_id)
        storage = KafkaStorage(self.worker, self.worker_id, self._wake.set, self._fail)
        url = f"{self.scheme}://{self.worker_id}"
        return storage, KafkaGroup(self.worker, self.worker_id, url, storage, self._wake.set, self._fail)

    async def stop(self) -> None:
        """Stop every task, each stores its position; then leave the group, so that others take over."""
        if self._reconciler is not None:
            await self._reconciler.stop()
        ours = self.failure is None  # else another worker may have them already
        await asyncio.gather(*(run.stop(kill=not ours) for run in self.local_tasks.values()))
        for task in (self._tracking, self._leasing):
            if task is not None:
                task.cancel()
        if self.storage is None or self.group is None or self._reconciler is None:
            return
        if self.topics is not None:
            self.topics.look(*self.local_tasks.values())
        for run in self.local_tasks.values():
            if ours:
                self._reconciler.tell_unassigned(run)
        self.local_tasks.clear()
        await STORAGE.run(self.storage.statuses.flush, 5.0)
        await self.group.stop()
        await self.storage.stop()

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster."""
        return "" if self.storage is None else self.storage.cluster_id

    @property
    def connectors(self) -> dict[str, StoredConnector]:
        """Every connector of the group that a worker of this kind can run."""
        return {} if self._reconciler is None else self._reconciler.connectors

    @property
    def local_runs(self) -> dict[str, LocalTask]:
        """The first tasks of the connectors that this worker runs, by name."""
        return {task_id.connector: run for task_id, run in self.local_tasks.items() if not task_id.task}

    @property
    def runs(self) -> dict[str, ConnectorView]:
        """Every connector of the group: those that run here, and what is known of the others."""
        return {name: self._runs.view(name, stored) for name, stored in self.connectors.items()}

    def run_of(self, name: str) -> ConnectorView:
        """A connector by name.

        Raises:
            NotFoundError: there is none.
        """
        stored = self.connectors.get(name)
        if stored is None:
            raise NotFoundError(f"Connector {name} not found")
        return self._runs.view(name, stored)

    def task_configs(self, name: str) -> Sequence[dict[str, str]]:
        """What the tasks of a connector are given that it has, in order."""
        stored = self.connectors.get(name)
        return () if stored is None else stored.task_configs[: stored.tasks_now]

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """A configuration with secrets in place of the references to them: for a task or a check, never for an answer.

        Raises:
            ConfigProviderError: a reference cannot be resolved.
        """
        return self.worker.providers.resolve(config)

    def with_passwords(self, name: str, config: Mapping[str, str]) -> dict[str, str]:
        """A configuration as it came in, with passwords it left masked taken from the stored one.

        Raises:
            OptionError: none is stored, or one of them would go somewhere else than where it was meant for.
        """
        stored = self.connectors.get(name)
        return with_stored_secrets(config, {} if stored is None else stored.config)

    # What is asked for: written by the leader

    async def put(
        self, name: str, config: dict[str, str], *, state: str | None = None, replace: bool = True
    ) -> bool:
        """Create a connector or change its configuration; whether it was created.

        Raises:
            ConflictError: it exists and `replace` is False, or this worker does not lead the group.
            OptionError: it overrides a client's setting that the worker's policy protects.
            TooManyConnectorsError: it would be one more than the worker's properties allow.
        """
        check_overrides(self.worker.override_policy, config, self.worker.bootstrap_servers)
        async with self._changing.at(name):
            async with self._leadership.writing() as storage:
                created = name not in self.connectors
                if not created and not replace:
                    raise ConflictError(f"Connector {name} already exists")
                if created and len(self.connectors) >= self.worker.most_connectors:
                    raise TooManyConnectorsError(
                        f"there are {len(self.connectors)} connectors, and {MOST_CONNECTORS} allows no more",
                        hint=f"delete some, or set {MOST_CONNECTORS} in the worker's properties",
                    )
                await STORAGE.run(storage.configs.put_connector, name, config, state)
            await self._take_effect(name)
        _log.info("connector configured", connector=name, created=created)
        return created

    async def delete(self, name: str) -> None:
        """Stop a connector and forget it; its topics, its offsets and what it has at its source stay.

        Raises:
            NotFoundError: there is none.
            ConflictError: this worker does not lead the group.
        """
        async with self._changing.at(name):
            async with self._leadership.writing() as storage:
                config = self.run_of(name).config
                await STORAGE.run(storage.configs.delete_connector, name)
            await self._take_effect(name)
            storage.statuses.delete(name)
            await self.reset_topics(name)
        self._runs.tell_health()
        _log.info("connector deleted", connector=name)
        connector = connector_of(config)
        if connector is not None:
            connector.deleted(name, config)

    async def set_target(self, name: str, state: str) -> None:
        """Pause, resume or stop a connector.

        Raises:
            NotFoundError: there is none.
            ConflictError: this worker does not lead the group.
        """
        assert state in {STARTED, PAUSED, STOPPED}
        async with self._changing.at(name):
            async with self._leadership.writing() as storage:
                if self.run_of(name).target_state == state and not storage.configs.in_doubt:
                    return
                await STORAGE.run(storage.configs.put_target_state, name, state)
            await self._take_effect(name)

    async def restart(self, name: str, tasks: Collection[int]) -> None:
        """Restart tasks of a connector that run here.

        Raises:
            NotFoundError: there is no such connector.
            ConflictError: one of them runs on another worker.
        """
        self.run_of(name)
        if any(TaskId(name, task) not in self.local_tasks for task in tasks):
            raise ConflictError(
                "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
            )
        if tasks:
            await self._runs.conform(name, anew=lambda task_id: task_id.task in tasks)

    @contextlib.asynccontextmanager
    async def stopped(self, name: str) -> AsyncIterator[None]:
        """Hold a connector that is stopped, so that its offsets can be changed.

        Raises:
            NotFoundError: there is none of that name.
            NotStoppedError: it is not meant to be stopped.
            ConflictError: its task has not ended yet, or this worker does not lead the group.
            FencingError: a former task may still store an offset.
        """
        async with self._changing.at(name):
            async with self._leadership.writing():
                pass  # it leads, and knows all there is
            if self.run_of(name).target_state != STOPPED:
                raise NotStoppedError(
                    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                    f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
                )
            deadline = time.monotonic() + self.worker.graceful_stop_seconds + LEADER_SECONDS
            while not self._runs.is_stopped(name):
                if time.monotonic() > deadline:
                    raise ConflictError(f"the task of connector {name} has not ended yet")
                await asyncio.sleep(_LOOK_SECONDS)
            if self._fencing is not None:
                await self._fencing.fence_stopped(name)
            yield

    async def topics_of(self, name: str) -> list[str]:
        """The topics a connector has written to, until this moment where it runs here."""
        return [] if self.topics is None else await self.topics.topics_of(name)

    async def reset_topics(self, name: str) -> None:
        """Forget the topics a connector has written to."""
        if self.topics is not None:
            await self.topics.reset(name)

    async def set_cluster_log_level(self, namespace: str, level: str) -> None:
        """Set a log level on every worker of the group; it does not outlive them."""
        if self.storage is not None:
            await STORAGE.run(self.storage.configs.put_log_level, namespace, level)

    def _log_level_heard(self, namespace: str, level: str) -> None:
        if level in LEVELS and self.log_levels.may_set(namespace):
            self.log_levels.set(namespace, level)
        else:
            _log.warning("the config topic has a log level that cannot be set", logger_name=namespace)

    def tell_renewals(self, renewals: list[Renewal]) -> None:
        """Hand passwords that have changed to the tasks here."""
        for run in self.local_tasks.values():
            run.tell_renewals(renewals)

    def tell_login(self) -> None:
        """Say whether the brokers refuse the worker's login."""
        show_login(self._health)

    def _tell_log_levels(self, levels: Mapping[str, str]) -> None:
        for run in self.local_tasks.values():
            run.set_log_levels(levels)

    async def _take_effect(self, name: str) -> None:
        """What was written is known here, and done if it is this worker's to do."""
        assert self.storage is not None
        assert self.group is not None
        await self.storage.settle()
        await self.group.distribute()
        await self._runs.conform(name)

    # What is done: by the reconciler

    @property
    def _runs(self) -> Reconciler:
        assert self._reconciler is not None, "the worker has not started"
        return self._reconciler

    async def interrupt(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        """End a connector's task, do something, and start the task again, whatever came of it; only where it runs."""
        await self._runs.interrupt(name, action)

    async def hold(self, name: str, reason: str | None) -> None:
        """Let a connector's task rest for a reason, or go on (None). Nothing is stored: a restart forgets it."""
        await self._runs.hold(name, reason)

    def _job(self, task_id: TaskId, config: dict[str, str]) -> TaskJob:
        return task_job(
            self.worker,
            task_id,
            config,
            log_level=self._log_level,
            log_levels=self.log_levels.changed,
            log_format=self._log_format,
        )

    def run_loop(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a loop of the worker, whose end is the worker's."""
        return supervise(work, name, self._fail)

    def _fail(self, error: TidingsError) -> None:
        """The worker has to end; its first reason is told."""
        if self.failure is None:
            self.failure = error
            self.failed.set()
