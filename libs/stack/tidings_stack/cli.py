"""`tidings-stack up | status | down`: the stack for people."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tidings_jvm import JvmError, default_progress
from tidings_stack.errors import StackError
from tidings_stack.guarding.keeper import (
    FAILED,
    READY,
    Settings,
    State,
    is_held,
    keep,
    read_state,
    state_directory,
)
from tidings_stack.members import DEFAULT_MEMBERS, MEMBERS, PG_VERSIONS, fetch_members, with_requirements
from tidings_stack.server import wait_for

TITLES = {
    "pg": "PostgreSQL",
    "mariadb": "MariaDB 11.4",
    "mysql": "MySQL 9.7",
    "kafka": "Kafka",
    "registry": "Schema registry",
    "connect": "Kafka Connect",
}
STOP_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Exit code 1: the stack could not be started, or is not up; 2: wrong usage."""
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (StackError, JvmError) as error:
        sys.stderr.write(f"error: {error}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return 1


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-stack",
        description="PostgreSQL, Kafka, a schema registry and Kafka Connect on this machine.",
    )
    parser.add_argument(
        "--name", default="default", help="which stack, when there are several (default: %(default)s)"
    )
    commands = parser.add_subparsers(required=True, metavar="up | status | down")

    up = commands.add_parser("up", help="start the servers and print where they are")
    up.add_argument(
        "--members",
        type=lambda text: tuple(filter(None, text.split(","))),
        default=DEFAULT_MEMBERS,
        help=f"which of {','.join(MEMBERS)} (default: {','.join(DEFAULT_MEMBERS)})",
    )
    up.add_argument(
        "--pg", choices=PG_VERSIONS, default="16", help="PostgreSQL's version (default: %(default)s)"
    )
    up.add_argument("--directory", help="keep the data there when the stack ends (default: a temporary one)")
    up.add_argument(
        "--extensions",
        action="append",
        default=[],
        metavar="DIR",
        help="an installation of the same PostgreSQL (with lib/postgresql and share/postgresql/extension) whose extensions"
        " the server gets beside its own; repeatable",
    )
    up.add_argument("--foreground", action="store_true", help="stay until Ctrl-C instead of returning")
    up.set_defaults(run=_up)

    status = commands.add_parser("status", help="show what runs")
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(run=_status)

    commands.add_parser("down", help="stop the servers and remove their data").set_defaults(run=_down)
    return parser


def _up(options: argparse.Namespace) -> int:
    if is_held(options.name):
        raise StackError(f"the stack {options.name!r} is up already", hint="tidings-stack status shows it")
    for installation in options.extensions:
        if not (Path(installation) / "share/postgresql/extension").is_dir():
            raise StackError(
                f"--extensions {installation}: it has no share/postgresql/extension",
                hint="name the directory of an installation of PostgreSQL",
            )
    settings = Settings(
        name=options.name,
        members=with_requirements(options.members),
        pg_version=options.pg,
        directory=None if options.directory is None else os.path.abspath(options.directory),  # noqa: PTH100 (may not exist)
        extensions=tuple(str(Path(one).resolve()) for one in options.extensions),
    )
    # Downloads happen here, where a terminal can show their progress.
    fetch_members(settings.members, settings.pg_version, progress=default_progress())
    if options.foreground:
        keep(settings, default_progress(), _say_all_is_up)
        return 0
    _start_keeper(settings)
    state = read_state(settings.name)
    if state is None:
        raise StackError("the stack ended right after it had started")
    _print_state(state)
    return 0


def _say_all_is_up(state: State) -> None:
    _print_state(state)
    sys.stdout.write("\nCtrl-C stops it.\n")
    sys.stdout.flush()


def _start_keeper(settings: Settings) -> None:
    """Start the detached keeper, show what it says, and return when it is ready. Raises StackError if it fails."""
    log = state_directory() / f"{settings.name}.log"
    with log.open("w") as errors:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tidings_stack.guarding.keeper", json.dumps(asdict(settings))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd="/",
            start_new_session=True,
        )
    assert keeper.stdout is not None
    with keeper.stdout:
        for line in keeper.stdout:
            if line.startswith(READY):
                keeper.returncode = 0  # it lives on; this only tells Popen not to warn
                return
            if line.startswith(FAILED):
                message, hint = json.loads(line.removeprefix(FAILED))
                keeper.wait()
                raise StackError(message, hint=hint)
            sys.stderr.write(line)
    raise StackError(f"the keeper ended with code {keeper.wait()}", hint=f"see {log}")


def _status(options: argparse.Namespace) -> int:
    state = read_state(options.name)
    if options.json:
        sys.stdout.write(json.dumps(None if state is None else asdict(state), indent=2) + "\n")
    elif state is None:
        sys.stdout.write(f"The stack {options.name!r} is down. Start it with: tidings-stack up\n")
    else:
        _print_state(state)
    return 0 if state is not None else 1


def _down(options: argparse.Namespace) -> int:
    state = read_state(options.name)
    if state is None:
        if is_held(options.name):
            raise StackError(
                f"the stack {options.name!r} is starting or stopping", hint="try again in a moment"
            )
        sys.stdout.write(f"The stack {options.name!r} is not up.\n")
        return 0
    os.kill(state.pid, signal.SIGTERM)
    if not wait_for(lambda: not is_held(options.name), STOP_SECONDS):
        raise StackError(
            f"the keeper (process {state.pid}) did not end", hint="SIGKILL it; its guards stop the servers"
        )
    sys.stdout.write(f"Stopped. The data is in {state.directory}\n" if state.kept else "Stopped.\n")
    return 0


def _print_state(state: State) -> None:
    lines = []
    for name, member in state.members.items():
        title = f"{TITLES[name]} {state.pg_version}" if name == "pg" else TITLES[name]
        lines.append(f"  {title:<16} {member['url']}  (process {member['pid']})")
    lines += ["", *(f"export {variable}={value}" for variable, value in state.environment.items())]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
