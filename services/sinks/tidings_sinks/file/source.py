"""Reads a file's lines, as ``FileStreamSourceTask`` does: a record for each complete line, and the position after it.

The file may grow, and need not be there yet. It is held open, so that one that was renamed is read on. One that has become
shorter than what was read of it is another file, or has lost what it had: an error, since nothing of it would ever be read.
"""

import os
import select
import stat
import time
from collections.abc import Sequence
from typing import Final

from tidings_connect.errors import OffsetError
from tidings_connect.task.output import Output
from tidings_connect.task.source_loop import PartitionedTask
from tidings_connect.task.standard_streams import worker_input
from tidings_connect.task.stored_positions import Partition, Position, StoredPositions
from tidings_connect.transforms.record import SourceRecord
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_service import get_logger
from tidings_sinks.errors import FileError
from tidings_sinks.file.lines import POSITION, Lines

FILENAME: Final = "filename"
_TEXT: Final = ConnectSchema(ConnectType.STRING)
_CHUNK_BYTES: Final = 1 << 16
"""Read at once; more while a line that is longer has no end, so that it is not copied over and over."""


_log = get_logger(__name__)


class FileSourceTask(PartitionedTask):
    """One file, or the worker's standard input.

    Args:
        file: its path; empty: standard input, which has no position.
        batch: lines that a poll gives at most.
    """

    def __init__(self, file: str, topic: str, batch: int, output: Output) -> None:
        self._file, self._topic, self._batch, self._output = file, topic, batch, output
        self._stored: int | None = None
        self._descriptor: int | None = None
        self._lines = Lines()
        self._missing = False

    def start(self, stored: StoredPositions) -> None:
        """See `PartitionedTask.start`."""
        if not self._file:
            self._descriptor = worker_input()
            return
        position = stored.get({FILENAME: self._file})
        if position is None:
            return
        at = position.get(POSITION)
        if not isinstance(at, int) or isinstance(at, bool) or at < 0:
            raise OffsetError(
                f"the stored offset of file {self._file} has no {POSITION} that is a whole number"
            )
        self._stored = at
        self._lines = Lines(at)

    def positions(self) -> Sequence[tuple[Partition, Position]]:
        """See `PartitionedTask.positions`. A file of which nothing was read has none, and neither has standard input."""
        if not self._file or (self._stored is None and not self._lines.position):
            return []
        return [({FILENAME: self._file}, {POSITION: self._lines.position})]

    def poll(self) -> bool:
        """See `PartitionedTask.poll`."""
        if self._descriptor is None and not self._open():
            return True
        left = self._batch
        while left:
            line = self._lines.next()
            if line is None:
                data = self._read()
                if not data:
                    return True
                self._lines.take(data)
                continue
            now = time.time_ns() // 1_000_000
            self._output.write(
                SourceRecord(self._topic, None, None, None, _TEXT, line, now, []), trusted=True
            )
            left -= 1
        return False

    def wait(self, seconds: float, descriptor: int) -> None:
        """See `PartitionedTask.wait`."""
        select.select([descriptor], [], [], seconds)

    def stop(self) -> None:
        """See `PartitionedTask.stop`."""
        if self._descriptor is not None and self._file:
            os.close(self._descriptor)
        self._descriptor = None

    def _open(self) -> bool:
        """Whether the file is there."""
        try:
            descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            if not self._missing:
                _log.warning("a file to read is not there yet", file=self._file)
            self._missing = True
            return False
        except OSError as error:
            raise FileError(f"file {self._file} cannot be opened: {error.strerror}") from error
        self._missing = False
        self._descriptor = descriptor
        if self._stored:
            self._seek(descriptor, self._stored)
        return True

    def _seek(self, descriptor: int, position: int) -> None:
        try:
            os.lseek(descriptor, position, os.SEEK_SET)
        except OSError as error:
            raise FileError(f"file {self._file} cannot be read from a position: {error.strerror}") from error

    def _read(self) -> bytes:
        assert self._descriptor is not None
        if not self._file and not select.select([self._descriptor], [], [], 0)[0]:
            return b""
        try:
            data = os.read(self._descriptor, max(_CHUNK_BYTES, self._lines.waiting))
        except BlockingIOError:
            return b""
        except OSError as error:
            raise FileError(f"{self._name} cannot be read: {error.strerror}") from error
        if not data and self._file:
            self._check_length()
        return data

    @property
    def _name(self) -> str:
        return f"file {self._file}" if self._file else "standard input"

    def _check_length(self) -> None:
        """At the end of the file.

        Raises:
            FileError: it is shorter than what was read of it.
        """
        assert self._descriptor is not None
        at = self._lines.position + self._lines.waiting
        found = os.fstat(self._descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_size < at:
            raise FileError(
                f"file {self._file} has {found.st_size} bytes, and {at} of it have been read: it was replaced or cut off",
                hint="stop the connector and reset its offsets to read the file from its beginning",
            )
