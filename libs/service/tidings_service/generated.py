"""Pages that are made of the code: written, or compared with what is there."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path


def page_command(command: str, text_of: Callable[[Path], str], arguments: Sequence[str] | None = None) -> int:
    """A command that writes a page: ``<command> <page> [--check]``.

    Args:
        command: as it is typed, without the page.
        text_of: the whole text of the page at a path, which may keep parts of what is there.
        arguments: None: those of the process.

    Returns:
        The exit code, as `put_page`.
    """
    parser = argparse.ArgumentParser(prog=command)
    parser.add_argument("page", type=Path)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when the page is out of date"
    )
    given = parser.parse_args(arguments)
    return put_page(text_of(given.page), given.page, f"{command} {given.page}", check=given.check)


def put_page(text: str, path: Path, command: str, *, check: bool) -> int:
    """Write a page; with `check` write nothing, and say when the page is another.

    Args:
        command: what writes it, for the message.

    Returns:
        The exit code: 0, or 1 where `check` finds another text.
    """
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    if check:
        sys.stderr.write(f"{path} is not what the code says: run {command}\n")
        return 1
    path.write_text(text, encoding="utf-8")
    return 0
