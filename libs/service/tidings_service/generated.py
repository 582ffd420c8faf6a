"""Pages that are made of the code: written, or compared with what is there."""

import sys
from pathlib import Path


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
