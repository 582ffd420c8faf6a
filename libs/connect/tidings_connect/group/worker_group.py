"""A worker's part in its group: whether it may run what it is given, who leads, and the leader's duty.

`KafkaGroup` joins what `GroupMember` sees (who is alive) with what the status topic holds (who is to run what,
`group.assignment`). A worker that has not seen itself in the group for the session timeout less a heartbeat ends its tasks
before the others can take them over. One that was alone goes on: nobody is there to take over, and when Kafka is away
its tasks wait for Kafka anyway.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

from tidings_connect.config.worker import WorkerConfig
from tidings_connect.errors import BrokerError, ConnectError
from tidings_connect.group.assignment import (
    APPLIED_PREFIX,
    ASSIGNMENT_KEY,
    Assignment,
    applied_key,
    decode_applied,
    decode_assignment,
    encode_applied,
    encode_assignment,
    plan,
)
from tidings_connect.group.member import GroupMember, GroupView
from tidings_connect.storage.kafka import Storage, running
from tidings_connect.supervised import OnEnd, supervise, supervised_call
from tidings_connect.task_id import TaskId
from tidings_connect.threads import GROUP
from tidings_service import TidingsError, get_logger

_ALONE_SESSIONS: Final = 3
"""After so many session timeouts without a sign of life of its worker a task ends where nobody else was in the group."""
_TICK_SECONDS: Final = 0.5

_log = get_logger(__name__)


class Group(Protocol):
    """What the supervisor asks about the other workers."""

    @property
    def holds(self) -> bool:
        """Whether this worker may run what it is given."""
        ...

    @property
    def leads(self) -> bool:
        """Whether this worker writes configurations."""
        ...

    @property
    def leader_url(self) -> str | None:
        """Where configurations are written; None while nobody leads."""
        ...

    @property
    def lease(self) -> float | None:
        """Until when tasks may run if nothing is heard of this worker (`time.monotonic`); None: for good."""
        ...

    def owner(self, task: TaskId) -> str | None:
        """The worker that is to run a task."""
        ...

    def further_tasks(self, connector: str) -> Collection[TaskId]:
        """The tasks of a connector beyond its first that some worker has, or has yet to let go of."""
        ...

    def url_of(self, worker: str) -> str | None:
        """A worker's REST address; None when it is not there."""
        ...

    async def start(self) -> None: ...

    async def distribute(self) -> None:
        """Leader only: give away what nobody runs, now rather than at the next tick."""
        ...

    async def applied(self) -> None:
        """This worker runs nothing any more that is not its own."""
        ...

    async def stop(self) -> None: ...


class AloneGroup:
    """The group of a standalone worker."""

    holds = True
    leads = True
    lease = None

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self.leader_url: str | None = f"http://{worker_id}"

    def owner(self, task: TaskId) -> str | None:  # noqa: ARG002 - every task
        return self._worker_id

    def further_tasks(self, connector: str) -> Collection[TaskId]:  # noqa: ARG002 - nobody else has any
        return ()

    def url_of(self, worker: str) -> str | None:  # noqa: ARG002 - there is one
        return self.leader_url

    async def start(self) -> None: ...

    async def distribute(self) -> None: ...

    async def applied(self) -> None: ...

    async def stop(self) -> None: ...


class KafkaGroup:
    """The workers with one ``group.id``.

    Args:
        url: this worker's REST address.
        on_change: called on the event loop when owners, leader or `holds` may have changed.
        on_fatal: called on the event loop when the worker has to end.
    """

    def __init__(
        self,
        worker: WorkerConfig,
        worker_id: str,
        url: str,
        storage: Storage,
        on_change: Callable[[], None],
        on_fatal: OnEnd,
    ) -> None:
        self._worker, self._id, self._url = worker, worker_id, url
        self._storage = storage
        self._on_change, self._on_fatal = on_change, on_fatal
        self._loop = asyncio.get_running_loop()
        self._times = worker.group_times
        self._members: dict[str, str] = {}
        self._left: dict[str, float] = {}
        self._token = False
        self._seen_at = 0.0
        self._holds = False
        self._is_out = False
        self._ready_to_lead = False
        self._applied_epoch = 0
        self._read: tuple[bytes | None, Assignment] = (None, Assignment())
        self._lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._ticking: asyncio.Task[None] | None = None
        self._member = GroupMember(
            {**worker.common_client(), **worker.consumer},
            worker.group_id,
            worker.config_topic.name,
            url,
            self._times,
            lambda view: self._soon(self._seen, view),
            lambda error: self._soon(self._out, error),
        )

    @property
    def holds(self) -> bool:
        return self._holds

    @property
    def leads(self) -> bool:
        # Fresh, because a leader that cannot see the group gives nothing away: a request would be granted and never done.
        return self._token and self._holds and self._ready_to_lead and self._fresh()

    @property
    def leader_url(self) -> str | None:
        if self.leads:
            return self._url
        leader = self.assignment.leader
        return None if leader == self._id else self._members.get(leader)

    @property
    def lease(self) -> float | None:
        """Beside others: as long as this worker may hold what it has. Alone: whether Kafka answers or not, but no longer than
        a worker may be busy; another may come, find the place empty as soon as the session is over, and need the slot."""
        if set(self._members) - {self._id}:
            return self._seen_until
        return time.monotonic() + _ALONE_SESSIONS * self._times.session

    @property
    def assignment(self) -> Assignment:
        """As the status topic has it."""
        data = self._storage.statuses.values.get(ASSIGNMENT_KEY)
        if data is not self._read[0]:
            self._read = (data, decode_assignment(data))
        return self._read[1]

    def owner(self, task: TaskId) -> str | None:
        return self.assignment.owners.get(task)

    def further_tasks(self, connector: str) -> Collection[TaskId]:
        known = {*self.assignment.owners, *self.assignment.leaving}
        return [task_id for task_id in known if task_id.task and task_id.connector == connector]

    def url_of(self, worker: str) -> str | None:
        return self._url if worker == self._id else self._members.get(worker)

    async def start(self) -> None:
        """Join the group.

        Raises:
            WorkerConfigError: workers of another kind live in it.
            BrokerError: Kafka cannot be reached.
        """
        await GROUP.run(self._member.start)
        self._ticking = supervise(self._tick_for_ever(), "group", self._on_fatal)

    async def stop(self) -> None:
        """Leave the group, and take this worker's records out of the topic; the last one to go takes all."""
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
        last = self.leads and set(self._members) == {self._id}
        try:
            if self._fresh() and not self._is_out:  # a Kafka that is away is not waited for
                await GROUP.run(self._withdraw, last)
        except BrokerError as error:
            _log.warning("left without taking back the records of this worker", reason=str(error))
        await GROUP.run(self._member.close)

    async def distribute(self) -> None:
        async with self._lock:
            await self._lead()

    async def applied(self) -> None:
        epoch = self.assignment.epoch
        asked = any(worker == self._id for worker, _ in self.assignment.leaving.values())
        if asked and self._holds and epoch > self._applied_epoch:
            self._applied_epoch = epoch
            await GROUP.run(self._storage.statuses.put_and_wait, applied_key(self._id), encode_applied(epoch))

    # What the member sees

    def _out(self, error: TidingsError) -> None:
        """Another has this worker's place: nothing here is its own any more."""
        self._holds = self._token = False
        self._is_out = True
        self._on_change()
        self._on_fatal(error)

    def _seen(self, view: GroupView) -> None:
        if self._is_out:
            return
        self._token = view.leads
        if not view.leads:
            self._ready_to_lead = False
        if view.members is not None:
            now = self._loop.time()
            for worker in self._members.keys() - view.members.keys():
                self._left[worker] = now
                _log.info("a worker has left the group", worker=worker)
            for worker in view.members.keys() - self._members.keys():
                self._left.pop(worker, None)
                _log.info("a worker is in the group", worker=worker)
            self._members = dict(view.members)
            # Not among others who are there: what this worker had is theirs.
            self._seen_at = view.seen_at if view.seen_at or self._members else self._seen_at
        self._wake.set()

    def _fresh(self) -> bool:
        return bool(self._seen_at) and time.monotonic() <= self._seen_until

    @property
    def _seen_until(self) -> float:
        """Until then nobody can have taken this worker for dead."""
        return self._seen_at + self._times.session - self._times.heartbeat

    async def _tick_for_ever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                async with self._lock:
                    await self._tick()
            except ConnectError as error:
                _log.warning("the group could not be looked after", reason=str(error))

    async def _tick(self) -> None:
        fresh = self._fresh() and not self._is_out
        if fresh and not self._holds:
            await self._storage.settle()  # what was decided while this worker was away
            self._holds = self._fresh() and not self._is_out
        elif not fresh and self._holds and (set(self._members) - {self._id}):
            self._holds = False
            _log.error("cut off from the group: its tasks are ended", group=self._worker.group_id)
        await self._lead()
        self._on_change()

    async def _lead(self) -> None:
        if not (self._token and self._holds and self._fresh()):
            return
        if not self._ready_to_lead:
            await self._storage.settle()
            self._ready_to_lead = self._token
        current = self.assignment
        values = self._storage.statuses.values
        acknowledged = {
            key.removeprefix(APPLIED_PREFIX).decode(errors="replace"): decode_applied(value)
            for key, value in values.items()
            if key.startswith(APPLIED_PREFIX)
        }
        horizon = self._loop.time() - self._worker.rebalance_delay_seconds
        self._left = {worker: left for worker, left in self._left.items() if left > horizon}
        wanted = plan(
            current,
            running(self._storage.configs.connectors),
            self._members,
            acknowledged,
            self._id,
            awaited=self._left,
        )
        if wanted is current:
            return
        _log.info(
            "connectors distributed",
            epoch=wanted.epoch,
            owners={
                (str(task_id) if task_id.task else task_id.connector): owner
                for task_id, owner in wanted.owners.items()
            },
        )
        await GROUP.run(self._storage.statuses.put_and_wait, ASSIGNMENT_KEY, encode_assignment(wanted))
        await self._storage.settle()
        self._wake.set()

    def _withdraw(self, last: bool) -> None:
        statuses = self._storage.statuses
        if last:
            statuses.put_and_wait(ASSIGNMENT_KEY, None)
        if applied_key(self._id) in statuses.values:
            statuses.put_and_wait(applied_key(self._id), None)

    def _soon(self, call: Callable[[Any], None], value: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(supervised_call(call, "group", self._on_fatal), value)
