"""The supervisor: which connectors exist, which of them this worker runs, and that it is done. Kafka Connect's herder.

One per worker, on the event loop; everything that blocks (Kafka, PostgreSQL) runs in threads. What is asked for is
written by the worker that leads the group, and takes effect where it is read: each worker compares what the topics say
with what it runs, and makes the two equal (`_conform`), whoever wrote and however often. So a worker that is killed, or
comes back, or takes over does nothing special.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

from tidings_capture.connector_offsets import ConnectorOffsets
from tidings_capture.connector_remote import RemoteRun
from tidings_capture.connector_run import UNASSIGNED, ConnectorRun
from tidings_capture.errors import CaptureError
from tidings_capture.exactly_once import ENABLED
from tidings_capture.group import AloneGroup, Group, KafkaGroup
from tidings_capture.log_levels import LEVELS, LogLevels
from tidings_capture.options import passwords
from tidings_capture.override_policy import check_overrides
from tidings_capture.storage import KafkaStorage, Storage
from tidings_capture.storage_memory import MemoryStorage
from tidings_capture.stores import PAUSED, STARTED, STOPPED, StoredConnector
from tidings_capture.task_channel import TaskJob
from tidings_capture.topic_tracking import TopicTracker
from tidings_capture.worker_config import WorkerConfig
from tidings_service import Health, TidingsError, get_logger

MASK = "********"
"""Stands for a password in answers; a configuration that comes back with it keeps the stored one."""
_LEADER_SECONDS: Final = 30.0
"""How long a request waits for the group to have a leader; a worker that has just started needs some of it."""
_LOOK_SECONDS: Final = 0.1

_log = get_logger(__name__)


class NotFoundError(CaptureError):
    """There is no connector, or no task, of that name."""

    code = "not_found"


class ConflictError(CaptureError):
    """What was asked for contradicts what there is."""

    code = "conflict"


class NotStoppedError(CaptureError):
    """A connector has to be stopped for what was asked."""

    code = "not_stopped"


class Supervisor:
    """The connectors of one worker.

    Args:
        worker_id: ``host:port`` of its REST interface, as the other workers reach it; may be set until `start`.
    """

    def __init__(
        self, worker: WorkerConfig, worker_id: str, health: Health, *, log_level: str, log_format: str
    ) -> None:
        self.worker = worker
        self.worker_id = worker_id
        self.scheme = "http"
        self.local_runs: dict[str, ConnectorRun] = {}
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
        self._writing = asyncio.Lock()
        self._conforming: dict[str, asyncio.Task[None]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._wake = asyncio.Event()
        self._reconciling: asyncio.Task[None] | None = None
        self._tracking: asyncio.Task[None] | None = None
        self._status_told: dict[str, tuple[object, ...]] = {}
        self._foreign: set[str] = set()

    async def start(self) -> None:
        """Reach Kafka, make the storage topics, and join the group; what it gives this worker is started.

        Raises:
            BrokerError: Kafka cannot be reached or refuses a topic.
            WorkerConfigError: the group has workers of another kind.
        """
        self._health.set("group", False, "not joined yet")
        await self._open()
        assert self.storage is not None
        assert self.group is not None
        await self.storage.start()
        self._health.set("kafka", True)
        self.storage.configs.on_log_level = self._log_level_heard
        self.topics = TopicTracker(self.storage.statuses, enabled=self.worker.topic_tracking)
        self._tracking = asyncio.create_task(self.topics.run(self.local_runs.values), name="topics")
        self.started.set()
        self._reconciling = asyncio.create_task(self._reconcile(), name="reconcile")
        await self.group.start()
        self._wake.set()
        connectors = sorted(self.storage.configs.connectors)
        _log.info("worker started", worker=self.worker_id, connectors=connectors)

    async def _open(self) -> None:
        url = f"{self.scheme}://{self.worker_id}"
        if self.worker.offset_file is not None:
            self.storage = MemoryStorage(self.worker, self.worker_id, self._wake.set)
            self.group = AloneGroup(self.worker_id)
            return
        self.storage = storage = KafkaStorage(self.worker, self.worker_id, self._wake.set)
        self.group = KafkaGroup(self.worker, self.worker_id, url, storage, self._wake.set, self._fail)

    async def stop(self) -> None:
        """Stop every task, each stores its position; then leave the group, so that others take over."""
        if self._reconciling is not None:
            self._reconciling.cancel()
            await asyncio.gather(self._reconciling, *self._conforming.values(), return_exceptions=True)
        ours = self.failure is None  # else another worker may have them already
        await asyncio.gather(*(run.stop(kill=not ours) for run in self.local_runs.values()))
        if self._tracking is not None:
            self._tracking.cancel()
        if self.storage is None or self.group is None:
            return
        if self.topics is not None:
            self.topics.look(self.local_runs.values())
        for run in self.local_runs.values():
            if ours:
                self._tell_unassigned(run)
        self.local_runs.clear()
        await asyncio.to_thread(self.storage.statuses.flush, 5.0)
        await self.group.stop()
        await self.storage.stop()

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster."""
        return "" if self.storage is None else self.storage.cluster_id

    @property
    def connectors(self) -> dict[str, StoredConnector]:
        """Every connector of the group that a worker of this kind can run."""
        stored = {} if self.storage is None else self.storage.configs.connectors
        return {name: connector for name, connector in stored.items() if connector.is_ours}

    @property
    def runs(self) -> dict[str, ConnectorRun | RemoteRun]:
        """Every connector of the group: those that run here, and what is known of the others."""
        return {name: self._run_or_view(name, stored) for name, stored in self.connectors.items()}

    def run_of(self, name: str) -> ConnectorRun | RemoteRun:
        """A connector by name.

        Raises:
            NotFoundError: there is none.
        """
        stored = self.connectors.get(name)
        if stored is None:
            raise NotFoundError(f"Connector {name} not found")
        return self._run_or_view(name, stored)

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """A configuration with secrets in place of the references to them: for a task or a check, never for an answer.

        Raises:
            ConfigProviderError: a reference cannot be resolved.
        """
        return self.worker.providers.resolve(config)

    def with_passwords(self, name: str, config: Mapping[str, str]) -> dict[str, str]:
        """A configuration as it came in, with passwords it left masked taken from the stored one."""
        stored = self.connectors.get(name)
        known = {} if stored is None else stored.config
        return {
            key: known.get(key, value) if value == MASK and key in passwords(config) else value
            for key, value in config.items()
        }

    # What is asked for: written by the leader

    async def put(
        self, name: str, config: dict[str, str], *, state: str | None = None, replace: bool = True
    ) -> bool:
        """Create a connector or change its configuration; whether it was created.

        Raises:
            ConflictError: it exists and `replace` is False, or this worker does not lead the group.
            OptionError: it overrides a client's setting that the worker's policy protects.
        """
        check_overrides(self.worker.override_policy, config)
        async with self._writing:
            storage = await self.leading()
            created = name not in self.connectors
            if not created and not replace:
                raise ConflictError(f"Connector {name} already exists")
            await asyncio.to_thread(storage.configs.put_connector, name, config, state)
            await self._take_effect(name)
            _log.info("connector configured", connector=name, created=created)
            return created

    async def delete(self, name: str) -> None:
        """Stop a connector and forget it; slot, publication, topics and offsets stay.

        Raises:
            NotFoundError: there is none.
            ConflictError: this worker does not lead the group.
        """
        async with self._writing:
            storage = await self.leading()
            self.run_of(name)
            await asyncio.to_thread(storage.configs.delete_connector, name)
            await self._take_effect(name)
            storage.statuses.delete(name)
            await self.reset_topics(name)
            self._health_of_connectors()
            _log.info("connector deleted", connector=name)

    async def set_target(self, name: str, state: str) -> None:
        """Pause, resume or stop a connector.

        Raises:
            NotFoundError: there is none.
            ConflictError: this worker does not lead the group.
        """
        assert state in {STARTED, PAUSED, STOPPED}
        async with self._writing:
            storage = await self.leading()
            if self.run_of(name).target_state == state:
                return
            await asyncio.to_thread(storage.configs.put_target_state, name, state)
            await self._take_effect(name)

    async def restart(self, name: str, *, only_failed: bool = False) -> None:
        """Restart a connector's task; only where it runs.

        Raises:
            NotFoundError: there is none.
            ConflictError: another worker runs it.
        """
        if name not in self.local_runs:
            self.run_of(name)
            raise ConflictError(
                "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
            )
        if not (only_failed and self.local_runs[name].healthy):
            await self._conform(name, anew=True)

    @contextlib.asynccontextmanager
    async def stopped(self, name: str) -> AsyncIterator[None]:
        """Hold a connector that is stopped, so that its offsets can be changed.

        Raises:
            NotFoundError: there is none of that name.
            NotStoppedError: it is not meant to be stopped.
            ConflictError: its task has not ended yet, or this worker does not lead the group.
        """
        async with self._writing:
            await self.leading()
            if self.run_of(name).target_state != STOPPED:
                raise NotStoppedError(
                    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                    f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
                )
            deadline = time.monotonic() + self.worker.graceful_stop_seconds + _LEADER_SECONDS
            while not self._is_stopped(name):
                if time.monotonic() > deadline:
                    raise ConflictError(f"the task of connector {name} has not ended yet")
                await asyncio.sleep(_LOOK_SECONDS)
            yield

    def _is_stopped(self, name: str) -> bool:
        """Whether no worker has a task of a connector that is meant to be stopped."""
        run = self.local_runs.get(name)
        if run is not None:
            return run.target_state == STOPPED
        owner = None if self.group is None else self.group.owner(name)
        told = None if self.storage is None else self.storage.statuses.connector(name)
        return owner is None or (told is not None and (told.worker_id, told.state) == (owner, STOPPED))

    async def topics_of(self, name: str) -> list[str]:
        """The topics a connector has written to, until this moment where it runs here."""
        if self.topics is None or self.storage is None:
            return []
        run = self.local_runs.get(name)
        if run is not None:
            self.topics.look([run])
            await self._statuses_settled()
        return self.topics.topics(name)

    async def reset_topics(self, name: str) -> None:
        """Forget the topics a connector has written to."""
        if self.topics is not None:
            self.topics.reset(name)
            await self._statuses_settled()

    async def _statuses_settled(self) -> None:
        assert self.storage is not None
        await asyncio.to_thread(self.storage.statuses.flush, 5.0)
        await self.storage.settle()

    async def set_cluster_log_level(self, namespace: str, level: str) -> None:
        """Set a log level on every worker of the group; it does not outlive them."""
        if self.storage is not None:
            await asyncio.to_thread(self.storage.configs.put_log_level, namespace, level)

    def _log_level_heard(self, namespace: str, level: str) -> None:
        if level in LEVELS:
            self.log_levels.set(namespace, level)
        else:
            _log.warning("the config topic has a log level that there is not", logger_name=namespace)

    def _tell_log_levels(self, levels: Mapping[str, str]) -> None:
        for run in self.local_runs.values():
            run.set_log_levels(levels)

    async def leading(self) -> Storage:
        """The storage, when this worker leads; waits while the group finds its leader.

        Raises:
            ConflictError: another leads, or nobody for now.
        """
        deadline = time.monotonic() + _LEADER_SECONDS
        while True:
            if self.group is not None and self.storage is not None:
                if self.group.leads:
                    return self.storage
                if self.group.leader_url is not None:
                    raise ConflictError(
                        "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
                    )
            if time.monotonic() > deadline:
                raise ConflictError(
                    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
                    "was underway."
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _take_effect(self, name: str) -> None:
        """What was written is known here, and done if it is this worker's to do."""
        assert self.storage is not None
        assert self.group is not None
        await self.storage.settle()
        await self.group.distribute()
        await self._conform(name)

    # What is done: equal to what the topics say

    async def _reconcile(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for name in sorted(self.connectors.keys() | self.local_runs.keys()):
                if self._differs(name) and name not in self._conforming:
                    self._conforming[name] = asyncio.create_task(self._conform_in_passing(name))
            await self._tell_group()

    async def _conform_in_passing(self, name: str) -> None:
        try:
            await self._conform(name)
        except Exception:  # noqa: BLE001 - logged; one connector's trouble is not another's
            _log.exception("a connector could not be started or stopped", connector=name)
            await asyncio.sleep(1.0)
        finally:
            self._conforming.pop(name, None)
            self._wake.set()

    async def _tell_group(self) -> None:
        assert self.group is not None
        assert self.storage is not None
        holds = self.group.holds
        self._health.set("group", holds, "" if holds else f"not a member of {self.worker.group_id}")
        self._health_of_connectors()
        for name, stored in self.storage.configs.connectors.items():
            if not stored.is_ours and name not in self._foreign:
                self._foreign.add(name)
                _log.warning("a stored connector is of a class this worker does not have", connector=name)
        if all(self.group.owner(name) == self.worker_id for name in self.local_runs):
            try:
                await self.group.applied()
            except CaptureError as error:
                _log.warning("the group could not be told", reason=str(error))

    def _wanted(self, name: str) -> StoredConnector | None:
        """A connector that this worker is to run."""
        stored = self.connectors.get(name)
        group = self.group
        if stored is None or group is None or not group.holds or group.owner(name) != self.worker_id:
            return None
        return stored

    def _differs(self, name: str) -> bool:
        run, wanted = self.local_runs.get(name), self._wanted(name)
        if run is None or wanted is None:
            return (run is None) != (wanted is None)
        return (run.revision, run.target_state) != (wanted.revision, wanted.target_state)

    async def _conform(self, name: str, *, anew: bool = False) -> None:
        async with self._locks.setdefault(name, asyncio.Lock()):
            if not anew and not self._differs(name):
                return
            former = self.local_runs.get(name)
            if former is not None:
                await former.stop(kill=self.group is None or not self.group.holds)
            wanted = self._wanted(name)
            if wanted is not None:
                self._run(name, wanted)
            elif former is not None:
                await self._let_go(former)

    async def interrupt(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        """End a connector's task, do something, and start the task again, whatever came of it; only where it runs."""
        async with self._locks.setdefault(name, asyncio.Lock()):
            run = self.local_runs.get(name)
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
            run = self.local_runs.get(name)
            if run is not None and run.target_state == STARTED and run.held != reason:
                text = "a connector rests" if reason else "a connector goes on"
                _log.warning(text, connector=name, reason=reason)
                await run.hold(reason)

    async def _let_go(self, run: ConnectorRun) -> None:
        del self.local_runs[run.name]
        assert self.storage is not None
        assert self.group is not None
        if run.name not in self.connectors:
            self.storage.statuses.delete(run.name)
        elif self.group.holds:
            self._tell_unassigned(run)
        self._status_told.pop(run.name, None)
        await asyncio.to_thread(self.storage.statuses.flush, 5.0)  # before the next worker says RUNNING

    def _run(self, name: str, stored: StoredConnector) -> None:
        former = self.local_runs.get(name)
        run = ConnectorRun(
            name,
            stored.config,
            stored.target_state,
            self._job,
            self._changed,
            stop_seconds=self.worker.graceful_stop_seconds,
            worker_id=self.worker_id,
            revision=stored.revision,
        )
        if former is not None:
            run.continue_from(former)
        self.local_runs[name] = run
        run.start()

    def _job(self, name: str, config: dict[str, str]) -> TaskJob:
        worker = self.worker
        check_overrides(worker.override_policy, config)  # the policy may be stricter than when it was stored
        return TaskJob(
            connector=name,
            task=0,
            config=self.resolved(config),
            converters=worker.converters,
            client=worker.common_client(),
            producer=worker.producer,
            consumer=worker.consumer,
            admin=worker.admin,
            offset_topic=worker.offset_topic.name,
            offset_file=worker.offset_file,
            offset_flush_ms=worker.offset_flush_ms,
            topic_creation=worker.topic_creation,
            group=worker.group_id,
            exactly_once=worker.exactly_once == ENABLED,
            log_level=self._log_level,
            log_levels=dict(self.log_levels.changed),
            log_format=self._log_format,
        )

    def _run_or_view(self, name: str, stored: StoredConnector) -> ConnectorRun | RemoteRun:
        run = self.local_runs.get(name)
        if run is not None:
            return run
        assert self.storage is not None
        owner = None if self.group is None else self.group.owner(name)
        told, task = self.storage.statuses.connector(name), self.storage.statuses.task(name, 0)
        if task is None or task.worker_id != owner:
            task = None  # of a worker that runs it no more
        return RemoteRun(
            name,
            stored.config,
            stored.target_state,
            worker_id=owner or (told.worker_id if told is not None else self.worker_id),
            task_state=UNASSIGNED if task is None else task.state,
            trace=None if task is None else task.trace,
            assigned=owner is not None and told is not None and told.worker_id == owner,
            restarts=0,
        )

    def _changed(self, run: ConnectorRun) -> None:
        assert self.storage is not None
        statuses = self.storage.statuses
        now = (run.connector_state, run.has_task, run.task_state, run.trace)
        if self._status_told.get(run.name) != now and self.group is not None and self.group.holds:
            self._status_told[run.name] = now
            statuses.put_connector(run.name, run.connector_state, None, run.generation)
            if run.has_task:
                statuses.put_task(run.name, 0, run.task_state, run.trace, run.generation)
        self._health_of_connectors()

    def _tell_unassigned(self, run: ConnectorRun) -> None:
        assert self.storage is not None
        if run.has_task:
            self.storage.statuses.put_task(run.name, 0, UNASSIGNED, None, run.generation)
        self.storage.statuses.put_connector(run.name, UNASSIGNED, None, run.generation)

    def _health_of_connectors(self) -> None:
        unhealthy = [run.name for run in self.local_runs.values() if not run.healthy]
        self._health.set(
            "connectors", not unhealthy, f"not running: {', '.join(unhealthy)}" if unhealthy else ""
        )

    def _fail(self, error: TidingsError) -> None:
        if self.failure is None:
            self.failure = error
            self.failed.set()
