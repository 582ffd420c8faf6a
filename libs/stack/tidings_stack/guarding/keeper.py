"""A detached process that owns a stack for `tidings-stack up`, and the file by which other commands find it.

The state file is `<temporary directory>/tidings-stacks-<uid>/<name>.json`, readable by its user only, because it holds the
database's password. The keeper holds a lock beside it: a stack is up exactly while that lock is held.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tidings_jvm import JvmError, PlainProgress, Progress
from tidings_stack.errors import StackError
from tidings_stack.stack import Stack


@dataclass(frozen=True)
class State:
    """A running stack: the keeper's pid, each member's URL, process and log, and the variables that point at them."""

    name: str
    pid: int
    directory: str
    kept: bool
    pg_version: str
    members: dict[str, dict[str, str | int | None]]
    environment: dict[str, str]


@dataclass(frozen=True)
class Settings:
    """What to start."""

    name: str
    members: tuple[str, ...]
    pg_version: str
    directory: str | None = None
    extensions: tuple[str, ...] = ()
    """Installations of PostgreSQL whose extensions the server gets."""


def state_directory() -> Path:
    """Return the directory of the state files, made for this user alone."""
    directory = Path(tempfile.gettempdir()) / f"tidings-stacks-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        raise StackError(f"{directory} belongs to somebody else")
    return directory


def read_state(name: str) -> State | None:
    """Return the state of the named stack, or None when it is not up."""
    if not is_held(name):
        return None
    try:
        return State(**json.loads((state_directory() / f"{name}.json").read_text(encoding="utf-8")))
    except FileNotFoundError:  # it is starting or ending
        return None


def is_held(name: str) -> bool:
    """Whether a keeper lives."""
    try:
        with (state_directory() / f"{name}.lock").open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextlib.contextmanager
def held(name: str) -> Iterator[None]:
    """Be the one keeper of that name. Raises StackError when there is one."""
    path = state_directory() / f"{name}.lock"
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(
                f"the stack {name!r} is up already", hint="tidings-stack status shows it"
            ) from None
        yield


def keep(settings: Settings, progress: Progress, on_ready: Callable[[State], None]) -> None:
    """Start the stack, publish its state, and hold it until SIGTERM or SIGINT. Errors: StackError, JvmError."""
    ending = threading.Event()
    path = state_directory() / f"{settings.name}.json"
    with (
        held(settings.name),
        Stack(
            settings.members,
            pg_version=settings.pg_version,
            pg_extensions=[Path(one) for one in settings.extensions],
            directory=settings.directory,
            progress=progress,
        ) as stack,
    ):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ending.set())
        state = _state_of(settings, stack)
        partial = path.with_suffix(".partial")
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(asdict(state)), encoding="utf-8")
        partial.replace(path)
        try:
            on_ready(state)
            ending.wait()
            progress.say("Stopping ...")
        finally:
            path.unlink(missing_ok=True)


def _state_of(settings: Settings, stack: Stack) -> State:
    members: dict[str, dict[str, str | int | None]] = {
        name: {"url": server.url, "pid": server.pid, "log": str(server.log)}
        for name, server in stack.servers.items()
    }
    return State(
        name=settings.name,
        pid=os.getpid(),
        directory=str(stack.directory),
        kept=settings.directory is not None,
        pg_version=settings.pg_version,
        members=members,
        environment=stack.environment(),
    )


READY = "ready"
FAILED = "failed "


def main() -> int:
    """Run detached: lines of progress on standard output, then `ready`, or `failed` with a reason."""
    parser = argparse.ArgumentParser()
    parser.add_argument("settings")
    values = json.loads(parser.parse_args().settings)
    settings = Settings(
        **{**values, "members": tuple(values["members"]), "extensions": tuple(values["extensions"])}
    )

    def write(text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the command that started this process has returned
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    try:
        keep(settings, PlainProgress(write), lambda _: write(READY))
    except (StackError, JvmError) as error:
        write(FAILED + json.dumps([str(error), error.hint]))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
