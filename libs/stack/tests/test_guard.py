"""A guard leaves nothing behind: not when its owner closes, dies, or is killed, and not when it is killed itself."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidings_stack.errors import StackError
from tidings_stack.guarding.guarded import GuardedProcess
from tidings_stack.server import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

# A server with a child of its own, in a session of its own, as PostgreSQL's backends are.
SERVER = """
import os, signal, time
# STUBBORN
child = os.fork()
if child == 0:
    os.setsid()
else:
    open("pids", "w").write(f"{os.getpid()} {child}")
    os.rename("pids", "ready")
time.sleep(600)
"""
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
OWNER = """
import json, sys, os
from pathlib import Path
from tidings_stack.guarding.guarded import GuardedProcess
directory = Path({directory!r}) / "server"
directory.mkdir()
guarded = GuardedProcess(directories=[directory])
pid = guarded.start([sys.executable, "-c", {server!r}], environment=dict(os.environ), directory=directory, log=directory / "log")
forked = os.fork() if {fork} else None
if forked == 0:
    os.closerange(0, 3)
    __import__("time").sleep(60)
print(json.dumps({{"guard": guarded.guard_pid, "server": pid, "forked": forked}}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    one = tmp_path / "server"
    one.mkdir()
    return one


@pytest.fixture
def guarded(directory: Path) -> Iterator[GuardedProcess]:
    one = GuardedProcess(directories=[directory])
    yield one
    one.close()


def start(guarded: GuardedProcess, directory: Path, program: str = SERVER) -> tuple[int, int]:
    guarded.start(
        [sys.executable, "-c", program],
        environment=dict(os.environ),
        directory=directory,
        log=directory / "log",
    )
    ready = directory / "ready"
    assert wait_for(ready.exists, 10)
    server, child = (int(pid) for pid in ready.read_text().split())
    ready.unlink()
    return server, child


def test_stop_ends_the_server_and_what_it_started(
    guarded: GuardedProcess, directory: Path, alive: Callable[[int], bool]
) -> None:
    server, child = start(guarded, directory)
    assert alive(server)
    assert alive(child)
    assert guarded.stop() == -signal.SIGTERM
    assert not alive(server)
    assert not alive(child)
    assert directory.is_dir(), "data stays until close"


def test_a_server_that_ignores_the_signal_is_killed(
    guarded: GuardedProcess, directory: Path, alive: Callable[[int], bool]
) -> None:
    server, _ = start(guarded, directory, SERVER.replace("# STUBBORN", STUBBORN))
    assert guarded.stop(seconds=0.3) == -signal.SIGKILL
    assert not alive(server)


def test_it_can_be_started_again(guarded: GuardedProcess, directory: Path) -> None:
    first, _ = start(guarded, directory)
    guarded.kill()
    assert guarded.status().pid is None
    assert guarded.status().exit == -signal.SIGKILL
    second, _ = start(guarded, directory)
    assert guarded.status().pid == second != first


def test_starting_twice_is_refused(guarded: GuardedProcess, directory: Path) -> None:
    start(guarded, directory)
    with pytest.raises(StackError, match="running already"):
        start(guarded, directory)


def test_a_missing_command_is_a_clear_error(guarded: GuardedProcess, directory: Path) -> None:
    with pytest.raises(StackError, match="cannot start nowhere: FileNotFoundError"):
        guarded.start(["/nowhere"], environment={}, directory=directory, log=directory / "log")


def test_close_removes_the_directory(
    guarded: GuardedProcess, directory: Path, alive: Callable[[int], bool]
) -> None:
    server, child = start(guarded, directory)
    guarded.close()
    assert not directory.exists()
    assert not alive(server)
    assert not alive(child)
    assert not alive(guarded.guard_pid)


@pytest.mark.parametrize("fork", [False, True])
def test_nothing_remains_when_the_owner_is_killed(
    owner: Callable[[str], Any], tmp_path: Path, alive: Callable[[int], bool], fork: bool
) -> None:
    """Also when a forked child of the owner outlives it and keeps the pipe open."""
    one = owner(OWNER.format(directory=str(tmp_path), server=SERVER, fork=fork))
    ready = tmp_path / "server" / "ready"
    assert wait_for(ready.exists, 10)
    pids = [int(pid) for pid in ready.read_text().split()]
    guard = one.said["guard"]
    assert all(alive(pid) for pid in (*pids, guard))
    one.kill()
    assert wait_for(lambda: not any(alive(pid) for pid in (*pids, guard)), 20)
    assert not (tmp_path / "server").exists()
    if fork:
        os.kill(one.said["forked"], signal.SIGKILL)
    assert not tmp_path.exists(), "the stack's directory goes with its last server"


def test_the_server_ends_when_its_guard_is_killed(
    guarded: GuardedProcess, directory: Path, alive: Callable[[int], bool]
) -> None:
    server, child = start(guarded, directory)
    os.kill(guarded.guard_pid, signal.SIGKILL)
    assert wait_for(lambda: not alive(server), 10)
    os.kill(child, signal.SIGKILL)  # it has nobody to end it; PostgreSQL's backends notice by themselves
    with pytest.raises(StackError, match="guard process is gone"):
        guarded.status()
