"""Where a change stands: the mutable state that the task and its conversion plans share.

One `EventContext` per task. The task sets the position before it hands a change to a plan; a plan reads it, and counts
the events that it makes, because only the plan knows that one change can be two events (a changed key is a delete and
a create). So after a transaction the counts for the END marker are here.
"""

import itertools
from typing import Final

from tidings_capture.cdc.left_out import LeftOut, Stored

_EPOCHS: Final = itertools.count(1)
"""Of the whole process: the snapshot's context and the stream's render with the same plans, so that an epoch of one must
never be taken for one of the other."""


class EventContext:
    """The position, time and transaction of the change that is being converted."""

    __slots__ = (
        "epoch",
        "event_counts",
        "in_transaction",
        "last_commit",
        "left_out",
        "now_ns",
        "origin",
        "origin_position",
        "position",
        "repeats",
        "snapshot",
        "total_order",
        "ts_us",
        "tx_id",
    )

    def __init__(self, left_out: LeftOut | None = None) -> None:
        self.epoch = next(_EPOCHS)
        """Changes whenever anything but `position`, `now_ns` and the counts has changed, and is never that of another
        context; plans cache what they have rendered by it."""
        self.snapshot = "false"
        """``source.snapshot``: false, first, first_in_data_collection, true, last_in_data_collection, last."""
        self.position = 0
        """Where the change stands in its database's log; of PostgreSQL its LSN in bytes (XLogData's start)."""
        self.last_commit: int | None = None
        """Where the last commit before this transaction stands; of PostgreSQL the first part of ``source.sequence``."""
        self.tx_id: int | None = None
        """``source.txId``."""
        self.ts_us = 0
        """``source.ts_us``: commit time, or the snapshot's time, in microseconds since the Unix epoch."""
        self.now_ns = 0
        """The envelope's own ``ts_ns``: the wall clock in nanoseconds. The task sets it as often as it reads."""
        self.origin: str | None = None
        """The server that the transaction came from by replication; None where this server ran it."""
        self.origin_position: int | None = None
        """Where the transaction's commit stands in that server's log."""
        self.repeats = False
        """Whether a change that was sent before is converted again, for its numbering alone."""
        self.in_transaction = False
        """Whether events are numbered and carry a transaction block (where the options ask for one at all)."""
        self.total_order = 0
        """The number of the transaction's last event; a plan adds one before each event."""
        self.event_counts: dict[str, int] = {}
        """The number of events so far by ``schema.table``: its value after adding one is
        ``data_collection_order``."""
        self.left_out = LeftOut() if left_out is None else left_out
        """Those of them that do not come out."""

    def follow(self, other: "EventContext") -> None:
        """An incremental snapshot's rows stand behind the change that `other` is about."""
        self.position = other.position
        self.last_commit = other.last_commit
        self.epoch = next(_EPOCHS)

    def begin(self, tx_id: int, ts_us: int, last_commit: int | None) -> None:
        """A streamed transaction starts: numbering starts at one, the source is not a snapshot."""
        self.snapshot = "false"
        self.tx_id = tx_id
        self.ts_us = ts_us
        self.last_commit = last_commit
        self.origin = None
        self.origin_position = None
        self.in_transaction = True
        self.total_order = 0
        self.event_counts = {}
        self.left_out.begin()
        self.epoch = next(_EPOCHS)

    def resume(self, left_out: Stored) -> None:
        """The transaction that has begun was sent in part before a restart."""
        self.left_out.begin(left_out)

    def fail(self, table: str, *, known: bool = False) -> None:
        """A change of `table` (``schema.table``) could not be converted, and is left out: it has its number all the same.

        Args:
            known: it was left out before a restart.
        """
        self.total_order += 1
        self.event_counts[table] = self.event_counts.get(table, 0) + 1
        if not known:
            self.left_out.fail(table)

    def from_origin(self, name: str, origin_position: int) -> None:
        """The transaction came to this server by replication."""
        self.origin = name
        self.origin_position = origin_position
        self.epoch = next(_EPOCHS)

    def snapshot_row(
        self, snapshot: str, position: int, tx_id: int | None, ts_us: int, last_commit: int | None = None
    ) -> None:
        """The next row is read by the snapshot and belongs to no transaction."""
        former = (self.snapshot, self.tx_id, self.ts_us, self.last_commit)
        if (snapshot, tx_id, ts_us, last_commit) != former or self.in_transaction:
            self.snapshot = snapshot
            self.tx_id = tx_id
            self.ts_us = ts_us
            self.last_commit = last_commit
            self.in_transaction = False
            self.epoch = next(_EPOCHS)
        self.position = position
