"""The command as people and orchestrators run it: signals, SIGKILL, servers that are away, SQL beside the job."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lakelab.topics import Topics

DEADLINE_SECONDS = 240.0


class Command:
    """Runs `tidings-lakehouse` in a clean environment and watches it."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("TIDINGS_") or name == "TIDINGS_CACHE"
        }
        self.environment = kept | {
            "TIDINGS_HTTP_PORT": "0",
            "TIDINGS_LAKEHOUSE_WAREHOUSE": str(directory / "warehouse"),
            "TIDINGS_LAKEHOUSE_HEAP": "512m",
            "TIDINGS_LAKEHOUSE_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
            **environment,
        }
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        log = (self.directory / f"{len(self.processes)}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", "tidings_lakehouse.cli", *arguments],
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        self.processes.append(process)
        return process

    def run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        """Exit code and standard output."""
        process = self.start(*arguments, **environment)
        output, _ = process.communicate(timeout=DEADLINE_SECONDS)
        return process.returncode, output

    def log(self, process: subprocess.Popen[str]) -> list[dict[str, Any]]:
        lines = (self.directory / f"{self.processes.index(process)}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def said(self) -> str:
        """What the last process wrote for a person."""
        return (self.directory / f"{len(self.processes) - 1}.log").read_text()

    def errors(self) -> list[dict[str, Any]]:
        """What the last process reported."""
        return [line for line in self.log(self.processes[-1]) if line.get("level") in {"error", "ERROR"}]

    def url(self, process: subprocess.Popen[str]) -> str:
        def listening() -> str | None:
            return next((line["url"] for line in self.log(process) if line["event"] == "listening"), None)

        return str(wait_for(listening, process))

    def sql(self, statement: str) -> list[dict[str, Any]]:
        code, output = self.run("sql", "--format", "json", statement)
        assert code == 0, self.said()
        return [json.loads(line) for line in output.splitlines()]


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "not in time"
        assert process is None or process.poll() is None, "the process has ended"
        time.sleep(0.1)
    return found


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def children(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def command(tmp_path: Path, kafka_bootstrap: str, registry_url: str, unique_name: str) -> Iterator[Command]:
    command = Command(
        tmp_path,
        {
            "TIDINGS_KAFKA": kafka_bootstrap,
            "TIDINGS_REGISTRY": registry_url,
            "TIDINGS_SOURCE": unique_name,
            "TIDINGS_LAKEHOUSE_TRIGGER_SECONDS": "0.2",
        },
    )
    yield command
    for process in command.processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def row(number: int, note: str) -> dict[str, Any]:
    return {"id": number, "note": note}


FIELDS = [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}]


def kill_behind_a_write(command: Command) -> None:
    """A job that kills itself, and whose JVM goes with it."""
    job = command.start("run", TIDINGS_FAILPOINT="log:technical.items_log:1")
    jvms: set[int] = set()
    while job.poll() is None:
        jvms |= set(children(job.pid)) if Path(f"/proc/{job.pid}/task").exists() else set()
        time.sleep(0.1)
    assert job.returncode == -signal.SIGKILL
    assert jvms
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in jvms))


@pytest.mark.turns
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.timeout(900)
@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.long)], ids=["", "killed"])
def test_a_job_goes_on_is_asked_and_stops(
    command: Command, topics: Topics, unique_name: str, killed: bool
) -> None:
    """One life of a job: SIGKILL behind a write and a restart, with `--long`; new topics, SQL beside it, SIGTERM."""
    items = topics.table(f"{unique_name}.public.items", fields=FIELDS)
    for number in range(20):
        items.change("c", row(number, "first"), 10, 20 + number)
    topics.flush()
    if killed:
        kill_behind_a_write(command)

    job = command.start("run")
    url = command.url(job)
    tables = f"{url}/tables"
    wait_for(lambda: json.loads(get(tables)[1])["tables"].get("technical.items") == 20, job)
    assert get(f"{url}/readyz")[0] == 200
    later = topics.table(f"{unique_name}.public.later", fields=FIELDS)
    later.change("c", row(1, "a topic made while the job runs"), 200, 210)
    items.change("d", {"id": 3}, 200, 220)
    topics.flush()
    wait_for(lambda: json.loads(get(tables)[1])["tables"].get("technical.later") == 1, job)
    wait_for(lambda: json.loads(get(tables)[1])["tables"].get("technical.items") == 19, job)

    lag = f'tidings_lakehouse_lag_records{{topic="{later.topic}"}}'
    wait_for(lambda: lag in get(f"{url}/metrics")[1], job)  # it is measured every two seconds
    metrics = get(f"{url}/metrics")[1]
    assert 'tidings_lakehouse_table_rows{table="technical.items"} 19.0' in metrics
    assert 'tidings_lakehouse_rows_total{table="technical.later"} 1.0' in metrics
    assert 'tidings_lakehouse_freshness_seconds{table="technical.items"}' in metrics

    both = 'select (select count(*) from technical.items) as items, (select count(distinct "offset") from technical.items_log) as logged'
    assert command.sql(both) == [{"items": 19, "logged": 22}]

    erase = ("erase", "--table", "technical.items", "--key", "id=4", "--json", "--yes")
    assert command.run(*erase) == (1, "")
    assert "stop the job first" in command.said()
    job.send_signal(signal.SIGTERM)
    assert job.wait(DEADLINE_SECONDS) == 0
    assert [line for line in command.log(job) if line.get("level") == "error"] == []
    code, output = command.run(*erase)
    assert code == 0, command.said()
    assert [(one["table"], one["rows"]) for one in map(json.loads, output.splitlines())] == [
        ("technical.items_log", 1),
        ("technical.items", 1),
        ("tidings.quarantine", 0),
    ]
    assert command.sql(both) == [{"items": 18, "logged": 21}]


@pytest.mark.turns
@pytest.mark.stack
@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("TIDINGS_KAFKA", "127.0.0.1:{port}", "kafka_unreachable"),
        ("TIDINGS_REGISTRY", "http://127.0.0.1:{port}/apis/ccompat/v7", "registry_unreachable"),
    ],
)
@pytest.mark.spark
def test_a_server_that_is_away_is_named(command: Command, variable: str, value: str, code: str) -> None:
    exit_code, _ = command.run("run", **{variable: value.format(port=closed_port())})
    assert exit_code == 1
    (error,) = command.errors()
    assert error["code"] == code
    assert variable in error["event"]


@pytest.mark.stack
def test_a_warehouse_that_cannot_be_written_is_named(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    exit_code, _ = command.run("run", TIDINGS_LAKEHOUSE_WAREHOUSE=str(tmp_path / "file" / "warehouse"))
    assert exit_code == 2
    (error,) = command.errors()
    assert "TIDINGS_LAKEHOUSE_WAREHOUSE" in error["event"]


@pytest.mark.stack
def test_settings_that_are_missing_are_named(command: Command) -> None:
    command.environment.pop("TIDINGS_KAFKA")
    assert command.run("run")[0] == 2
    assert "TIDINGS_KAFKA" in command.errors()[0]["event"]


@pytest.mark.stack
def test_a_lakehouse_that_is_not_there_is_named(command: Command) -> None:
    assert command.run("sql", "select 1")[0] == 2
    assert command.said().startswith("error: TIDINGS_LAKEHOUSE_WAREHOUSE")
