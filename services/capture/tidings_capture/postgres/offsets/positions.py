"""What is stored as a task's position: put together here, and nowhere else.

A position has four sources: where the stream stands (`stream_position`), the tables of a snapshot that was interrupted, an
incremental snapshot that is under way, and the server's history. `Positions` joins them and hands the result to the
checkpoints; `SnapshotPosition` gives what is stored while a snapshot is taken.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidings_capture.postgres.offsets.history import History
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_connect.task.checkpoints import Checkpoints

Incremental = Mapping[str, Any] | None
"""The fields of an incremental snapshot (`cdc.incremental.state`)."""


def position_at(lsn: int) -> SourceOffset:
    """Everything before an LSN is done, and nothing was sent of it."""
    return SourceOffset(done_lsn=lsn, lsn=lsn)


class SnapshotPosition:
    """What is stored while a snapshot is taken.

    Args:
        lsn: what the snapshot is as of.
        done: the tables that were sent as a whole before.
        incremental: what the stream begins with behind it.
    """

    def __init__(self, lsn: int, done: tuple[str, ...], incremental: Incremental) -> None:
        self._offset = replace(position_at(lsn), unfinished=done, incremental=incremental)

    @property
    def commit_lsn(self) -> int | None:
        """The end of the last transaction before it that was captured."""
        return self._offset.commit_lsn

    def catch_up(self, stream: SourceOffset) -> None:
        """The stream was followed up to the snapshot."""
        self._offset = replace(self._offset, commit_lsn=stream.commit_lsn, incremental=stream.incremental)

    def so_far(self) -> SourceOffset:
        """Behind the tables that were sent as a whole."""
        return self._offset

    def table_sent(self, name: str) -> None:
        """Another table was sent as a whole."""
        self._offset = replace(self._offset, unfinished=(*(self._offset.unfinished or ()), name))

    def given_up(self) -> SourceOffset:
        """The stream goes on without the rest."""
        return replace(self._offset, unfinished=None)

    def end(self, tx_id: int | None, ts_us: int, *, blocking: bool) -> SourceOffset:
        """Behind the last row.

        Args:
            blocking: it was taken in the middle of the stream.
        """
        snapshot = None if blocking else "INITIAL"
        return replace(self._offset, tx_id=tx_id, ts_us=ts_us, snapshot=snapshot, unfinished=None)


class Positions:
    """A task's stored position."""

    def __init__(self, checkpoints: Checkpoints[SourceOffset]) -> None:
        self._checkpoints = checkpoints
        self.incremental: Callable[[], Incremental] = lambda: None
        """What is stored of incremental snapshots now."""
        self._unfinished: tuple[str, ...] | None = None
        self.history: History | None = None
        """What every position says it is a position of; None: what it says itself."""
        checkpoints.sign = self._signed

    @property
    def confirmed_lsn(self) -> int:
        """Up to where the slot may be confirmed; 0 before the first checkpoint."""
        stored = self._checkpoints.stored
        return 0 if stored is None else stored.done_lsn

    def follow(self, resume: SourceOffset) -> None:
        """A stream begins at a position, perhaps up to a snapshot that was interrupted."""
        self._unfinished = resume.unfinished

    def of_stream(self, position: SourceOffset) -> SourceOffset:
        """What is stored for where the stream stands."""
        incremental = self.incremental()
        if self._unfinished is None and incremental is None:
            return position
        return replace(position, unfinished=self._unfinished, incremental=incremental)

    def _signed(self, position: SourceOffset) -> SourceOffset:
        return position if self.history is None else replace(position, history=self.history)
