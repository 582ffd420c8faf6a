"""Keeps rows on disk that may not wait in memory.

Files are anonymous (they go with the process, however it ends) and hold msgpack in blocks of about the same number of bytes,
each behind its length in four bytes. Nothing in them outlives a restart: then the rows are read from Kafka again. Values come back as msgpack has
them, so a `Decimal` comes back as its text, as it travels in a change set anyway.
"""

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar, cast

import msgspec

from tidings_domain.changes import RowChange
from tidings_domain.errors import SequenceError
from tidings_envelope.envelope import Envelope
from tidings_service.disk import DEFAULT_FREE_BYTES, DiskBudget, NoRoomError
from tidings_translator.base.records import Partition

T = TypeVar("T")

_BLOCK_ROWS = 500
_BLOCK_BYTES = 128 << 10
"""A block holds no more rows, and ends with the row that makes it as large: one of each file, and of each sorted run, is in
memory."""
_ARRAY = b"\xdd"
"""msgpack's array of up to 2^32 - 1 items, the number of which follows."""
_LENGTH_BYTES = 4
_PAGE_BITS = 1024
_SETTINGS = ("TIDINGS_SPILL_MAX_BYTES", "TIDINGS_SPILL_FREE_BYTES")


_budgets: dict[Path | None, DiskBudget] = {}


def limit_spill(directory: Path | None, most_bytes: int | None, free_bytes: int) -> None:
    """Bound what all files in a directory may take together, from now on.

    Args:
        directory: None is the system's.
        most_bytes: None: only what is free on the disk bounds them.
        free_bytes: what must be left free.
    """
    _budgets[directory] = DiskBudget(directory or tempfile.gettempdir(), most_bytes, free_bytes, _SETTINGS)


def spilled_bytes(directory: Path | None) -> int:
    """What the files in a directory take now."""
    return _budget(directory).used_bytes


def _budget(directory: Path | None) -> DiskBudget:
    if directory not in _budgets:
        limit_spill(directory, None, DEFAULT_FREE_BYTES)
    return _budgets[directory]


class PlacedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A row and where it was read."""

    envelope: Envelope
    partition: Partition
    offset: int


class BlockFile(Generic[T]):
    """Appends rows, and reads ranges of them back in the order in which they were written.

    A block of rows is in memory at a time, for writing and for each reading.

    Args:
        directory: for the file; None is the system's.
        kind: the type of a row.
    """

    def __init__(self, directory: Path | None, kind: type[T]) -> None:
        self._decode = msgspec.msgpack.Decoder(list[kind]).decode  # type: ignore[valid-type]  # a type at run time
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        self._directory = directory
        self._budget = _budget(directory)
        self._block = bytearray()
        self._block_rows = 0
        try:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(dir=directory, buffering=1 << 13))  # noqa: SIM115
        except OSError as error:
            raise self._broken(error) from error
        self.size_bytes = 0

    def append(self, rows: Iterable[T]) -> tuple[int, int]:
        """Write rows; the positions of their first and behind their last byte.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        start = self.size_bytes
        for row in rows:
            self.add(row)
        self.flush()
        return start, self.size_bytes

    def add(self, row: T) -> None:
        """Write a row with the block that it belongs to.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        self._encode_into(row, self._block, -1)
        self._block_rows += 1
        if len(self._block) >= _BLOCK_BYTES or self._block_rows == _BLOCK_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the block as it is.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        if not self._block_rows:
            return
        data = b"".join((_ARRAY, self._block_rows.to_bytes(4, "big"), self._block))
        self._block, self._block_rows = bytearray(), 0
        try:
            self._budget.take(_LENGTH_BYTES + len(data))
            self._file.seek(self.size_bytes)
            self._file.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
            self._file.write(data)
        except NoRoomError as error:
            raise SequenceError(
                f"a large transaction cannot be kept on disk: {error}", hint=error.hint
            ) from error
        except OSError as error:
            raise self._broken(error) from error
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
        if not self._file.closed:
            self._budget.give_back(self.size_bytes)
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

    @property
    def size_bytes(self) -> int:
        """On disk."""
        return self._file.size_bytes

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
    """A row change, in msgpack, and the aggregate that it touches."""

    aggregate: str
    id: str
    change: msgspec.Raw


class DiskBuckets:
    """Routed rows of one transaction in some files, so that all of an aggregate are in one of them, in order."""

    def __init__(self, directory: Path | None, count: int) -> None:
        self._files = [BlockFile(directory, RoutedRow) for _ in range(count)]
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(RowChange).decode

    def __len__(self) -> int:
        return len(self._files)

    def add(self, bucket: int, aggregate: str, id_: str, change: RowChange) -> None:
        """Put a row into a bucket.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        self._files[bucket].add(RoutedRow(aggregate, id_, msgspec.Raw(self._encode(change))))

    def read(
        self, bucket: int, most_bytes: int, too_large: dict[tuple[str, str], int]
    ) -> Iterator[tuple[str, str, RowChange]]:
        """The rows of a bucket, in the order in which they were added.

        Args:
            most_bytes: of an aggregate's rows, in msgpack: those beyond are left out.
            too_large: takes the aggregates of which rows were left out, with the bytes of all of them.
        """
        file = self._files[bucket]
        file.flush()
        sizes: dict[tuple[str, str], int] = {}
        for row in file.read(0, file.size_bytes):
            place = row.aggregate, row.id
            size = sizes[place] = sizes.get(place, 0) + len(row.change)
            if size <= most_bytes:
                yield row.aggregate, row.id, self._decode(row.change)
            else:
                too_large[place] = size

    def close(self) -> None:
        """Forget them."""
        for file in self._files:
            file.close()
