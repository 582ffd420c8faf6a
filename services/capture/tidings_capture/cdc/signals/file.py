"""The file that signals come from: only where the worker lets it be, only a regular file, only so many bytes.

Whoever writes a connector's configuration chooses the name, and what has been read is taken out of the file. So a name
outside ``tidings.signal.directory`` is refused; without that property only Debezium's default in the worker's working
directory is a name.
"""

import os
import stat
from pathlib import Path
from typing import Final

from tidings_connect.errors import ConnectError
from tidings_connect.limits import SIGNAL_DIRECTORY, current_limits

DEFAULT_FILE: Final = "file-signals.txt"
MOST_BYTES: Final = 1_048_576
_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def resolve_signal_file(name: str) -> Path:
    """The path of ``signal.file``.

    Raises:
        ValueError: the worker does not let it be there.
    """
    allowed = current_limits().signal_directory
    if allowed is None:
        if name != DEFAULT_FILE:
            raise ValueError(
                f"must be {DEFAULT_FILE}, because the worker's properties name no {SIGNAL_DIRECTORY} for others"
            )
        return Path.cwd() / name
    directory = Path(os.path.realpath(allowed))
    given = directory / name  # an absolute name stands for itself
    path = Path(os.path.realpath(given.parent)) / given.name
    if not path.is_relative_to(directory) or path == directory or given.name in {"", ".", ".."}:
        raise ValueError(f"must be a file within the worker's {SIGNAL_DIRECTORY}={allowed}")
    return path


def signal_file_problem(name: str) -> str | None:
    """What is wrong with a name, or None."""
    try:
        resolve_signal_file(name)
    except ValueError as error:
        return str(error)
    return None


class SignalFile:
    """A file whose whole lines are read and then taken out.

    Raises:
        ConnectError: from every method; the file is not regular, too large, or not to be read or written.
    """

    def __init__(self, name: str) -> None:
        try:
            self._path = resolve_signal_file(name)
        except ValueError as error:
            raise ConnectError(f"signal.file {error}") from error
        self._taken = 0

    def lines(self) -> list[bytes]:
        """The lines that are there, again and again until `take`; none while there is no file."""
        descriptor = self._open(os.O_RDONLY)
        if descriptor is None:
            return []
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConnectError(
                f"signal.file={self._path} has more than {MOST_BYTES} bytes",
                hint="remove the file, and write less",
            )
        end = data.rfind(b"\n") + 1  # a line that is still being written waits
        self._taken = end
        return [line for line in data[:end].splitlines() if line.strip()]

    def take(self) -> None:
        """Take what `lines` gave last out of the file; what was written behind it since stays."""
        if not self._taken:
            return
        taken, self._taken = self._taken, 0
        descriptor = self._open(os.O_RDWR)
        if descriptor is None:
            return
        with os.fdopen(descriptor, "r+b") as file:
            file.seek(taken)
            rest = file.read(MOST_BYTES)
            file.seek(0)
            file.write(rest)
            file.truncate(len(rest))
            os.fsync(file.fileno())

    def _open(self, mode: int) -> int | None:
        try:
            descriptor = os.open(self._path, mode | _FLAGS)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConnectError(f"signal.file={self._path} cannot be opened: {error.strerror}") from error
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(descriptor)
            raise ConnectError(
                f"signal.file={self._path} is not a regular file with one name",
                hint="write signals into a file of their own",
            )
        return descriptor
