"""One run at a time in a project: two would stop each other's services, and clean up each other's files."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tidings_envelope.base_errors import SettingsError


@contextmanager
def alone(state: Path) -> Iterator[None]:
    """Hold the project until the end, also the end by a kill; leave no empty directory.

    Args:
        state: the directory for what a run leaves.

    Raises:
        SettingsError: another run holds it.
    """
    state.mkdir(parents=True, exist_ok=True)
    path = state / "lock"
    with path.open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"another `tidings up` runs in {state.parent}", hint="end it with Ctrl-C where it runs"
            ) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # something is kept there, or it is gone
                state.rmdir()
