"""`tidings up` in a project that `tidings init` wrote: events come, Ctrl-C ends all, and the database is as it was."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tidings_cli.main import main

pytestmark = pytest.mark.stack

SCHEMA = Path(__file__).parents[3] / "examples/rental/schema.sql"
WAITS_SECONDS = 240.0
INSERT = "INSERT INTO rental.members (email, name) VALUES (gen_random_uuid() || '@example.org', 'Ann')"


@pytest.fixture
def project(pg_database: str, unique_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of the rental library."""
    with psycopg.connect(pg_database) as connection:
        connection.execute(SCHEMA.read_bytes())
    for name in [name for name in os.environ if name.startswith("TIDINGS_") and name != "TIDINGS_CACHE"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGPASSWORD", str(conninfo_to_dict(pg_database)["password"]))
    monkeypatch.chdir(tmp_path)
    assert main(["init", pg_database, "--name", unique_name]) == 0
    return tmp_path / unique_name


@pytest.fixture
def left(pg_database: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """For a look at what is left in the database."""
    with psycopg.connect(pg_database, autocommit=True) as connection:
        yield connection


def replication(connection: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database()"
        " UNION ALL SELECT pubname::text FROM pg_publication"
    ).fetchall()


class Up:
    """`tidings up` as a process of its own, with what it says in a file."""

    def __init__(self, project: Path, out: Path, *options: str) -> None:
        self._out = out
        with out.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidings_cli.main", "up", str(project), *options],
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._out.read_text()

    def until(self, text: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait for what it says."""
        deadline = time.monotonic() + WAITS_SECONDS
        while text not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            meanwhile()
            time.sleep(0.5)

    def ends(self, code: int) -> str:
        """Wait for its end; what it has said."""
        assert self.process.wait(WAITS_SECONDS) == code, self.said
        return self.said


def processes_of(project: Path) -> list[str]:
    """Command lines of processes that work in the project's directory."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
            words = (place / "cmdline").read_bytes()
            if str(project).encode() in words or (place / "cwd").readlink().is_relative_to(project):
                found.append(words.replace(b"\0", b" ").decode())
    return found


def test_events_come_until_somebody_stops_it(
    project: Path, left: psycopg.Connection[tuple[object, ...]], tmp_path: Path
) -> None:
    with Up(project, tmp_path / "out.txt") as up:
        up.until("first business event", lambda: left.execute(INSERT))
        assert len(replication(left)) == 2
        up.process.send_signal(signal.SIGINT)
        said = up.ends(130)
    assert "was dropped: nothing is left in the database" in said
    assert replication(left) == []


def test_it_goes_on_where_it_was_until_the_connector_fails(
    project: Path, left: psycopg.Connection[tuple[object, ...]], tmp_path: Path
) -> None:
    slot = f"tidings_{project.name}"
    with Up(project, tmp_path / "first.txt", "--keep") as up:
        up.until("tidings lakehouse tables")
        up.process.send_signal(signal.SIGINT)
        said = up.ends(130)
    for line in (
        f"slot {slot} and publication {slot} stay in the database",
        "`tidings up --keep` goes on where it was",
        "`tidings up --drop`",
    ):
        assert line in said
    assert processes_of(project) == []
    assert len(replication(left)) == 2

    # What was committed meanwhile comes, with no more traffic.
    left.execute(INSERT)
    with Up(project, tmp_path / "second.txt", "--keep") as up:
        up.until("first business event")
        left.execute(f"DROP PUBLICATION {slot}".encode())
        left.execute(INSERT)
        said = up.ends(1)
    error = next(line for line in said.splitlines() if line.startswith("error:"))
    assert slot in error, error
    assert "hint: " in said
    assert "capture.log" in said
    assert f"slot {slot} stays in the database" in said

    assert main(["up", str(project), "--drop"]) == 0
    assert replication(left) == []
    assert not (project / ".tidings").exists()


def test_a_slot_of_somebody_else_is_not_read_by(
    project: Path, left: psycopg.Connection[tuple[object, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    slot = f"tidings_{project.name}"
    left.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    try:
        assert main(["up", str(project)]) == 2
        assert f"the slot {slot} is there already" in capsys.readouterr().err
        assert len(replication(left)) == 1
    finally:
        left.execute("SELECT pg_drop_replication_slot(%s)", (slot,))


def test_what_is_missing_is_named(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["up", str(tmp_path)]) == 2
    assert "is not a project" in capsys.readouterr().err
    monkeypatch.setenv("TIDINGS_KAFKA", "127.0.0.1:1")
    assert main(["up", str(project)]) == 2
    assert "TIDINGS_KAFKA is set and TIDINGS_REGISTRY is not" in capsys.readouterr().err
    (project / "worker.properties").unlink()
    assert main(["up", str(project)]) == 2
    assert "worker.properties" in capsys.readouterr().err
