"""Rows of a snapshot that was taken in the middle of the stream, until the stream has come to where they were read. Pure but for
the disk.

Debezium stops streaming for a blocking snapshot, which then reads rows as they are by now: transactions that were committed
in between are told after the snapshot's rows, although these hold what they have done already. Seen with Debezium 3.7: its
rows bear the LSN where the stream had stopped, 1.4 to 1.9 seconds of commits before what they hold. Let out at once, such a
row would swallow the events of these transactions, since they change nothing any more.

So the rows are kept until a transaction comes that was certainly committed after they were read. Between a row of the snapshot
and that transaction the stream may tell of the same row: then it knows better, and the snapshot's row is left out. As rows of
one key are in one partition, in the order in which the engine wrote them, looking at each partition alone is enough, and
reading it again after a restart gives the same. (Debezium's incremental snapshots work like this by themselves.)

When a row was read is told by the connector's clock: not before the snapshot's ``source.ts_ms``, and not after the record's own
``ts_ms`` (Debezium reads a blocking snapshot's tables one after the other, each as it is by then). When a transaction was
committed is told by the database's clock. What these clocks may differ is added.

Where it is known as of which position rows are, they are kept until the stream comes behind that, and none is left out.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tidings_domain.routing.row_bytes import envelope_bytes
from tidings_envelope.envelope import Envelope
from tidings_translator.sequencer.assembly.spill import BlockFile

_IN_MEMORY = 500
"""Rows of one partition; more are on disk."""
_BYTES_IN_MEMORY = 1 << 20
"""And so many bytes of them."""

_Row = tuple[int, bytes | None, Envelope]
"""Offset, key and envelope of a row."""


def read_at_ms(envelope: Envelope) -> int:
    """When a row was read at the latest, by the connector's clock."""
    return max(envelope.source.ts_ms, envelope.ts_ms or 0)


class _Snapshot:
    """The rows of one snapshot.

    Args:
        directory: for those that are many.
        taken_at_ms: its ``source.ts_ms``.
        until: the position that its rows are as of, where that is known.
        begins_anew: whether the stream begins anew with it.
    """

    def __init__(
        self, directory: Path | None, taken_at_ms: int, until: int | None, *, begins_anew: bool
    ) -> None:
        self.taken_at_ms = self.read_at_ms = taken_at_ms
        self.until = until
        self.begins_anew = begins_anew
        self.count = 0
        self.first_offset: int | None = None
        self._directory = directory
        self._rows: list[_Row] = []
        self._bytes = 0
        self._file: BlockFile[_Row] | None = None
        self._superseded: dict[bytes, int] = {}
        """Keys that the stream has told of since, with the number of rows that were there."""

    def add(self, row: _Row) -> None:
        if self.first_offset is None:
            self.first_offset = row[0]
        self.read_at_ms = max(self.read_at_ms, read_at_ms(row[2]))
        self._rows.append(row)
        self._bytes += envelope_bytes(row[2])
        self.count += 1
        if len(self._rows) >= _IN_MEMORY or self._bytes >= _BYTES_IN_MEMORY:
            if self._file is None:
                self._file = BlockFile(self._directory, _Row)  # type: ignore[arg-type]  # a type at run time
            self._file.append(self._rows)
            self._rows, self._bytes = [], 0

    def supersede(self, key: bytes) -> None:
        self._superseded[key] = self.count

    def rows(self) -> Iterator[_Row]:
        """Those that the stream has not told of since, in order."""
        superseded = self._superseded
        for number, row in enumerate(self._all()):
            if row[1] is None or superseded.get(row[1], 0) <= number:
                yield row

    def _all(self) -> Iterator[_Row]:
        if self._file is not None:
            yield from self._file.read(0, self._file.size_bytes)
        yield from self._rows

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class KeptSnapshots:
    """The kept rows of one partition.

    Args:
        directory: for those that are many; None is the system's directory for temporary files.
        skew_ms: what the clocks of the connector and the database may differ.
    """

    def __init__(self, directory: Path | None, skew_ms: int) -> None:
        self._directory = directory
        self._skew_ms = skew_ms
        self._snapshots: deque[_Snapshot] = deque()

    def __len__(self) -> int:
        return sum(one.count for one in self._snapshots)

    def add(
        self,
        offset: int,
        key: bytes | None,
        envelope: Envelope,
        until: int | None = None,
        *,
        begins_anew: bool = False,
    ) -> None:
        """Keep a row, until the stream is behind a position if one is given.

        Raises:
            SequenceError: the disk is full or not writable.
        """
        taken_at_ms = envelope.source.ts_ms
        last = self._snapshots[-1] if self._snapshots else None
        if last is None or last.taken_at_ms != taken_at_ms or last.until != until:
            last = _Snapshot(self._directory, taken_at_ms, until, begins_anew=begins_anew)
            self._snapshots.append(last)
        last.add((offset, key, envelope))

    def supersede(self, key: bytes | None, committed_at_ms: int) -> None:
        """The stream tells of a row; when it was committed decides whether a snapshot may hold it already."""
        if key is None:
            return
        for snapshot in self._snapshots:
            if snapshot.until is None and committed_at_ms <= snapshot.read_at_ms + self._skew_ms:
                snapshot.supersede(key)

    def is_due(self, committed_at_ms: int, end_lsn: int) -> bool:
        """Whether a transaction that was committed then and there comes after rows that are kept."""
        if not self._snapshots:
            return False
        first = self._snapshots[0]
        if first.until is not None:
            return end_lsn > first.until
        return first.read_at_ms + self._skew_ms < committed_at_ms

    def due(self, committed_at_ms: int, end_lsn: int) -> Iterator[tuple[Envelope, bool, bool]]:
        """Rows that come before such a transaction, whether they bear their own position, and whether the stream begins anew
        with them; each is not kept any more when it comes."""
        while self.is_due(committed_at_ms, end_lsn):
            snapshot = self._snapshots[0]
            for offset, _, envelope in snapshot.rows():
                snapshot.first_offset = offset + 1
                yield envelope, snapshot.until is not None, snapshot.begins_anew
            self._snapshots.popleft().close()

    def needed_from(self) -> int | None:
        """The offset of the first row that is kept."""
        return self._snapshots[0].first_offset if self._snapshots else None

    def close(self) -> None:
        """Forget them."""
        while self._snapshots:
            self._snapshots.popleft().close()
