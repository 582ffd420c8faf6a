"""Files of a service on its node's disk: how much room they may take, and who removes them when the process was killed."""

import errno
import fcntl
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tidings_service.errors import TidingsError

MEBIBYTE: Final = 1 << 20
DEFAULT_FREE_BYTES: Final = 256 * MEBIBYTE
_LOCK: Final = ".lock"
_OLD_SECONDS: Final = 3600.0
"""After so long a directory without a lock is nobody's who is just making it."""


class NoRoomError(TidingsError):
    """The files may not take more of the disk."""

    code = "no_room"


class DiskBudget:
    """What a process may keep on a disk in all its files together.

    Args:
        directory: where they are.
        most_bytes: of all files; None: only what is free bounds them.
        free_bytes: what must be left free of the disk, for whoever else is on it.
        settings: the names of the settings that say the two, for messages.
    """

    def __init__(
        self, directory: str | Path, most_bytes: int | None, free_bytes: int, settings: tuple[str, str]
    ) -> None:
        self._directory = directory
        self._most = most_bytes
        self._free = free_bytes
        self._settings = settings
        self._lock = threading.Lock()
        self.used_bytes = 0

    def take(self, size: int) -> None:
        """So many more bytes are about to be written.

        Raises:
            NoRoomError: there is no room for them; names the setting.
            OSError: the directory cannot be asked.
        """
        with self._lock:
            self._take(size)

    def _take(self, size: int) -> None:
        most_name, free_name = self._settings
        if self._most is not None and self.used_bytes + size > self._most:
            raise NoRoomError(
                f"{self.used_bytes + size} bytes would be on disk in {self._directory}, and {most_name} allows {self._most}",
                hint=f"raise {most_name} where the disk has the room",
            )
        disk = os.statvfs(self._directory)
        free = disk.f_bavail * disk.f_frsize
        if free - size < self._free:
            raise NoRoomError(
                f"{self._directory} has {free} bytes free, and {free_name}={self._free} must be left",
                hint=f"give it a larger disk, or change {free_name}",
            )
        self.used_bytes += size

    def give_back(self, size: int) -> None:
        """Files of so many bytes are gone."""
        with self._lock:
            self.used_bytes -= size


class OwnDirectory:
    """A temporary directory that goes with the process, or, when that was killed, with the next one that makes such a directory.

    Whoever lives holds a lock in his, so that nobody removes it.

    Args:
        prefix: of the name, for example ``tidings-keys-``.
        parent: where it is; None: the system's.
    """

    def __init__(self, prefix: str, parent: str | Path | None = None) -> None:
        self._parent = Path(parent or tempfile.gettempdir())
        remove_abandoned(prefix, self._parent)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=self._parent))
            self._lock = _locked(self.path / _LOCK, os.O_CREAT)
            if self._lock is not None:
                break  # else somebody took it for an abandoned one this very moment

    @property
    def locks(self) -> list[int]:
        """The lock's descriptor: a child that inherits it keeps the directory, too."""
        return [] if self._lock is None else [self._lock]

    def cleanup(self) -> None:
        """Remove it; may be called again."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup()


def remove_abandoned(prefix: str, parent: Path) -> list[Path]:
    """Remove the directories of this user whose names begin so, and whose processes have ended; their paths."""
    removed = []
    for path in parent.glob(f"{prefix}*"):
        try:
            status = path.lstat()
            if path.is_symlink() or not path.is_dir() or status.st_uid != os.getuid():
                continue
            lock = _locked(path / _LOCK)
            if lock is None:
                continue
        except FileNotFoundError:
            if not path.exists() or time.time() - path.lstat().st_mtime < _OLD_SECONDS:
                continue  # gone, or just being made
            lock = None
        except OSError:
            continue  # somebody else's, or not to be read: not ours to remove
        shutil.rmtree(path, ignore_errors=True)
        removed.append(path)
        if lock is not None:
            os.close(lock)
    return removed


def _locked(path: Path, flags: int = 0) -> int | None:
    """A file's descriptor with the lock; None: another process has it.

    Raises:
        FileNotFoundError: there is no such file.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise
    return descriptor
