"""What the tests of the stack share: looking at processes, and an owner that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def alive() -> Callable[[int], bool]:
    """The function `is_alive`."""
    return is_alive


class Owner:
    """A Python process that runs `program`, prints one JSON line, and waits."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the owner died"
        self.said: dict[str, Any] = json.loads(line)

    def kill(self) -> None:
        """SIGKILL it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """End it if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def owner() -> Iterator[Callable[[str], Owner]]:
    """Start owners; those that still run at the end are killed."""
    started: list[Owner] = []

    def start(program: str) -> Owner:
        started.append(Owner(program))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def descendants() -> Callable[[int], set[int]]:
    """All processes below a process."""

    def find(root: int) -> set[int]:
        parents: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    stat = (entry / "stat").read_text(encoding="ascii", errors="replace")
                    parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
        found = {root}
        while True:
            more = {pid for pid, parent in parents.items() if parent in found} | found
            if more == found:
                return found - {root, os.getpid()}
            found = more

    return find
