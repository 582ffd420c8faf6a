"""Keeps the rows of one transaction, by their order: in memory, and the many of a large one on disk.

Files are anonymous: they go with the process, however it ends. What they hold is written and read by the same process: the rows
are read from Kafka again after a restart.
"""

import pickle
import tempfile
from collections.abc import Iterable, Iterator
from heapq import merge
from io import BytesIO
from typing import Any, BinaryIO, Final, NamedTuple, cast

from tidings_connect.data.subscription import Consumed
from tidings_connect.task.sink import SinkRecord
from tidings_envelope.schema import ConnectSchema
from tidings_service.disk import DEFAULT_FREE_BYTES, DiskBudget, NoRoomError
from tidings_sinks.errors import TransactionError
from tidings_sinks.transactions.options import DISK

_PAGE_BITS: Final = 1024
_BLOCK_ROWS: Final = 200
"""Of each sorted run one block is in memory while they are read."""
_FILE_BYTES: Final = 64 << 20
"""A file that has as many is not written to any more."""
_LENGTH_BYTES: Final = 4
_ROW_BYTES: Final = 3000
"""Of memory that an envelope takes beside its values, about."""


class Held(NamedTuple):
    """A row that waits."""

    record: SinkRecord
    consumed: Consumed | None
    """As it stands in its topic; kept where it may become a dead letter."""


Ordered = tuple[int, Held]


def size_of(consumed: Consumed) -> int:
    """The memory, in bytes, that a row takes, about."""
    return _ROW_BYTES + 2 * (len(consumed.key or b"") + len(consumed.value or b""))


class _File:
    """One file, and how many runs in it are still needed."""

    def __init__(self) -> None:
        self.file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed when nothing in it is needed
        self.end = 0
        self.runs = 0


class Run(NamedTuple):
    """Sorted rows in a file."""

    file: _File
    start: int
    end: int


class Disk:
    """The files of a task, which go as what is in them is not needed any more.

    Args:
        most_bytes: of all of them together.
    """

    def __init__(self, most_bytes: int) -> None:
        self._budget = DiskBudget(
            tempfile.gettempdir(), most_bytes, DEFAULT_FREE_BYTES, (DISK, "the least free space")
        )
        self._current: _File | None = None

    @property
    def used_bytes(self) -> int:
        return self._budget.used_bytes

    def write(self, blocks: Iterable[bytes]) -> Run:
        """Write a run, each block behind its length.

        Raises:
            TransactionError: there is no room for it.
        """
        try:
            return self._written(blocks)
        except NoRoomError as error:
            raise TransactionError(
                f"a large transaction cannot be kept on disk: {error}", hint=error.hint
            ) from None
        except OSError as error:
            raise TransactionError(
                f"a large transaction cannot be kept in {tempfile.gettempdir()}: {error.strerror}"
            ) from None

    def _written(self, blocks: Iterable[bytes]) -> Run:
        if self._current is None or self._current.end >= _FILE_BYTES:
            self._current = _File()
        file = self._current
        start = file.end
        file.runs += 1
        try:
            self._append(file, blocks)
        except BaseException:
            self.forget(Run(file, start, start))
            raise
        return Run(file, start, file.end)

    def _append(self, file: _File, blocks: Iterable[bytes]) -> None:
        file.file.seek(file.end)
        for block in blocks:
            size = _LENGTH_BYTES + len(block)
            self._budget.take(size)
            file.end += size
            file.file.write(len(block).to_bytes(_LENGTH_BYTES, "big") + block)

    @staticmethod
    def read(run: Run) -> Iterator[bytes]:
        """The blocks of a run."""
        start = run.start
        while start < run.end:
            run.file.file.seek(start)
            length = int.from_bytes(run.file.file.read(_LENGTH_BYTES), "big")
            yield run.file.file.read(length)
            start += _LENGTH_BYTES + length

    def forget(self, run: Run) -> None:
        """A run is not needed any more."""
        file = run.file
        file.runs -= 1
        if not file.runs:
            file.file.close()
            self._budget.give_back(file.end)
            if self._current is file:
                self._current = None


class Rows:
    """The rows of one transaction."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._memory: list[Ordered] = []
        self.memory_bytes = 0
        self._pages: dict[int, int] = {}
        """Which orders there are: bits of whole numbers."""
        self._runs: list[Run] = []
        self._schemas: list[ConnectSchema] = []
        self._numbers: dict[int, int] = {}
        self.count = 0

    def __len__(self) -> int:
        """How many rows are kept."""
        return self.count

    @property
    def is_on_disk(self) -> bool:
        return bool(self._runs)

    def note(self, order: int) -> bool:
        """Note that the row of this order has come; False where it had before."""
        page, bit = order // _PAGE_BITS, 1 << (order % _PAGE_BITS)
        bits = self._pages.get(page, 0)
        if bits & bit:
            return False
        self._pages[page] = bits | bit
        return True

    def add(self, order: int, held: Held, size: int) -> None:
        """Keep a row that was noted; `size` in bytes of memory."""
        self._memory.append((order, held))
        self.memory_bytes += size
        self.count += 1

    def spill(self) -> None:
        """Move what is in memory to disk.

        Raises:
            TransactionError: there is no room.
        """
        rows, self._memory, self.memory_bytes = sorted(self._memory, key=_order), [], 0
        blocks = (rows[place : place + _BLOCK_ROWS] for place in range(0, len(rows), _BLOCK_ROWS))
        self._runs.append(self._disk.write(map(self._encoded, blocks)))

    def __iter__(self) -> Iterator[Held]:
        """All rows, by their order."""
        runs = map(self._run, self._runs)
        for _, held in merge(*runs, sorted(self._memory, key=_order), key=_order):
            yield held

    def close(self) -> None:
        """Give the space back."""
        for run in self._runs:
            self._disk.forget(run)
        self._memory, self.memory_bytes, self._runs = [], 0, []

    def _encoded(self, block: list[Ordered]) -> bytes:
        buffer = BytesIO()
        _Pickler(buffer, self._numbers, self._schemas).dump(block)
        return buffer.getvalue()

    def _run(self, run: Run) -> Iterator[Ordered]:
        for block in self._disk.read(run):
            yield from _Unpickler(BytesIO(block), self._schemas).load()


def _order(row: Ordered) -> int:
    return row[0]


class _Pickler(pickle.Pickler):
    """Writes schemas as numbers: they are shared by rows, and found by their identity."""

    def __init__(self, file: BytesIO, numbers: dict[int, int], schemas: list[ConnectSchema]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._numbers, self._schemas = numbers, schemas

    def persistent_id(self, obj: Any) -> int | None:
        """The number of a schema."""
        if not isinstance(obj, ConnectSchema):
            return None
        number = self._numbers.get(id(obj))
        if number is None:
            number = self._numbers[id(obj)] = len(self._schemas)
            self._schemas.append(obj)
        return number


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, schemas: list[ConnectSchema]) -> None:
        super().__init__(file)
        self._schemas = schemas

    def persistent_load(self, pid: Any) -> ConnectSchema:
        """The schema of a number."""
        found: ConnectSchema = self._schemas[pid]
        return found
