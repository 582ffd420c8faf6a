"""Writes the page of all commands: ``python -m tidings_cli.reference docs/command-line.md``.

With ``--check`` it writes nothing and fails when the page is not what the code says.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from tidings_cli.commands import COMMANDS
from tidings_cli.main import tidings
from tidings_service.generated import page_command

_WIDTH: Final = 100
_BEGINNING: Final = """# The command line

<!-- Generated from the code: .venv/bin/python -m tidings_cli.reference docs/command-line.md -->

`tidings` has every command of every part of Tidings that is installed; a part that is not says how to get it. Options and
arguments go in any order. What fails says `error:`, and `hint:` where something can be done; the exit code is 0, 1 for a
named error, 2 for wrong usage or settings, and what a command adds. `eval "$(tidings completion bash)"` (or `zsh`, `fish`)
completes commands and options.

The commands by which each part was called before stay, and run the same code:

"""


def page() -> str:
    """The page."""
    names = [
        f"| `tidings {name}` | `{entry.old_name}` |\n" for name, entry in COMMANDS.items() if entry.old_name
    ]
    return _BEGINNING + "| Command | The same |\n|---|---|\n" + "".join(names) + "".join(_sections())


def leaves() -> Iterator[tuple[click.Context, click.Command]]:
    """Every command that can be run, in the page's order."""
    settings = {**tidings.context_settings, "max_content_width": _WIDTH}
    top = click.Context(tidings, info_name="tidings", terminal_width=_WIDTH, **settings)
    for name in tidings.list_commands(top):
        yield from _below(top, name, tidings)


def _below(
    parent: click.Context, name: str, group: click.Group
) -> Iterator[tuple[click.Context, click.Command]]:
    command = group.get_command(parent, name)
    assert command is not None, f"{name} is listed"
    context = click.Context(command, parent=parent, info_name=name)
    yield context, command
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from _below(context, below, command)


def _sections() -> Iterator[str]:
    for context, command in leaves():
        level = "##" if context.parent is not None and context.parent.parent is None else "###"
        text = command.get_help(context).rstrip()
        yield f"\n{level} {context.command_path}\n\n```text\n{text}\n```\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check it."""
    return page_command("python -m tidings_cli.reference", lambda _path: page(), arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
