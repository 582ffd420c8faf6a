"""One task's life in the herder: its process, retries, and what its status says.

States are Kafka Connect's: UNASSIGNED, RUNNING, PAUSED, STOPPED, FAILED. A task that is not streaming is never RUNNING:
between two attempts it is FAILED, with the error and the time of the next attempt in its trace.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tidings_connect.config.retries import RetryOptions, read_retry_options
from tidings_connect.errors import ConnectError, SilentTaskError, TaskDiedError
from tidings_connect.renewals import Renewal
from tidings_connect.storage.records import PAUSED, STARTED, STOPPED
from tidings_connect.supervised import supervise
from tidings_connect.task.channel import SIGNAL, Command, Failure, Report, SinkCounts, TaskJob
from tidings_connect.task.forks import TaskForks
from tidings_connect.task.process import TaskProcess
from tidings_connect.task_id import TaskId
from tidings_connect.threads import TASKS
from tidings_service import Retry, TidingsError, get_logger, safe_trace

UNASSIGNED: Final = "UNASSIGNED"
RUNNING: Final = "RUNNING"
FAILED: Final = "FAILED"
_STATE_OF_REPORT: Final = {
    "starting": UNASSIGNED,
    "snapshot": RUNNING,
    "streaming": RUNNING,
    "idle": RUNNING,
}
_SETTLED_SECONDS: Final = 30.0
"""A task that ran this long starts its retries anew."""

_log = get_logger(__name__)


def connector_state(target_state: str) -> str:
    """The state of a connector that somebody runs."""
    return {STARTED: RUNNING, PAUSED: PAUSED, STOPPED: STOPPED}.get(target_state, UNASSIGNED)


@dataclass(slots=True)
class Counters:
    """What a task's metrics say; sums over its processes."""

    records: dict[str, int]
    transactions: int = 0
    events: int = 0
    read: int = 0
    """Of a sink: records read from its topics."""
    sink: SinkCounts = SinkCounts()
    losses: dict[str, int] = field(default_factory=dict)
    """How often changes may have been lost, by reason."""
    findings: dict[str, int] = field(default_factory=dict)
    """What a source's way of reading had missed, by kind."""


class LocalTask:
    """Runs one task of a connector until it is stopped; the first one stands for the connector as well (`TaskId`).

    Args:
        config: the connector's.
        make_job: the task's job from its configuration.
        forks: starts the task's processes.
        on_change: called when connector or task changed state.
        silence_seconds: after so long without a report the task is FAILED and its process killed; 0: never.
        worker_id: the worker it runs on.
        revision: of the stored configuration that it runs.
        tasks: how many the connector has.
        task: its number.
        task_config: what the task is given; None: the connector's configuration.
        config_digest: see `TaskJob`.
        may_start: returns when the tasks of a connector's revision may start; None: they always may.
    """

    def __init__(
        self,
        name: str,
        config: dict[str, str],
        target_state: str,
        make_job: Callable[[TaskId, dict[str, str]], TaskJob],
        forks: TaskForks,
        on_change: Callable[["LocalTask"], None],
        *,
        stop_seconds: float,
        silence_seconds: float,
        worker_id: str,
        revision: int,
        tasks: int = 1,
        task: int = 0,
        task_config: dict[str, str] | None = None,
        config_digest: str = "",
        may_start: Callable[[str, int], Awaitable[None]] | None = None,
    ) -> None:
        self._config_digest = config_digest
        self._may_start = may_start
        self.name = name
        self.task = task
        self.task_config = config if task_config is None else task_config
        self.worker_id = worker_id
        self.revision = revision
        self._tasks = tasks
        self.config = config
        self.target_state = target_state
        self._make_job = make_job
        self._forks = forks
        self._on_change = on_change
        self._stop_seconds = stop_seconds
        self._silence_seconds = silence_seconds
        self._process: TaskProcess | None = None
        self._following: asyncio.Task[None] | None = None
        self._base = Counters({})
        self.task_state = UNASSIGNED
        self.trace: str | None = None
        self.report = Report(state="starting")
        self.restarts = 0
        self.errors: dict[str, int] = {}
        self.generation = 0
        self.held: str | None = None
        """Why the task rests although it is meant to run."""
        self.standing: dict[str, str] = {}
        """The last command of each kind that a companion lets stand."""
        self._lease: float | None = None
        self._told: tuple[TaskProcess | None, dict[str, str]] = (None, {})
        self._renewals_told: tuple[TaskProcess | None, list[Renewal]] = (None, [])

    @property
    def connector_state(self) -> str:
        """The connector's own state, which says nothing about its task."""
        return connector_state(self.target_state)

    @property
    def has_task(self) -> bool:
        """A stopped connector has no tasks, and neither has one that was paused before it ever ran."""
        return self.task < self._tasks

    @property
    def id(self) -> TaskId:
        """Which task of which connector."""
        return TaskId(self.name, self.task)

    @property
    def healthy(self) -> bool:
        """Whether it does what it is meant to do."""
        if self.target_state != STARTED or self.held is not None:
            return True
        return self.task_state == RUNNING

    @property
    def task_pid(self) -> int | None:
        """The task's process."""
        return None if self._process is None else self._process.pid

    @property
    def report_age_seconds(self) -> float | None:
        """How long ago the task's process said something; None while none runs."""
        return None if self._process is None else self._process.report_age_seconds

    def signal(self, text: str) -> bool:
        """Hand a signal to the task; False when none is running."""
        return self._process is not None and self._process.command(Command(SIGNAL, text))

    def set_log_levels(self, levels: Mapping[str, str]) -> None:
        """Tell the task of new log levels, if one runs."""
        if self._process is not None:
            self._process.set_log_levels(levels)

    def counters(self) -> Counters:
        """Totals over all processes of this task."""
        records = dict(self._base.records)
        for topic, count in self.report.records.items():
            records[topic] = records.get(topic, 0) + count
        return Counters(
            records,
            self._base.transactions + self.report.transactions,
            self._base.events + self.report.events,
            self._base.read + self.report.records_read,
            self._base.sink.plus(self.report.sink.counts),
            _sums(self._base.losses, self.report.losses),
            _sums(self._base.findings, self.report.findings),
        )

    def continue_from(self, former: "LocalTask") -> None:
        """Take over the counters of the run before this one: metrics never go back."""
        self._base = former.counters()
        self.restarts = former.restarts
        self.errors = former.errors
        self.generation = former.generation
        self.standing = former.standing

    def start(self) -> None:
        """Begin to run, or take note that there is nothing to run."""
        if self.target_state == STARTED:
            self._set(UNASSIGNED, None)
            self._following = supervise(
                self._follow(), f"task {self.id}", self._followed_no_more, may_return=True
            )
        else:
            self._set(PAUSED if self.target_state == PAUSED else UNASSIGNED, None)

    async def hold(self, reason: str | None) -> None:
        """Let the task rest for a reason that its status shows, or go on (None); no one else's state changes."""
        if reason is None:
            self.held = None
            self.start()
            return
        await self.stop()
        self.held = reason
        self._set(PAUSED, reason)

    def tell_renewals(self, renewals: list[Renewal]) -> None:
        """Hand passwords that have changed to the task, once to each process."""
        process = self._process
        if process is not None and self._renewals_told != (process, renewals) and process.renew(renewals):
            self._renewals_told = (process, renewals)

    def tell(self, kind: str, body: str) -> None:
        """Let a command stand in place of the last one of its kind: the task's process is told it, and each one after it."""
        self.standing[kind] = body
        process = self._process
        if process is None:
            return
        if self._told[0] is not process:
            self._told = (process, {})
        told = self._told[1]
        if told.get(kind) != body and process.command(Command(kind, body)):
            told[kind] = body

    def renew_lease(self, until: float | None) -> None:
        """Until when the task may run (`time.monotonic`), this process of it and those after it; None: for good."""
        if until == self._lease:
            return
        self._lease = until
        if self._process is not None and until is not None:
            self._process.renew_lease(until)

    async def stop(self, *, kill: bool = False) -> None:
        """End the task's process; what was sent is stored and confirmed before, except with `kill`."""
        following, self._following = self._following, None
        if self._process is not None:
            await self._process.stop(0.0 if kill else self._stop_seconds)
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        self._process = None
        self._settle_counters()

    async def _follow(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            self.generation += 1
            began = loop.time()
            retry, failure = await self._attempt()
            self._settle_counters()
            if failure is None:
                return
            self.errors[failure.code] = self.errors.get(failure.code, 0) + 1
            failures = 1 if loop.time() - began > _SETTLED_SECONDS else failures + 1
            pause = _pause(failure, retry, failures)
            self._set(FAILED, _trace(failure, pause))
            if pause is None:
                _log.error(
                    "task failed",
                    connector=self.name,
                    task=self.task,
                    code=failure.code,
                    reason=failure.message,
                )
                return
            _log.warning(
                "task failed and will be restarted",
                connector=self.name,
                task=self.task,
                code=failure.code,
                reason=failure.message,
                seconds=round(pause, 3),
            )
            await asyncio.sleep(pause)
            self.restarts += 1

    def _followed_no_more(self, error: TidingsError) -> None:
        self._set(FAILED, _trace(_failure(error), None))

    async def _attempt(self) -> tuple[RetryOptions, Failure | None]:
        """`_run_once`; what goes wrong on this side of the pipe is a failure of the task like any other."""
        try:
            return await self._run_once()
        except ConnectError as error:
            failure = _failure(error)
        except Exception as error:  # noqa: BLE001 - logged, and the task is FAILED by it
            _log.exception("a task could not be followed", connector=self.name, task=self.task)
            message = f"the task could not be followed: {type(error).__name__}"
            failure = Failure("unexpected", message, str(Retry.TIMED), None, safe_trace(error))
        return self._retry_options(), failure

    def _retry_options(self) -> RetryOptions:
        """Those that need no secret."""
        return read_retry_options({n: v for n, v in self.task_config.items() if "${" not in v})

    async def _run_once(self) -> tuple[RetryOptions, Failure | None]:
        """Run the task until its process ends; why it ended, None after a stop."""
        try:
            if self._may_start is not None:
                await self._may_start(self.name, self.revision)
            # Every attempt reads secrets anew: one that was rotated may be why the last one failed.
            job = await TASKS.run(self._make_job, self.id, self.task_config)
        except ConnectError as error:
            return self._retry_options(), _failure(error)
        job = msgspec.structs.replace(
            job,
            commands=[Command(kind, body) for kind, body in self.standing.items()],
            lease=self._lease,
            config_digest=self._config_digest,
        )
        process = self._process = TaskProcess(
            job, self._forks, self._heard, self._unheard, self._silence_seconds
        )
        try:
            code = await process.run()
        except OSError as error:
            return read_retry_options(job.config), Failure(
                TaskDiedError.code, f"{error}", str(TaskDiedError.default_retry), None, ""
            )
        stopped = code == 0 and process.failure is None and self._following is None
        return read_retry_options(job.config), None if stopped else process.failure or _died(code)

    def _heard(self, report: Report) -> None:
        if report.state in _STATE_OF_REPORT:
            self.report = report
            state = _STATE_OF_REPORT[report.state]
            # While a task that failed is starting again it stays FAILED: nothing is known to be better yet.
            if state != self.task_state and not (state == UNASSIGNED and self.task_state == FAILED):
                self._set(state, None)

    def _unheard(self, error: SilentTaskError) -> None:
        """The task says nothing, and is about to be killed, which may take its time."""
        self._set(FAILED, f"{error.code}: {error}\nhint: {error.hint}\nits process is being killed")

    def _settle_counters(self) -> None:
        self._base = self.counters()
        self.report = Report(state="stopped")

    def _set(self, state: str, trace: str | None) -> None:
        self.task_state, self.trace = state, trace
        self._on_change(self)


def _failure(error: TidingsError) -> Failure:
    return Failure(error.code, str(error), str(error.retry), error.hint, "")


def _died(code: int) -> Failure:
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return Failure(
        TaskDiedError.code, f"the task's process ended {how}", str(TaskDiedError.default_retry), None, ""
    )


def _pause(failure: Failure, retry: RetryOptions, failures: int) -> float | None:
    """Seconds until the next attempt, with jitter; None: no further attempt."""
    if failure.retry != Retry.TIMED or (0 <= retry.attempts < failures):
        return None
    longest = min(retry.first_seconds * float(2 ** min(failures - 1, 20)), retry.longest_seconds)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


def _trace(failure: Failure, pause: float | None) -> str:
    lines = [f"{failure.code}: {failure.message}"]
    if failure.hint:
        lines.append(f"hint: {failure.hint}")
    lines.append("no further attempt" if pause is None else f"next attempt in {pause:.1f} seconds")
    if failure.trace:
        lines.append(failure.trace)
    return "\n".join(lines)


def _sums(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
