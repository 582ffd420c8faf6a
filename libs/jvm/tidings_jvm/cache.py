"""The download cache: where it is, and how processes share it.

artefacts/<file name>        verified files; one name, one content (checksums.txt)
stamps/<configuration>.json  size and mtime of each file when its hash was last computed
unpacked/<archive name>/     extracted archives, complete or absent
ivy/                         Ivy's own metadata
locks/                       one writer at a time; readers need no lock, because everything appears by rename
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def cache_directory() -> Path:
    """Return `TIDINGS_CACHE`, else `tidings` in the user's cache directory (`XDG_CACHE_HOME` respected)."""
    chosen = os.environ.get("TIDINGS_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "tidings"


@contextlib.contextmanager
def locked(path: Path, *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file at `path`; call `waiting` once if another process holds it.

    The kernel releases the lock when its holder dies, so a killed download never blocks the next one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
