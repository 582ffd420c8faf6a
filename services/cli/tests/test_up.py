"""`tidings up` in a project that `tidings init` wrote: the first hour as its page has it, Ctrl-C, `--keep`, failures."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from psycopg.conninfo import conninfo_to_dict

from tidings_cli.main import main

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[3] / "docs/first-hour.md"
SCHEMA = Path(__file__).parents[3] / "examples/rental/schema.sql"
WAITS_SECONDS = 240.0
KEPT = {"TIDINGS_CACHE", "TIDINGS_STACK_JAVA_OPTIONS"}
"""The suite's own settings that are no reader's: without the second one Kafka's JVM compiles everything twice."""
INSERT = "INSERT INTO rental.members (email, name) VALUES (gen_random_uuid() || '@example.org', 'Ann')"


@pytest.fixture
def project(pg_database: str, unique_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of the rental library."""
    with psycopg.connect(pg_database) as connection:
        connection.execute(SCHEMA.read_bytes())
    for name in [name for name in os.environ if name.startswith("TIDINGS_") and name not in KEPT]:
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

    def __init__(
        self,
        project: Path,
        out: Path,
        *options: str,
        command: Sequence[str] = (sys.executable, "-m", "tidings_cli.main", "up"),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._out = out
        with out.open("w") as file:
            self.process = subprocess.Popen(
                [*command, *options],
                cwd=project,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def said(self) -> str:
        return self._out.read_text()

    def press_ctrl_c(self) -> None:
        """As a terminal does: to the command and all that it has started in the foreground."""
        os.killpg(self.process.pid, signal.SIGINT)

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


class Shell:
    """A person's terminal: what one block sets and where it goes, the next one finds."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory, self.environment = directory, dict(environment)

    def run(self, commands: str) -> str:
        """Run a block to its end; what it says."""
        code, said = self._ran(commands)
        assert code == 0, f"{commands}\n{said}"
        return said

    def run_until(self, commands: str, wanted: str) -> None:
        """Run a block, and its last command again until it ends with what is wanted, as somebody does who is too early."""
        *first, last = commands.splitlines()
        self.run("\n".join(first) or ":")
        deadline = time.monotonic() + WAITS_SECONDS
        while True:
            code, said = self._ran(last)
            if code == 0 and said.split()[-len(wanted.split()) :] == wanted.split():
                return
            assert time.monotonic() < deadline, f"{commands}\n{said}"
            time.sleep(1)

    def _ran(self, commands: str) -> tuple[int, str]:
        keep = f"{sys.executable} -c 'import json, os; print(json.dumps([os.getcwd(), dict(os.environ)]))'"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{{\n{commands}\n}} >&2\n{keep}"],
            cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        if done.returncode == 0:
            where, self.environment = json.loads(done.stdout)
            self.directory = Path(where)
        return done.returncode, done.stderr


def page_blocks() -> list[tuple[str, str, str]]:
    """The language, the file's name and the text of each block of the page."""
    return re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def processes_of(project: Path) -> list[str]:
    """Command lines of processes that work in the project's directory."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
            words = (place / "cmdline").read_bytes()
            if str(project).encode() in words or (place / "cwd").readlink().is_relative_to(project):
                found.append(words.replace(b"\0", b" ").decode())
    return found


def test_the_first_hour_as_the_page_has_it(
    pg_database: str, left: psycopg.Connection[tuple[object, ...]], tmp_path: Path
) -> None:
    begin, database, *blocks = page_blocks()
    # What the suite runs in is what the first block makes; the second is the reader's own.
    assert begin[2].splitlines()[0].startswith("make install ")
    assert re.findall(r"^export (\w+)=", database[2], re.MULTILINE) == ["DATABASE", "PGPASSWORD"]
    parts = conninfo_to_dict(pg_database)
    # Nothing of a `make test` around this either: what its command line sets would be the project's.
    kept = {
        name: text
        for name, text in os.environ.items()
        if name in KEPT
        or (name not in {"ARGS", "JOBS"} and not name.startswith(("TIDINGS_", "MAKE", "MFLAGS")))
    }
    environment = kept | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DATABASE": f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}",
        "PGPASSWORD": str(parts["password"]),
        "HOME": str(tmp_path),
        "TIDINGS_CACHE": os.environ.get("TIDINGS_CACHE") or str(Path.home() / ".cache/tidings"),
    }
    shell = Shell(tmp_path, environment)
    with contextlib.ExitStack() as stack:
        up: Up | None = None
        for (language, name, text), following in zip(blocks, [*blocks[1:], ("", "", "")], strict=True):
            if name:
                path = shell.directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            elif text == "make up\n":
                project = shell.directory
                leave_as_a_killed_run(project, left)
                up = stack.enter_context(
                    Up(project, tmp_path / "up.txt", command=("make", "up"), environment=shell.environment)
                )
                up.until("tidings lakehouse tables")
                assert not (project / ".tidings/run/logs/old.log").exists()
            elif language == "bash":
                if following[0] == "text":
                    shell.run_until(text, following[2])
                else:
                    shell.run(text)
        assert up is not None
        # Commands that import the domain find it, wherever they are run.
        assert "library.book-lent.v1" in shell.run("tidings readers")
        # What it points to runs in a terminal that nothing was activated in.
        look = next(
            line.removeprefix("the lake").strip() for line in up.said.splitlines() if "the lake" in line
        )
        bare = {name: shell.environment[name] for name in ("HOME", "TIDINGS_CACHE")} | {
            "PATH": "/usr/bin:/bin"
        }
        Shell(tmp_path, bare).run(look)
        assert "first business event" in up.said
        assert shell.environment["TIDINGS_LAKEHOUSE_OFFSETS_TOPIC"] == "library-connect-offsets"
        assert len(replication(left)) == 2
        with contextlib.redirect_stderr(io.StringIO()) as said:
            assert main(["up", str(project)]) == 2
        assert "another `tidings up` runs" in said.getvalue()
        up.press_ctrl_c()
        assert "was dropped: nothing is left in the database" in up.ends(-signal.SIGINT)  # as make ends
    assert replication(left) == []
    assert processes_of(project) == []
    assert not (project / ".tidings").exists()


def leave_as_a_killed_run(project: Path, connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """What is there after a SIGKILL."""
    (project / ".tidings/run/logs").mkdir(parents=True)
    (project / ".tidings/run/logs/old.log").touch()
    (project / ".tidings/replication.json").write_text('{"slot": "tidings_library", "publication": true}')
    connection.execute("SELECT pg_create_logical_replication_slot('tidings_library', 'pgoutput')")
    connection.execute("CREATE PUBLICATION tidings_library")


@pytest.mark.turns
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


def test_servers_that_are_given_are_used(
    project: Path,
    left: psycopg.Connection[tuple[object, ...]],
    tmp_path: Path,
    kafka_bootstrap: str,
    registry_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDINGS_KAFKA", kafka_bootstrap)
    monkeypatch.setenv("TIDINGS_REGISTRY", registry_url)
    with Up(project, tmp_path / "up.txt") as up:
        # Rows of the first snapshot are no news; one of these comes after it.
        up.until("first business event", lambda: left.execute(INSERT))
        assert "starting Kafka" not in up.said
        assert f"Kafka        {kafka_bootstrap}, topics {project.name}.*" in up.said
        topics = AdminClient({"bootstrap.servers": kafka_bootstrap}).list_topics(timeout=60).topics
        assert f"{project.name}.member-created.v1" in topics
        up.process.send_signal(signal.SIGINT)
        # Kafka keeps what was published, so the slot is kept, too, until somebody says otherwise.
        assert f"slot tidings_{project.name} and publication tidings_{project.name} stay" in up.ends(130)
    assert len(replication(left)) == 2
    left.execute("SELECT pg_drop_replication_slot(%s)", (f"tidings_{project.name}",))


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
