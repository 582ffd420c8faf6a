"""Processes of tasks are forked from one that has loaded what they need, and which may end like any other."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tidings_connect.task.channel import TaskJob, encode_job
from tidings_connect.task.forks import TaskForks
from tidings_stack.capture import CaptureWorker as Worker

SECONDS = 120
WRONG = TaskJob("a name", 0, {}, {}, {}, {}, {}, {}, "offsets", 100, topic_creation=True)
"""A job whose task fails at once: there is nothing in its configuration."""


@pytest.fixture
async def forks() -> AsyncIterator[TaskForks]:
    made = TaskForks()
    yield made
    await made.close()


async def test_tasks_start_side_by_side_and_their_ends_are_told(forks: TaskForks) -> None:
    unwanted = asyncio.create_task(forks.start())
    await asyncio.sleep(0)
    unwanted.cancel()
    first, second, third = await asyncio.gather(*(forks.start() for _ in range(3)))
    assert len({first.pid, second.pid, third.pid}) == 3
    first.stdin.close()
    assert await asyncio.wait_for(first.wait(), SECONDS) == 0
    second.stdin.write(encode_job(WRONG) + b"\n")
    report = await asyncio.wait_for(second.stdout.read(), SECONDS)
    assert b'"failed"' in report
    assert await asyncio.wait_for(second.wait(), SECONDS) == 1
    third.kill()
    assert await asyncio.wait_for(third.wait(), SECONDS) == -signal.SIGKILL
    third.kill()  # it has ended: nobody else is hit
    for task in (first, second, third):
        task.close()


async def test_the_server_s_end_is_the_end_of_its_tasks_and_another_takes_its_place(forks: TaskForks) -> None:
    task = await forks.start()
    server = int(Path(f"/proc/{task.pid}/stat").read_text().rpartition(")")[2].split()[1])
    # Told to all processes of a service, these are for the worker.
    for harmless in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        os.kill(server, harmless)
    other = await forks.start()
    os.kill(server, signal.SIGKILL)
    assert await asyncio.wait_for(asyncio.gather(task.wait(), other.wait()), SECONDS) == [-9, -9]
    assert (
        await asyncio.wait_for(task.stdout.read(), SECONDS) == b""
    )  # its end of the pipe is closed: it is gone
    following = await forks.start()
    assert following.pid not in {task.pid, other.pid}
    for one in (task, other, following):
        one.close()
    assert await asyncio.wait_for(following.wait(), SECONDS) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="memory by process is from Linux's /proc")
def test_a_task_that_has_captured_still_shares_what_it_was_forked_with(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., object],
    wait_records: Callable[[str, int], object],
) -> None:
    """Having connected and captured, it has loaded by itself whatever it was not forked with: 14 to 16 MB; 28 MB, if it had to
    import its modules. What it shares is no measure: the kernel may have taken back what nobody has used for long."""
    sql("CREATE TABLE items (id int PRIMARY KEY)", "INSERT INTO items VALUES (1)")
    name = create(connector_config)
    wait_records(f"{name}.public.items", 1)
    lines = Path(f"/proc/{worker.task_pid()}/smaps_rollup").read_text("ascii").splitlines()[1:]
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    assert kilobytes["Private_Dirty"] < 21_000, kilobytes
