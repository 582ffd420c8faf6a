"""`tidings-stack up | status | down`, as a person uses it: with PostgreSQL only, to be quick."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tidings_stack.server import wait_for

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Run the command with a directory for state files of its own; at the end the stack is down."""
    temporary = Path("/tmp") / f"tidings-cli-{os.getpid()}"
    temporary.mkdir(exist_ok=True)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tidings_stack.cli", *arguments],
            env={**os.environ, "TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    yield call
    assert call("down").returncode == 0
    for path in sorted(temporary.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    temporary.rmdir()


@pytest.mark.stack
def test_up_status_down(run: Run, alive: Callable[[int], bool], tmp_path: Path) -> None:
    extension = tmp_path / "share/postgresql/extension"
    extension.mkdir(parents=True)
    (tmp_path / "lib/postgresql").mkdir(parents=True)
    (extension / "tiny.control").write_text("default_version = '1'\n")
    (extension / "tiny--1.sql").write_text("CREATE FUNCTION tiny() RETURNS int LANGUAGE sql AS 'SELECT 7';\n")
    up = run("up", "--members", "pg", "--pg", "17", "--extensions", str(tmp_path))
    assert up.returncode == 0, up.stderr
    url = next(line for line in up.stdout.splitlines() if line.startswith("export TIDINGS_PG=")).partition(
        "="
    )[2]
    with psycopg.connect(url) as connection:
        assert connection.info.server_version // 10000 == 17
        connection.execute("CREATE EXTENSION tiny")
        assert connection.execute("SELECT tiny()").fetchone() == (7,)

    again = run("up", "--members", "pg")
    assert again.returncode == 1
    assert "is up already" in again.stderr

    status = run("status", "--json")
    assert status.returncode == 0
    state = json.loads(status.stdout)
    assert state["environment"] == {"TIDINGS_PG": url}
    assert run("status").stdout == up.stdout

    down = run("down")
    assert (down.returncode, down.stdout) == (0, "Stopped.\n")
    assert wait_for(lambda: not alive(state["pid"]), 5)
    assert not alive(state["members"]["pg"]["pid"])
    assert not Path(state["directory"]).exists()

    gone = run("status")
    assert gone.returncode == 1
    assert "is down" in gone.stdout
    assert json.loads(run("status", "--json").stdout) is None


@pytest.mark.stack
def test_a_killed_keeper_takes_its_servers_along(run: Run, alive: Callable[[int], bool]) -> None:
    run("up", "--members", "pg")
    state = json.loads(run("status", "--json").stdout)
    os.kill(state["pid"], signal.SIGKILL)
    assert wait_for(lambda: not alive(state["members"]["pg"]["pid"]), 20)
    assert wait_for(lambda: not Path(state["directory"]).exists(), 10)
    assert run("status").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("up", "--members", "pg,oracle"), 1, "unknown member oracle"),
        (("up", "--pg", "9"), 2, "invalid choice: '9'"),
        (("down",), 0, ""),
        ((), 2, "required"),
    ],
)
def test_wrong_usage_has_a_clear_message(
    run: Run, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = run(*arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
