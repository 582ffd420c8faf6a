"""Writes a line for each record, as ``FileStreamSinkTask`` does: the value as Java's ``toString`` has it.

At least once: lines are appended, then made durable (fsync), then the offsets are committed. A crash between the first and the
last repeats lines. Tasks that share a file append to it one after the other (flock), and what a full disk has taken of a line is
taken back before another task may write. It is written again before anything else.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidings_connect.java.text import java_text
from tidings_connect.task.sink import RetriableError, SinkRecord, SinkTask, TopicPartition
from tidings_connect.task.standard_streams import worker_output
from tidings_service import get_logger
from tidings_sinks.errors import FileError

_log = get_logger(__name__)
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""What a file system answers that has no locks."""


class FileSinkTask(SinkTask):
    """One file, or the worker's standard output.

    Args:
        file: its path; empty: standard output.
    """

    def __init__(self, file: str, connector: str) -> None:
        self._file = file
        self._connector = connector
        self._rest = b""
        """What was taken and is not written yet."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(file, flags, 0o666) if file else worker_output()
        except OSError as error:
            raise FileError(
                f"file {file} cannot be opened: {error.strerror}", hint="see whether its directory is there"
            ) from error
        self._regular = bool(file) and stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._locks = self._regular

    def put(self, batch: Sequence[SinkRecord]) -> None:
        """See `SinkTask.put`."""
        self._write()
        lines = [java_text(record.value_schema, record.value) + "\n" for record in batch]
        self._rest = "".join(lines).encode("utf-8", "replace")
        try:
            self._write()
        except RetriableError as error:
            # The batch is taken: its lines must not come again.
            _log.warning("a file takes no lines now", connector=self._connector, reason=str(error))

    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See `SinkTask.flush`."""
        self._write()
        if self._regular:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                raise FileError(f"file {self._file} cannot be made durable: {error.strerror}") from error
        return offsets

    def stop(self) -> None:
        """See `SinkTask.stop`."""
        if self._file:
            os.close(self._descriptor)

    def _write(self) -> None:
        if not self._rest:
            return
        with self._alone():
            lines, done = memoryview(self._rest), 0
            try:
                while done < len(lines):
                    done += os.write(self._descriptor, lines[done:])
            except OSError as error:
                done -= self._take_back(bytes(lines[:done]))
                raise RetriableError(f"{self._name} cannot be written: {error.strerror}") from error
            finally:
                self._rest = bytes(lines[done:])

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """While it lasts, no other task appends to the file. Where the file system has no locks, tasks append as they can."""
        if self._locks:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise FileError(f"file {self._file} cannot be locked: {error.strerror}") from error
                self._locks = False
                _log.warning("a file has no locks", connector=self._connector, reason=error.strerror)
        try:
            yield
        finally:
            if self._locks:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _take_back(self, written: bytes) -> int:
        """Take the beginning of a line from the end of what was written just now; how many bytes it was.

        It stays where somebody has written behind it without the lock, and where the file cannot be shortened: then the line
        goes on later.
        """
        torn = len(written) - written.rfind(b"\n") - 1
        end = os.lseek(self._descriptor, 0, os.SEEK_CUR) if torn and self._regular else 0
        if not end or os.fstat(self._descriptor).st_size != end:
            return 0
        try:
            os.ftruncate(self._descriptor, end - torn)
        except OSError as error:
            _log.warning("a file cannot be shortened", connector=self._connector, reason=error.strerror)
            return 0
        return torn

    @property
    def _name(self) -> str:
        return f"file {self._file}" if self._file else "standard output"
