"""Fetched records whose headers have names that are not UTF-8: read all the same, with the odd bytes as ``\\xff``.

Kafka's protocol says that a header's name is a string, and neither brokers nor librdkafka look. aiokafka raises in the middle of
a batch, and would again at every attempt; everything else of the record is sound, and nobody here asks for such a name.

It uses parts of aiokafka that are not its public interface (`MemoryRecords`, `PartitionRecords`, the batches that are written in
Python). It is pinned, and tests/stages/test_header_names.py fails when one of these changes.
"""

from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords, _MemoryRecordsPy

_MAGIC_OFFSET = 16
"""Of a batch: behind base offset, length and leader epoch."""
_V2 = 2
"""The first format with headers."""


class _Text(bytearray):
    """Bytes of which every slice can be decoded."""

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return _Text(found) if isinstance(place, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)


class _Batch(_DefaultRecordBatchPy):  # type: ignore[misc]  # final to type checkers alone
    _buffer: bytearray

    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer = _Text(self._buffer)


class _Batches(_MemoryRecordsPy):  # type: ignore[misc]  # final to type checkers alone
    def next_batch(self, *_: int) -> Any:
        following = self._next_slice
        if following is None or len(following) <= _MAGIC_OFFSET or following[_MAGIC_OFFSET] < _V2:
            return super().next_batch()
        self._cache_next()
        return _Batch(following)


class _Fetched(MemoryRecords):  # type: ignore[misc]  # chosen when aiokafka is imported
    """What was fetched of a partition, and its bytes."""

    def __init__(self, fetched: bytes) -> None:
        super().__init__(fetched)
        self.fetched = fetched


class _PartitionRecords(fetcher.PartitionRecords):  # type: ignore[misc]  # aiokafka has no types
    _records: _Fetched
    next_fetch_offset: int

    def __init__(self, tp: Any, records: Any, aborted: Any, fetch_offset: int, *rest: Any) -> None:
        super().__init__(tp, records, aborted, fetch_offset, *rest)
        self._aborted = list(aborted or ())
        self._rest = rest

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except UnicodeDecodeError:
            self._records_iterator = self._again()
            return super().__next__()

    def _again(self) -> Iterator[Any]:
        """The records from here on, read in the slower way."""
        start = self.next_fetch_offset
        rest = _Plain(self._tp, _Batches(self._records.fetched), self._aborted, start, *self._rest)
        for record in rest:
            if record.offset >= start:
                self.next_fetch_offset = record.offset + 1
                yield record
        self.next_fetch_offset = max(self.next_fetch_offset, rest.next_fetch_offset)


_Plain = fetcher.PartitionRecords


def read_any_header_name() -> None:
    """Have aiokafka's fetchers of this process read all names."""
    fetcher.MemoryRecords = _Fetched
    fetcher.PartitionRecords = _PartitionRecords
