"""Writes a line for each record, as ``FileStreamSinkTask`` does: the value as Java's ``toString`` has it.

At least once: lines are appended, then made durable (fsync), then the offsets are committed. A crash between the first and the
last repeats lines. A batch is written with one call, so that tasks that share a file do not tear each other's lines, and what a
full disk has not taken of a batch is written before anything else.
"""

import os
import stat
from collections.abc import Mapping, Sequence

from tidings_connect.java.text import java_text
from tidings_connect.task.sink import RetriableError, SinkRecord, SinkTask, TopicPartition
from tidings_connect.task.standard_streams import worker_output
from tidings_service import get_logger
from tidings_sinks.errors import FileError

_log = get_logger(__name__)


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
        while self._rest:
            try:
                written = os.write(self._descriptor, self._rest)
            except OSError as error:
                raise RetriableError(f"{self._name} cannot be written: {error.strerror}") from error
            self._rest = self._rest[written:]

    @property
    def _name(self) -> str:
        return f"file {self._file}" if self._file else "standard output"
