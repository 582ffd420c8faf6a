"""A task whose worker stands still ends by itself; one whose worker is only slow to listen goes on."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from tidings_connect.task.channel import STOP, Report, Request, TaskJob, encode_job, encode_request

TASK = """
import time
from tidings_connect.task.main import Pipes
from tidings_connect.task.channel import Report
from tidings_service import configure_logging
configure_logging("capture")
pipes = Pipes()
pipes.read_job()
number = 0
while not pipes.stop_requested():
    number += 1
    pipes.report(Report(state="streaming", records={"x" * 30_000: number}))
    time.sleep(0.001)
pipes.last_report(Report(state="stopped", events=number))
"""
JOB = TaskJob("c", 0, {}, {}, {}, {}, {}, {}, "offsets", 100, topic_creation=True)


@pytest.fixture
def start() -> Iterator[Callable[..., Any]]:
    with contextlib.ExitStack() as exits:

        def started(lease: Any) -> Any:
            process = exits.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", TASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
                )
            )
            exits.callback(process.kill)
            process.stdin.write(encode_job(msgspec.structs.replace(JOB, lease=lease)) + b"\n")
            return process

        yield started


def reports(process: Any) -> list[Any]:
    return [msgspec.json.decode(line, type=Report) for line in process.stdout.read().splitlines()]


def test_a_task_ends_without_a_lease_and_says_so(start: Callable[..., Any]) -> None:
    process = start(time.monotonic() - 1)
    assert process.wait(60) == 1
    failure = reports(process)[-1].failure
    assert (failure.code, failure.retry) == ("lease", "timed")
    assert "session.timeout.ms" in failure.message


def test_a_lease_that_ends_ends_the_task_although_nobody_reads_its_reports(start: Callable[..., Any]) -> None:
    process = start(time.monotonic() + 600)
    assert process.stdout.readline()  # from here on the pipe is full soon
    process.stdin.write(encode_request(Request(lease=time.monotonic() + 1)) + b"\n")
    assert process.wait(60) == 1


def test_a_task_goes_on_while_its_lease_is_renewed_and_loses_no_last_word(start: Callable[..., Any]) -> None:
    process = start(time.monotonic() + 60)
    for seconds in (120, 180):
        process.stdin.write(encode_request(Request(lease=time.monotonic() + seconds)) + b"\n")
    lines = iter(process.stdout.readline, b"")
    numbers = [json.loads(next(lines))["records"]["x" * 30_000] for _ in range(3)]
    assert numbers == sorted(numbers)
    # Nobody reads for a while: what is left out is made up for by the next.
    process.stdin.write(STOP)
    rest = [msgspec.json.decode(line, type=Report) for line in lines]
    assert process.wait(60) == 0
    assert rest[-1].state == "stopped"
    assert rest[-1].events >= numbers[-1]
