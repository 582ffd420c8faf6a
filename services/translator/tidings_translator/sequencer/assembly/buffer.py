"""Keeps the rows of transactions that are not complete, in memory up to a limit, then on disk, and counts both."""

from collections.abc import Iterable
from pathlib import Path

from tidings_domain.routing.row_bytes import envelope_bytes
from tidings_domain.routing.transactions import SnapshotRow
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.spill import PlacedRow, SpilledRows
from tidings_translator.sequencer.assembly.transactions import OpenTransaction


class Buffer:
    """Keeps rows. A transaction with more than a quarter of what may be in memory has its rows on disk, but for the last.

    Args:
        max_rows: as many rows may be in memory.
        max_bytes: the same in bytes of memory, whichever is reached first.
        directory: for rows on disk; None is the system's directory for temporary files.
    """

    def __init__(self, max_rows: int, max_bytes: int, directory: Path | None) -> None:
        self.rows = 0
        """In memory and on disk."""
        self.bytes = 0
        """Of memory."""
        self.spilled_rows = 0
        self._in_memory = 0
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._run_rows = max(max_rows // 4, 1)
        self._run_bytes = max(max_bytes // 4, 1)
        self._directory = directory
        self._spent: list[SpilledRows] = []

    @property
    def has_room(self) -> bool:
        """Whether more rows may be in memory."""
        return self._in_memory < self._max_rows and self.bytes < self._max_bytes

    def add(self, transaction: OpenTransaction, order: int, row: PlacedRow) -> None:
        """Keep a row of a transaction.

        Raises:
            SequenceError: a large transaction cannot be kept on disk.
        """
        transaction.rows[order] = row
        self.rows += 1
        self._in_memory += 1
        size = envelope_bytes(row.envelope)
        self.bytes += size
        transaction.bytes += size
        if len(transaction.rows) >= self._run_rows or transaction.bytes >= self._run_bytes:
            self.spill(transaction)

    def add_follower(
        self, transaction: OpenTransaction, partition: Partition, offset: int, row: SnapshotRow
    ) -> None:
        """Keep a snapshot's row that comes out behind a transaction."""
        transaction.followers.append((partition, offset, row))
        size = envelope_bytes(row.envelope)
        transaction.follower_bytes += size
        self.bytes += size

    def spill(self, transaction: OpenTransaction) -> None:
        """Move the rows of a transaction to disk.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        moved = transaction.spill(self._directory)
        self._in_memory -= moved
        self.spilled_rows += moved
        self.bytes -= transaction.bytes
        transaction.bytes = 0

    def placed(self, transaction: OpenTransaction) -> Iterable[PlacedRow]:
        """All rows of a transaction with their places; all are on disk if any is."""
        if transaction.spilled is not None:
            self.spill(transaction)
        return transaction.placed()

    def remove(self, transaction: OpenTransaction) -> None:
        """A transaction is done. What it has on disk stays until `free`, because it may just be coming out."""
        self._in_memory -= len(transaction.rows)
        self.rows -= len(transaction.rows)
        self.bytes -= transaction.bytes + transaction.follower_bytes
        transaction.bytes = transaction.follower_bytes = 0
        transaction.rows = {}
        if transaction.spilled is not None:
            self.rows -= len(transaction.spilled)
            self.spilled_rows -= len(transaction.spilled)
            self._spent.append(transaction.spilled)
            transaction.spilled = None

    def free(self) -> None:
        """Give back the disk space of transactions that are done."""
        while self._spent:
            self._spent.pop().close()

    def close(self, transactions: Iterable[OpenTransaction]) -> None:
        """Give back all disk space, also that of the transactions that are not done."""
        self._spent += [one.spilled for one in transactions if one.spilled is not None]
        self.free()
