"""Nothing says RUNNING while nothing runs: whatever ends on the worker's side of a task, or a loop of the worker itself,
fails the task or the worker with its reason."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.herder.herder import Herder
from tidings_connect.herder.local_task import FAILED, RUNNING, LocalTask
from tidings_connect.java.properties import load_properties
from tidings_connect.task.channel import Report, TaskJob
from tidings_service import Health
from tidings_stack.capture import CaptureWorker as Worker

pytestmark = pytest.mark.filterwarnings("ignore:list_groups")  # the only call that tells a group's protocol
SECONDS = 60
STREAMING = 'print(\'{"state":"streaming"}\', flush=True)\n'
ONCE_MORE = {"errors.max.retries": "1", "errors.retry.delay.initial.ms": "1"}
JOB = TaskJob("c", 0, ONCE_MORE, {}, {}, {}, {}, {}, "offsets", 100, topic_creation=True)


class ScriptTask:
    """A process in place of a task's."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.stdin, self.stdout = process.stdin, process.stdout

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()

    def kill(self) -> None:
        if self.returncode is None:
            self._process.kill()

    def close(self) -> None:
        self.stdin.close()


class ScriptForks:
    """Starts a script, each time; with the limit of a line that a task's reports have."""

    def __init__(self, script: str) -> None:
        self._script = "import os, signal, sys, time\n" + STREAMING + script
        self.pids: list[int] = []

    async def start(self) -> ScriptTask:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", self._script,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=4 * 1024 * 1024,
        )  # fmt: skip
        self.pids.append(process.pid)
        return ScriptTask(process)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("print('x' * 9_000_000, flush=True); time.sleep(600)", "unexpected: the task could not be followed"),
        ("print('{}', flush=True); time.sleep(600)", "task_channel: a task's report is malformed"),
        ("time.sleep(600)", "task_silent: the task's process has not reported for 2 seconds"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "task_silent: the task's process has not reported"),
        ("os.close(1); time.sleep(600)", "task_silent: the task's process says nothing any more"),
        ("sys.exit(0)", "task_died: the task's process ended with exit code 0"),
    ],
)
async def test_a_task_that_cannot_be_followed_is_failed_with_the_reason_and_killed(
    script: str, said: str
) -> None:
    forks, states, over = ScriptForks(script), [], asyncio.Event()

    def changed(run: LocalTask) -> None:
        states.append(run.task_state)
        if "no further attempt" in (run.trace or ""):
            over.set()

    run = LocalTask(
        "c", ONCE_MORE, "STARTED", lambda _name, _config: JOB, forks, changed,
        stop_seconds=1.0, silence_seconds=2.0, worker_id="w", revision=1,
    )  # fmt: skip
    run.start()
    try:
        await asyncio.wait_for(over.wait(), SECONDS)
    finally:
        await run.stop(kill=True)
    assert run.task_state == FAILED
    assert run.trace.startswith(said)
    assert len(forks.pids) == 2  # it was tried once more
    assert RUNNING in states
    assert run.report_age_seconds is None
    for pid in forks.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_task_that_reports_is_left_alone_however_long_it_runs() -> None:
    ages: list[float] = []
    enough = asyncio.Event()
    forks = ScriptForks("while True:\n  time.sleep(0.3); " + STREAMING)
    run = LocalTask(
        "c", {}, "STARTED", lambda _name, _config: JOB, forks, lambda _: None,
        stop_seconds=0.0, silence_seconds=1.0, worker_id="w", revision=1,
    )  # fmt: skip
    heard = run._heard

    def look(report: Report) -> None:
        ages.append(run.report_age_seconds or 0.0)
        heard(report)
        if len(ages) > 8:  # 2.4 seconds
            enough.set()

    run._heard = look
    run.start()
    try:
        await asyncio.wait_for(enough.wait(), SECONDS)
        assert (run.task_state, len(forks.pids)) == (RUNNING, 1)
        assert max(ages) < 1
    finally:
        await run.stop(kill=True)


def test_a_task_that_stands_still_is_failed_killed_and_started_again(
    worker_properties: Callable[..., Path],
    start_worker: Callable[..., Worker],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    read_topic: Callable[[str], list[Any]],
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    """SIGSTOP: as a process whose disk does not answer, or that holds a lock for ever."""
    sql("CREATE TABLE t (id int PRIMARY KEY)")
    worker = start_worker(worker_properties(f"silent-{os.getpid()}", tidings_task_report_timeout_ms="4000"))
    name = connector_config["topic.prefix"]
    assert worker.request("PUT", f"/connectors/{name}/config", connector_config)[0] == 201
    worker.wait_task(name, RUNNING)
    sql("INSERT INTO t VALUES (1)")
    wait_records(f"{name}.public.t", 1)
    os.kill(worker.task_pid(), signal.SIGSTOP)

    def age() -> float:
        text = worker.request("GET", "/metrics")[1]
        lines = [line for line in text.splitlines() if line.startswith("tidings_capture_report_age_seconds{")]
        return max((float(line.split()[-1]) for line in lines), default=0.0)

    wait_until("the age of its last report", lambda: age() > 2)
    trace = worker.wait_task(name, FAILED)["trace"]
    assert trace.startswith("task_silent: the task's process has not reported for 4 seconds")
    worker.wait_task(name, RUNNING)
    sql("INSERT INTO t VALUES (2)")
    # At least once: the first may come again.
    wait_until("both rows", lambda: {r.key["id"] for r in read_topic(f"{name}.public.t")} == {1, 2})
    assert (
        f'tidings_capture_errors_total{{code="task_silent",connector="{name}"}} 1.0'
        in (worker.request("GET", "/metrics")[1])
    )
    worker.request("DELETE", f"/connectors/{name}")


@pytest.fixture
async def supervisor(worker_properties: Callable[..., Path], unique_name: str) -> AsyncIterator[Herder]:
    worker = read_worker_config(load_properties(worker_properties(unique_name)))
    made = Herder(worker, "127.0.0.1:1", Health(), log_level="INFO", log_format="json")
    await made.start()
    yield made
    await made.stop()


async def test_the_end_of_any_loop_of_the_worker_is_the_end_of_the_worker(
    supervisor: Herder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object) -> None:
        raise ValueError("a secret")

    loops: list[tuple[str, object, str]] = [
        ("topics", supervisor.topics, "look"),
        ("leases", supervisor._reconciler, "_worker"),
        ("reconcile", supervisor._reconciler, "_tell_group"),
        ("group", supervisor.group, "_seen"),
        ("storage topics", supervisor.storage, "_on_change"),
        ("group", supervisor.group, "_lead"),
        # The threads last: the others hear from them.
        ("group member", supervisor.group._member, "_look"),
        ("storage topics", supervisor.storage._tail, "_look"),
    ]
    for name, owner, method in loops:
        supervisor.failure = None
        supervisor.failed.clear()
        with monkeypatch.context() as patch:
            patch.setattr(owner, method, broken)
            supervisor._wake.set()
            if method == "_on_change":
                await asyncio.to_thread(
                    supervisor.storage.configs.producer.put_and_wait,
                    supervisor.worker.config_topic.name,
                    b"k",
                    b"v",
                )
            async with asyncio.timeout(SECONDS):
                await supervisor.failed.wait()
        assert f"the loop '{name}' has failed: " in str(supervisor.failure), (name, method)
        assert "a secret" not in json.dumps(str(supervisor.failure))


async def test_a_loop_that_just_returns_has_ended_too(supervisor: Herder) -> None:
    async def nothing() -> None:
        pass

    supervisor.run_loop(nothing(), "a name")
    await asyncio.wait_for(supervisor.failed.wait(), SECONDS)
    assert str(supervisor.failure) == "the loop 'a name' has ended by itself"


async def test_a_loop_that_is_cancelled_has_not_failed(supervisor: Herder) -> None:
    task = supervisor.run_loop(asyncio.sleep(600), "a name")
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)
    assert supervisor.failure is None
