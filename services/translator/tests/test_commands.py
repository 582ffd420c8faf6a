"""The commands that people and images call, each as its own process."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = [
    ("tidings-sequencer",),
    ("tidings-translator",),
    ("tidings-translator", "init"),
    ("tidings-translator", "record"),
    ("tidings-translator", "readers"),
    ("tidings-translator", "generations"),
    ("tidings-translator", "dead-letters"),
    ("tidings-schemas",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_shows_its_help(command: tuple[str, ...]) -> None:
    program, *arguments = command
    done = subprocess.run(
        [str(Path(sys.executable).with_name(program)), *arguments, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"usage: {' '.join(command)}" in done.stdout
    assert done.stderr == ""
