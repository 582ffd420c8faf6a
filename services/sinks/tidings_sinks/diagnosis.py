"""What the sinks' diagnoses share: files and directories that are written, and errors of a target as findings."""

import os
from collections.abc import Iterator
from pathlib import Path

from tidings_connect.diagnosis import Diagnosis
from tidings_connect.errors import ConnectError
from tidings_connect.task.sink import RetriableError
from tidings_sinks.errors import BusyError


def of_error(error: ConnectError, what: str) -> Diagnosis:
    """A target that does not answer, or refuses.

    Args:
        what: the options that say where it is and who logs in.
    """
    if isinstance(error, BusyError | RetriableError):
        return Diagnosis(
            "unreachable",
            str(error),
            "nothing is written: partitions rest until it answers",
            error.hint or f"start it, let the network through, or correct {what}",
        )
    text = str(error)
    refused = "login" in text
    return Diagnosis(
        "login-refused" if refused else "target",
        text,
        "the connector's tasks fail",
        error.hint or f"correct {what}",
    )


def of_directory(directory: Path, option: str) -> Iterator[Diagnosis]:
    """Whether files can be made in a directory."""
    if not directory.is_dir():
        yield Diagnosis(
            "no-directory",
            f"{directory} is not a directory ({option})",
            "nothing can be written",
            f"mkdir -p {directory}, on each machine that runs a worker; or correct {option}",
        )
    elif not os.access(directory, os.W_OK | os.X_OK):
        yield not_writable(directory, option)


def of_file(file: Path, option: str) -> Iterator[Diagnosis]:
    """Whether a file can be written, or made."""
    if not file.exists():
        yield from of_directory(file.parent, option)
    elif not file.is_file() or not os.access(file, os.W_OK):
        yield not_writable(file, option)


def not_writable(path: Path, option: str) -> Diagnosis:
    """A path that this user may not write to."""
    return Diagnosis(
        "not-writable",
        f"{path} cannot be written to by this user ({option})",
        "nothing can be written, where the worker runs as the same user",
        f"chown {os.getuid()} {path}, or correct {option}",
    )
