"""Writes the page of errors and warnings: ``python -m tidings_cli.error_reference docs/errors.md``.

With ``--check`` it writes nothing and fails when the page is not what the code says.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tidings_cli.advice import OF_ERRORS, OF_WARNINGS
from tidings_cli.troubles import Kind, Message, Troubles
from tidings_service.generated import put_page

_COMMAND: Final = ".venv/bin/python -m tidings_cli.error_reference docs/errors.md"
_BEGINNING: Final = f"""# Errors and warnings

<!-- Generated from the code: {_COMMAND} -->

What Tidings can say when something is wrong, and what to do. A named error has a `code`: it stands in the log, in a
connector's status and behind `error:` on the command line; a value in a message stands here as `<name>`. An error's own hint
is shown beside its message; for messages without one, what to do stands below the code.

What happens by itself depends on the error: one of kind *timed* is tried again, with growing pauses; after one of kind
*manual* the task or the service waits for you, or ends and is started again by whoever runs it; trying again does not help
against one of kind *never* until its cause is gone.

"""
_TITLES: Final = {
    "tidings_connect": "The worker",
    "tidings_capture": "Capture",
    "tidings_translator": "Sequencer and translator",
    "tidings_lakehouse": "Lakehouse",
    "tidings_sinks": "Sinks",
    "tidings_service": "Every service",
    "tidings_client": "The client library",
    "tidings_envelope": "Envelopes",
    "tidings_domain": "Domains",
    "tidings_cli": "The command line",
}


class IncompleteAdviceError(Exception):
    """Something that the code says has no advice, or advice stands for what it no longer says."""


def page(troubles: Troubles) -> str:
    """The page.

    Raises:
        IncompleteAdviceError: `advice` does not fit the code; names each text.
    """
    _check("OF_ERRORS", {kind.code for kind in troubles.kinds()}, OF_ERRORS)
    _check("OF_WARNINGS", {warned.text for warned in troubles.warned}, OF_WARNINGS)
    return _BEGINNING + "## Errors\n\n" + "".join(_errors(troubles)) + "".join(_warnings(troubles))


def _check(table: str, said: set[str], known: dict[str, str]) -> None:
    missing, old = sorted(said - known.keys()), sorted(known.keys() - said)
    if missing or old:
        lines = [f"{table} lacks {text!r}" for text in missing]
        lines += [f"{table} has {text!r}, which the code does not say" for text in old]
        raise IncompleteAdviceError("tidings_cli/advice.py: " + "; ".join(lines))


def _errors(troubles: Troubles) -> Iterator[str]:
    for kind in troubles.kinds():
        messages = sorted(message for message in troubles.messages if message.code == kind.code)
        yield f"### `{kind.code}`\n\n{_introduction(kind)}\n\n"
        if messages:
            yield "| Message | What to do |\n|---|---|\n" + "".join(map(_row, messages)) + "\n"


def _introduction(kind: Kind) -> str:
    retries = " or ".join(f"*{retry}*" for retry in kind.retries)
    return f"{' Or: '.join(kind.meanings)} Kind: {retries}. {OF_ERRORS[kind.code]}"


def _row(message: Message) -> str:
    return f"| {_cell(message.text)} | {_cell(message.hint)} |\n"


def _warnings(troubles: Troubles) -> Iterator[str]:
    yield "## Warnings in the log\n"
    for package, title in _TITLES.items():
        texts = sorted(warned.text for warned in troubles.warned if warned.package == package)
        if texts:
            yield f"\n### {title}\n\n| Event | What to do |\n|---|---|\n"
            yield from (f"| {_cell(text)} | {OF_WARNINGS[text]} |\n" for text in texts)


def _cell(text: str) -> str:
    line = " ".join(text.split())
    return line.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def main(arguments: Sequence[str] = ()) -> int:
    """Write the page, or check it."""
    given = list(arguments or sys.argv[1:])
    check = "--check" in given
    paths = [text for text in given if text != "--check"]
    if len(paths) != 1:
        print(f"usage: {_COMMAND} [--check]", file=sys.stderr)
        return 2
    path = Path(paths[0])
    try:
        wanted = page(Troubles())
    except IncompleteAdviceError as error:
        print(error, file=sys.stderr)
        return 1
    return put_page(wanted, path, _COMMAND, check=check)


if __name__ == "__main__":
    sys.exit(main())
