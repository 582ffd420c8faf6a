"""The job in a process of its own, since a process has one JVM, and a JVM the jars that it was started with.

The process takes commands as lines of JSON from a named pipe, and answers each with one on its standard output.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings_service import load_settings

if TYPE_CHECKING:
    from tidings_stack.s3 import S3Server

_ANSWER = "answer "
_TESTS = Path(__file__).parent.parent
_PIPE = "JOB_APART_COMMANDS"


class JobApart:
    """Drives the process; what it says for a person is in `log`."""

    def __init__(self, environment: dict[str, str], log: Path, command: Sequence[str]) -> None:
        self.log = log
        pipe = log.with_name("commands")
        pipe.unlink(missing_ok=True)  # of a job before this one, in the same directory
        os.mkfifo(pipe)
        # For both, since it is to be opened before the process does.
        self._commands = os.fdopen(os.open(pipe, os.O_RDWR | os.O_CLOEXEC), "w")
        with log.open("w") as file:
            self._process = subprocess.Popen(
                command,
                cwd=_TESTS,
                env={**environment, _PIPE: str(pipe)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )

    def close(self) -> None:
        """End the process."""
        self._commands.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()

    def drain(self) -> None:
        """Write what is on the topics."""
        self._ask("drain")

    def drain_killing(self, point: str, *pids: int) -> None:
        """Write what is on the topics, and kill other processes when a point is passed that begins so for the first time."""
        self._ask("drain_killing", point, *pids)

    def executors(self) -> int:
        """How many executors the job has."""
        return int(self._ask("executors"))

    def rows(self, statement: str) -> Any:
        """What Spark says, as columns, rows and whether each column is a number."""
        return self._ask("rows", statement)

    def compact(self, table: str) -> None:
        """Look after a table, lost files included."""
        self._ask("compact", table)

    def erase(self, table: str, key: str) -> None:
        """Erase a row."""
        self._ask("erase", table, key)

    def second_writer(self, table: str) -> str:
        """What the second of two jobs is told that write to a table."""
        return str(self._ask("second_writer", table))

    def _ask(self, *command: str | int) -> Any:
        assert self._process.stdout is not None
        self._commands.write(json.dumps(command) + "\n")
        self._commands.flush()
        for line in self._process.stdout:
            if line.startswith(_ANSWER):
                return json.loads(line.removeprefix(_ANSWER))
        raise AssertionError(f"{command}: the process has ended\n{self.log.read_text()[-4000:]}")


def in_s3(s3: S3Server, prefix: str) -> dict[str, str]:
    """Settings of a warehouse in the bucket, as people set them."""
    conf = {
        "s3.endpoint": s3.url,
        "s3.path-style-access": "true",
        "s3.access-key-id": "any",
        "s3.secret-access-key": "any",
        "client.region": "us-east-1",
    }
    return {
        "lakehouse_warehouse": f"s3://{s3.bucket}/{prefix}",
        "lakehouse_spark_conf": ";".join(
            f"spark.sql.catalog.lake.{key}={value}" for key, value in conf.items()
        ),
    }


@contextmanager
def job_apart(
    settings: dict[str, str], directory: Path, submit: Sequence[str] = (), **more: str
) -> Iterator[JobApart]:
    """A job with these settings, and more of them.

    Args:
        directory: an empty one, for its checkpoints and its log.
        submit: ``spark-submit`` and its options, which starts the process; without it the process starts Spark.
    """
    kept = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    own = {f"TIDINGS_{name.upper()}": value for name, value in {**settings, **more}.items()}
    job = JobApart(
        {
            **kept,
            **own,
            "PYTHONPATH": str(_TESTS),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "TIDINGS_LAKEHOUSE_CHECKPOINT": str(directory / "checkpoints"),
            "TIDINGS_LAKEHOUSE_HEAP": "768m",
            "TIDINGS_LAKEHOUSE_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
        },
        directory / "job.log",
        [*submit, __file__] if submit else [sys.executable, "-m", "lakelab.apart"],
    )
    try:
        yield job
    finally:
        job.close()


class _Commands:
    def __init__(self) -> None:
        from lakelab.lake import Lake
        from tidings_lakehouse.settings import LakehouseSettings
        from tidings_lakehouse.spark.session import create_session

        settings = load_settings(LakehouseSettings)
        self.session = create_session(settings, "apart")
        self.lake = Lake(self.session, settings)
        self.lake.streams = os.environ.get("STREAMS", "technical").split()

    def drain(self) -> None:
        self.lake.drain()

    def drain_killing(self, point: str, *pids: int) -> None:
        alive = list(pids)

        def kill(passed: str) -> None:
            while passed.startswith(point) and alive:
                os.kill(alive.pop(), signal.SIGKILL)

        self.lake.drain(kill)
        assert not alive, f"{point} was not passed"

    def executors(self) -> int:
        status: Any = self.session.sparkContext._jsc.sc().statusTracker()
        return len(status.getExecutorInfos()) - 1  # one is the driver

    def rows(self, statement: str) -> Any:
        from tidings_lakehouse.reading.query import answer

        found = answer(self.session, statement)
        return [found.columns, found.rows, found.numeric]

    def compact(self, table: str) -> None:
        from tidings_lakehouse.maintaining.maintenance import Maintenance
        from tidings_lakehouse.tables.commits import Commits

        commits = Commits(self.session)
        commits.open(table)
        commits.set_properties(table, {"tidings.orphans.removed": "2024-01-01T00:00:00+00:00"})
        Maintenance(self.session, commits, commits=1, keep_snapshots=1, keep_seconds=0).compact(table)

    def erase(self, table: str, key: str) -> None:
        from tidings_lakehouse.erasing.erasure import Erasure
        from tidings_lakehouse.erasing.selection import Condition, Selection
        from tidings_lakehouse.formats.registry import Registry

        selection = Selection(table, (Condition.of(key, is_key=True),))
        Erasure(
            self.session, Registry(self.lake.settings.optional_registry), [selection], with_unreadable=False
        ).erase("me", "")

    def second_writer(self, table: str) -> str:
        from tidings_lakehouse.errors import SecondWriterError
        from tidings_lakehouse.tables.commits import Commits

        first, second = Commits(self.session.newSession()), Commits(self.session.newSession())
        first.open(table)
        second.open(table)
        none = self.session.table(table).limit(0)
        with first.staged(table) as staged:
            none.writeTo(staged).append()
        try:
            with second.staged(table) as staged:
                none.writeTo(staged).append()
        except SecondWriterError as error:
            return error.code
        return ""


def _main() -> None:
    from tidings_lakehouse.spark.submit import take_master
    from tidings_lakehouse.spark.submitted import is_submitted

    if is_submitted():
        take_master()
    commands = _Commands()
    assert not is_submitted()  # a process that this one starts would take its JVM
    try:
        with Path(os.environ[_PIPE]).open() as lines:
            for line in lines:
                name, *arguments = json.loads(line)
                found = getattr(commands, name)(*arguments)
                sys.stdout.write(f"{_ANSWER}{json.dumps(found, default=str)}\n")
                sys.stdout.flush()
    finally:
        commands.session.stop()


if __name__ == "__main__":
    _main()
