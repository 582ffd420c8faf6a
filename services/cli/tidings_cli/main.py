"""The console script ``tidings``.

Exit codes are those of the commands: 0, 1 for a named error, 2 for wrong usage or settings, and what a command adds.
"""

import importlib
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, get_completion_class

from tidings_cli.bridge import command
from tidings_cli.commands import COMMANDS, Entry

_USAGE = 2
_INTERRUPTED = 130
_SHELLS = ("bash", "zsh", "fish")


class Tidings(click.Group):
    """Loads the module of a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, or one that says what is not installed."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        if not entry.installed:
            return _absent(cmd_name, entry)
        module = importlib.import_module(entry.module)
        parser, main = getattr(module, entry.parser)(), getattr(module, entry.main)
        return command(f"tidings {cmd_name}", parser, main, entry.summary, entry.examples)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - Click's
        """The list in sections, without loading a command."""
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl([
                    (name, entry.summary if entry.installed else f"(not installed: {entry.distribution})")
                    for name, entry in COMMANDS.items()
                    if entry.section == section
                ])  # fmt: skip
        with formatter.section("Others"):
            formatter.write_dl([(name, one.get_short_help_str()) for name, one in self.commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names that begin so, without loading a command."""
        others = {name: one.get_short_help_str() for name, one in self.commands.items()}
        names = {name: entry.summary for name, entry in COMMANDS.items()} | others
        found = [
            CompletionItem(name, help=text) for name, text in names.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def _absent(name: str, entry: Entry) -> click.Command:
    def run() -> None:
        raise NotInstalledError(
            f"`tidings {name}` is a command of {entry.distribution}, which is not installed here",
            f"pip install {entry.distribution}",
        )

    takes_all = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    return click.Command(name, callback=run, context_settings=takes_all, short_help=entry.summary)


class NotInstalledError(click.ClickException):
    """A command whose distribution is not there."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@click.group(
    cls=Tidings,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Options and arguments go in any order. `tidings COMMAND --help` shows an example of each.",
)
def tidings() -> None:
    """Changes in a database (PostgreSQL, MariaDB, MySQL) as business events that other teams can rely on."""


@tidings.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    \b
    Example:
      eval "$(tidings completion bash)"
    """
    found = get_completion_class(shell)
    assert found is not None, "Click knows the shells that are offered"
    click.echo(found(tidings, {}, "tidings", "_TIDINGS_COMPLETE").source())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    try:
        code = tidings.main(
            None if arguments is None else list(arguments), prog_name="tidings", standalone_mode=False
        )
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return _USAGE
    except click.ClickException as error:
        _print_error(error)
        return error.exit_code
    except click.Abort:
        return _INTERRUPTED
    return code if isinstance(code, int) else 0


def _print_error(error: click.ClickException) -> None:
    hint = getattr(error, "hint", None)
    context = getattr(error, "ctx", None)
    if hint is None and context is not None:
        hint = f"{context.command_path} --help"
    click.echo(f"error: {error.format_message()}" + (f"\nhint: {hint}" if hint else ""), err=True)


if __name__ == "__main__":
    sys.exit(main())
