"""Sees to it that no task of a connector's former configuration writes any more when tasks of the new one start (KIP-618).

A task that starts takes over its own transactional.id, and whoever had it before is refused by Kafka. That is not enough
when work moves between tasks: of three tasks that become two, nobody takes over the third id. So the leader takes over
those of all former tasks, and then writes how many there are from now on (``tasks-fencing-<name>``, Kafka Connect's
record); a task waits for that record. Whether a former task is frozen, cut off or only slow does not matter then.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from tidings_connect.config.exactly_once import ENABLED, transactional_id
from tidings_connect.config.plugins import kind_of
from tidings_connect.config.task_options import producer_overrides
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.errors import ConnectError, FencingError
from tidings_connect.group.worker_group import Group
from tidings_connect.herder.leadership import Leadership
from tidings_connect.herder.local_task import RUNNING
from tidings_connect.kafka.transactional_producer import TransactionalProducer
from tidings_connect.storage.kafka import Storage
from tidings_connect.storage.records import STARTED, StoredConnector
from tidings_connect.task.channel import TaskJob
from tidings_connect.task_id import TaskId
from tidings_connect.threads import FENCING, TASKS, Places
from tidings_service import Retry, get_logger

_LOOK_SECONDS: Final = 0.1
_PAUSE_SECONDS: Final = 1.0
_LONG_PAUSE_SECONDS: Final = 30.0
"""Between two attempts; the longer one after an error that somebody has to mend."""
_WAIT_SECONDS: Final = 30.0
"""Beside the time that former tasks may take to end: how long a task waits for the leader before it is FAILED."""

_log = get_logger(__name__)

TakeOver = Callable[[TaskJob, int, Callable[[], bool]], None]
"""Takes over the transactional.id of a task by number, unless the last argument says that it is not to be done any more."""


class Fencing:
    """The leader's rounds, and what the tasks of this worker wait for.

    Args:
        leadership: where a round reads and writes the config topic.
        make_job: a task's job from its configuration.
    """

    def __init__(
        self,
        worker: WorkerConfig,
        storage: Storage,
        group: Group,
        leadership: Leadership,
        make_job: Callable[[TaskId, dict[str, str]], TaskJob],
        take_over: TakeOver | None = None,
    ) -> None:
        self._enabled = worker.exactly_once == ENABLED
        self._stop_seconds = worker.graceful_stop_seconds
        self._storage, self._group = storage, group
        self._leadership = leadership
        self._make_job = make_job
        self._take_over = take_over or take_over_id
        self._turns = Places(1)
        self._rounds: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[tuple[str, int], ConnectError] = {}
        """By connector and revision."""

    def look(self) -> None:
        """Leader only: begin the rounds that are due."""
        if not (self._enabled and self._group.leads):
            self._failures.clear()
            return
        for name, stored in self._storage.configs.connectors.items():
            due = stored.target_state == STARTED and self._concerns(stored) and not stored.fencing.done
            if due and name not in self._rounds:
                self._rounds[name] = asyncio.create_task(self._try(name))

    async def stop(self) -> None:
        """Begin nothing any more; a round that is under way is left to the next leader."""
        rounds = list(self._rounds.values())
        for task in rounds:
            task.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)

    def digest(self, stored: StoredConnector) -> str:
        """Of the configuration that a task has to find unchanged once it has its transactional.id; empty: of none."""
        waits = self._concerns(stored) and not stored.fencing.follows_one(stored.tasks_now)
        return stored.digest if waits else ""

    async def wait(self, name: str, revision: int) -> None:
        """Return when tasks of a revision of a connector may start.

        Raises:
            FencingError: they may not yet.
        """
        deadline = time.monotonic() + self._stop_seconds + _WAIT_SECONDS
        while not self._lets_start(name, revision):
            failure = self._failures.get((name, revision))
            if failure is not None:
                raise FencingError(
                    f"tasks of the former configuration could not be fenced: {failure}",
                    hint=failure.hint,
                    retry=failure.retry,
                ) from failure
            if time.monotonic() > deadline:
                raise FencingError(
                    "the group's leader has not fenced the tasks of the former configuration",
                    hint=f"see the log of the leader, {self._group.leader_url or 'which is not known'}",
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def fence_stopped(self, name: str) -> None:
        """Fence the tasks of a stopped connector: none of them stores an offset any more.

        Raises:
            FencingError: they may still do.
        """
        stored = self._storage.configs.connectors.get(name)
        if stored is None or not self._concerns(stored) or not stored.fencing.tasks:
            return
        async with self._turns.at(name):
            try:
                await self._fence(name, stored, stored.fencing.tasks)
            except ConnectError as error:
                raise FencingError(
                    f"Failed to perform zombie fencing for source connector prior to modifying offsets: {error}",
                    hint=error.hint,
                ) from error

    def _concerns(self, stored: StoredConnector) -> bool:
        return self._enabled and stored.is_ours and kind_of(stored.config) == "source"

    def _lets_start(self, name: str, revision: int) -> bool:
        stored = self._storage.configs.connectors.get(name)
        if stored is None or stored.revision != revision:
            return False  # the task that waits is about to be ended
        fencing = stored.fencing
        return not self._concerns(stored) or fencing.done or fencing.follows_one(stored.tasks_now)

    async def _try(self, name: str) -> None:
        try:
            async with self._turns.at(name):
                await self._round(name)
            self._forget(name)
        except ConnectError as error:
            await asyncio.sleep(_PAUSE_SECONDS if error.retry is Retry.TIMED else _LONG_PAUSE_SECONDS)
        except Exception:  # noqa: BLE001 - logged; one connector's trouble is not another's
            _log.exception("former tasks could not be fenced", connector=name)
            await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._rounds.pop(name, None)

    def _forget(self, name: str) -> None:
        self._failures = {key: error for key, error in self._failures.items() if key[0] != name}

    async def _round(self, name: str) -> None:
        async with self._leadership.writing() as storage:
            stored = storage.configs.connectors.get(name)
        if stored is None or stored.fencing.done or stored.target_state != STARTED:
            return
        try:
            if stored.fencing.needs_round(stored.tasks_now):
                await self._fence(name, stored, stored.fencing.tasks or 0)
        except ConnectError as error:
            if str(self._failures.get((name, stored.revision))) != str(error):
                _log.warning("former tasks could not be fenced", connector=name, reason=str(error))
            self._failures[name, stored.revision] = error
            raise
        async with self._leadership.writing() as storage:
            now = storage.configs.connectors.get(name)
            if now is None or (now.revision, now.target_state) != (stored.revision, STARTED):
                return  # another round begins
            await FENCING.run(storage.configs.put_fenced, name, stored.tasks_now)
            await storage.settle()

    async def _fence(self, name: str, stored: StoredConnector, tasks: int) -> None:
        began = time.monotonic()
        while time.monotonic() - began < self._stop_seconds and self._still_running(name, tasks):  # noqa: ASYNC110 - told by a topic
            await asyncio.sleep(_LOOK_SECONDS)
        job = await TASKS.run(self._make_job, TaskId(name), stored.config)
        for task in range(tasks):
            await FENCING.run(self._take_over, job, task, lambda: not self._group.leads)
        seconds = round(time.monotonic() - began, 3)
        _log.info("former tasks are fenced", connector=name, tasks=tasks, seconds=seconds)

    def _still_running(self, name: str, tasks: int) -> bool:
        """Whether a worker of the group has yet to end a former task, which stores its position then."""
        told = (self._storage.statuses.task(name, task) for task in range(tasks))
        return any(
            status is not None
            and status.state == RUNNING
            and self._group.url_of(status.worker_id) is not None
            for status in told
        )


def take_over_id(job: TaskJob, task: int, given_up: Callable[[], bool]) -> None:
    """Let whoever has the transactional.id of a task be refused by Kafka from now on; what it has open is aborted.

    Raises:
        BrokerError: Kafka does not answer, or refused.
        FencingError: it is not to be done any more.
    """

    def on_wait() -> None:
        if given_up():
            raise FencingError("another worker leads the group now")

    on_wait()
    settings = {**job.client, **job.producer, **producer_overrides(job.config)}
    producer = TransactionalProducer(
        settings, transactional_id(job.group, job.connector, task), on_wait=on_wait
    )
    producer.open()
    producer.close()
