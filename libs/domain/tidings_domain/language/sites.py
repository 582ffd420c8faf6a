"""Names the place in a source file where something in a domain was written, for the messages about mistakes.

Every check of a domain raises `mistake`: file and line first, so that editors can jump there, then what is wrong, then
the likely cause.
"""

import difflib
import inspect
from collections.abc import Iterable
from pathlib import Path
from types import CodeType

import msgspec

from tidings_domain.errors import DomainError


class Site(msgspec.Struct, frozen=True):
    """A place in a source file."""

    file: str
    line: int

    def __str__(self) -> str:
        path = Path(self.file)
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return f"{shown}:{self.line}"


def caller_site(depth: int) -> Site:
    """Where the code runs that called this function's caller, `depth` frames further up."""
    frame = inspect.currentframe()
    for _ in range(depth + 2):
        frame = frame.f_back if frame is not None else None
    if frame is None:
        return Site("<unknown>", 0)
    return Site(frame.f_code.co_filename, frame.f_lineno)


def code_site(code: CodeType) -> Site:
    """Where a function begins (its first decorator, if it has one)."""
    return Site(code.co_filename, code.co_firstlineno)


def mistake(site: Site, problem: str, *, hint: str | None = None) -> DomainError:
    """The error to raise for a mistake at `site`."""
    message = f"{site}: {problem}"
    return DomainError(f"{message}; {hint}" if hint else message)


def nearest(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` when something known is spelt like `word`; else what is known."""
    names = sorted(set(known))
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known are: {', '.join(names)}" if names else "none are known"
