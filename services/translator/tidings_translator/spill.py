"""Rows on disk: what a transaction holds beyond what may wait in memory.

Files are anonymous (they go with the process, however it ends) and hold msgpack in blocks, each behind its length in
four bytes. Nothing in them outlives a restart: then the rows are read from Kafka again. Values come back as msgpack has
them, so a `Decimal` comes back as its text, as it travels in a change set anyway.
"""

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar, cast

import msgspec

from tidings_envelope.envelope import Envelope
from tidings_translator.changes import RowChange
from tidings_translator.errors import SequenceError
from tidings_translator.records import Partition

T = TypeVar("T")

_BLOCK_ROWS = 500
_LENGTH_BYTES = 4
_PAGE_BITS = 1024


class PlacedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A row and where it was read."""

    envelope: Envelope
    partition: Partition
    offset: int


class BlockFile(Generic[T]):
    """Appends rows, and reads ranges of them back in the order in which they were written.

    Args:
        directory: for the file; None is the system's.
        kind: the type of a row.
    """

    def __init__(self, directory: Path | None, kind: type[T]) -> None:
        self._decode = msgspec.msgpack.Decoder(list[kind]).decode  # type: ignore[valid-type]  # a type at run time
        self._encode = msgspec.msgpack.Encoder().encode
        self._directory = directory
        try:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(dir=directory, buffering=1 << 16))  # noqa: SIM115
        except OSError as error:
            raise self._broken(error) from error
        self.size_bytes = 0

    def append(self, rows: Iterable[T]) -> tuple[int, int]:
        """Write rows; the positions of their first and behind their last byte.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        start = self.size_bytes
        block: list[T] = []
        try:
            for row in rows:
                block.append(row)
                if len(block) == _BLOCK_ROWS:
                    self._write(block)
                    block.clear()
            if block:
                self._write(block)
        except OSError as error:
            raise self._broken(error) from error
        return start, self.size_bytes

    def _write(self, block: list[T]) -> None:
        data = self._encode(block)
        self._file.seek(self.size_bytes)
        self._file.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
        self.size_bytes += _LENGTH_BYTES + len(data)

    def read(self, start: int, end: int) -> Iterator[T]:
        """The rows that `append` wrote from `start` to `end`."""
        while start < end:
            self._file.seek(start)
            length = int.from_bytes(self._file.read(_LENGTH_BYTES), "big")
            data = self._file.read(length)
            start += _LENGTH_BYTES + length
            yield from self._decode(data)

    def close(self) -> None:
        """Give the space back."""
        self._file.close()

    def _broken(self, error: OSError) -> SequenceError:
        where = self._directory or tempfile.gettempdir()
        return SequenceError(
            f"a large transaction cannot be kept in {where}: {error.strerror}",
            hint="TIDINGS_SPILL_DIRECTORY names another directory; nothing is lost",
        )


class SpilledRows:
    """The rows of one transaction that are on disk, by ordinal. Can be gone through several times."""

    def __init__(self, directory: Path | None) -> None:
        self._file = BlockFile(directory, tuple[int, PlacedRow])
        self._runs: list[tuple[int, int]] = []
        self._known: dict[int, int] = {}
        """By number, pages of ordinals that are there, as bits: an ordinal is whatever a record says."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, ordinal: int) -> bool:
        page, bit = divmod(ordinal, _PAGE_BITS)
        return bool(self._known.get(page, 0) >> bit & 1)

    def add(self, rows: dict[int, PlacedRow]) -> None:
        """Take in rows of other ordinals.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        ordinals = sorted(rows)
        known = self._known
        for ordinal in ordinals:
            page, bit = divmod(ordinal, _PAGE_BITS)
            known[page] = known.get(page, 0) | 1 << bit
        self._runs.append(self._file.append((ordinal, rows[ordinal]) for ordinal in ordinals))
        self._count += len(ordinals)

    def placed(self) -> Iterator[PlacedRow]:
        """All rows by ordinal."""
        runs = [self._file.read(*run) for run in self._runs]
        for _, row in heapq.merge(*runs, key=lambda entry: entry[0]):
            yield row

    def __iter__(self) -> Iterator[Envelope]:
        for row in self.placed():
            yield row.envelope

    def close(self) -> None:
        """Forget them."""
        self._file.close()


class RoutedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A row change and the aggregate that it touches."""

    aggregate: str
    id: str
    change: RowChange


class Buckets:
    """Routed rows of one transaction in some files, so that all of an aggregate are in one of them, in order."""

    def __init__(self, directory: Path | None, count: int) -> None:
        self._files = [BlockFile(directory, RoutedRow) for _ in range(count)]
        self._waiting: list[list[RoutedRow]] = [[] for _ in range(count)]

    def __len__(self) -> int:
        return len(self._files)

    def add(self, bucket: int, row: RoutedRow) -> None:
        """Put a row into a bucket.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        waiting = self._waiting[bucket]
        waiting.append(row)
        if len(waiting) == _BLOCK_ROWS:
            self._files[bucket].append(waiting)
            waiting.clear()

    def read(self, bucket: int) -> Iterator[RoutedRow]:
        """The rows of a bucket, in the order in which they were added."""
        yield from self._files[bucket].read(0, self._files[bucket].size_bytes)
        yield from self._waiting[bucket]

    def close(self) -> None:
        """Forget them."""
        for file in self._files:
            file.close()
