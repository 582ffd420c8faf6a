"""`tidings`: one command over all parts, which reads options in one way and loads only what is asked for."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from tidings_cli import commands, reference
from tidings_cli.bridge import Leaf, words
from tidings_cli.commands import COMMANDS
from tidings_cli.main import main, tidings

ROOT = Path(__file__).parents[3]
NOWHERE = "postgresql://somebody@127.0.0.1:1/shop"


@pytest.mark.listing
def test_every_console_script_is_a_command_of_tidings() -> None:
    scripts = {
        script
        for pattern in ("libs", "services", "examples")
        for path in (ROOT / pattern).glob("*/pyproject.toml")
        for script in tomllib.loads(path.read_text())["project"].get("scripts", {})
    }
    assert scripts - {"tidings"} == {
        str(entry.old_name).split()[0] for entry in COMMANDS.values() if entry.old_name
    }


@pytest.mark.listing
def test_every_command_shows_an_example_that_its_options_take() -> None:
    seen = 0
    for context, command in reference.leaves():
        if not isinstance(command, Leaf):
            continue
        assert command.examples, f"{context.command_path} shows no example"
        for example in command.examples:
            path = context.command_path.split()[1:]
            given = words(example)
            assert given[: len(path)] == path
            command.make_context(context.info_name, given[len(path) :], parent=context.parent)
            seen += 1
    assert seen >= len(COMMANDS)


def test_help_and_completion_load_no_part(tmp_path: Path) -> None:
    for arguments, environment in (
        (["--help"], {}),
        ([], {"_TIDINGS_COMPLETE": "bash_complete", "COMP_WORDS": "tidings dead", "COMP_CWORD": "1"}),
    ):
        program = (
            "import atexit, os, sys, tidings_cli.main as m\n"
            f"sys.argv = ['tidings', *{arguments!r}]\n"
            f"os.environ.update({environment!r})\n"
            "parts = ('tidings_connect', 'tidings_capture', 'tidings_domain', 'tidings_translator', 'tidings_lakehouse', 'tidings_stack', 'asyncio')\n"
            "atexit.register(lambda: print('loaded', [one for one in parts if one in sys.modules]))\n"
            "m.main()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert "dead-letters" in done.stdout, done.stderr
        assert "loaded []" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["tail", NOWHERE, "--snapshot", "language"],
        ["tail", "--snapshot", NOWHERE, "language"],
        ["tail", NOWHERE, "language", "--snapshot"],
    ],
)
def test_options_and_arguments_in_any_order(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken: list[list[str]] = []
    monkeypatch.setattr(
        "tidings_capture.postgres.tail.command.main", lambda given: taken.append(list(given)) or 5
    )
    assert main(arguments) == 5, capsys.readouterr().err
    assert taken == [["--snapshot", NOWHERE, "language"]]


def test_the_old_name_takes_them_in_any_order_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidings_capture.cli", "tail", NOWHERE, "--snapshot", "language"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "unrecognized" in done.stderr) == (1, False), done.stderr
    assert done.stderr.startswith("error: cannot connect to PostgreSQL")


def test_an_option_of_a_group_goes_after_the_subcommand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["stack", "status", "--json", "--name", "of-nobody"]) == 1
    assert json.loads(capsys.readouterr().out) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stack", "up", "--pg", "12"], "Invalid value for '--pg': '12' is not one of"),
        (["wal"], "Missing argument 'URL'"),
        (["wal", NOWHERE, "--disk", "many"], "Invalid value for '--disk'"),
        (["init", "--database", NOWHERE, "--registry", "http://127.0.0.1:1"], "not allowed with argument"),
        (["generations", "start", "june", "--partitions", "0"], "Invalid value for '--partitions'"),
        (["of-nobody"], "No such command 'of-nobody'"),
    ],
)
def test_wrong_usage_is_said_in_one_way(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first.startswith("error: ")
    assert message in first
    assert second.startswith("hint: tidings")
    assert second.endswith("--help")


def test_an_error_is_said_in_the_same_way_by_every_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TIDINGS_KAFKA", "TIDINGS_DOMAIN", "TIDINGS_SOURCE", "TIDINGS_LAKEHOUSE_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    for arguments in (
        ["wal", NOWHERE],
        ["ddl", "status", NOWHERE],
        ["readers"],
        ["dead-letters", "list"],
        ["generations", "status"],
        ["schemas", "check"],
        ["stack", "up", "--members", "of-nobody"],
        ["client", "generate", "a.b.v1", "--registry", "http://127.0.0.1:1"],
        ["lakehouse", "tables", "--json"],
    ):
        assert main(arguments) in {1, 2}
        assert capsys.readouterr().err.startswith("error: "), arguments


def test_a_part_that_is_not_installed_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "find_spec", lambda name: None if name == "tidings_lakehouse" else object())
    assert main(["lakehouse", "sql", "select 1", "--json"]) == 1
    assert capsys.readouterr().err == (
        "error: `tidings lakehouse` is a command of tidings-lakehouse, which is not installed here\n"
        "hint: pip install tidings-lakehouse\n"
    )
    assert main(["--help"]) == 0
    assert "(not installed: tidings-lakehouse)" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_shells(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "_TIDINGS_COMPLETE" in capsys.readouterr().out


def test_options_of_a_part_are_completed() -> None:
    wal = tidings.get_command(click.Context(tidings), "wal")
    assert wal is not None
    found = {item.value for item in wal.shell_complete(click.Context(wal), "--")}
    assert {"--json", "--check", "--disk"} <= found


def test_the_page_of_commands_is_what_the_code_says() -> None:
    assert (ROOT / "docs/command-line.md").read_text(encoding="utf-8") == reference.page(), (
        "run: python -m tidings_cli.reference docs/command-line.md"
    )
