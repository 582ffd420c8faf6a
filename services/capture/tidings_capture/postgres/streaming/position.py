"""From where a restart of the stream goes on: after the last transaction, or after a row within one.

Several rows can share one LSN (COPY writes many rows in one WAL record), so their number belongs to the position.
"""

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tidings_capture.cdc.event_context import EventContext
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_capture.postgres.wire.pgoutput import TAG, XLOG_DATA

_U64: Final = struct.Struct(">Q").unpack_from
_COUNTED: Final = b"IUDTM"
_ROW_TYPES: Final = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "T": "TRUNCATE", "M": "MESSAGE"}


class StreamPosition:
    """The position of one stream.

    Args:
        resume: where it begins.
        metadata: whether events are counted for the transaction's end, so that the counts are stored, too.
    """

    def __init__(self, resume: SourceOffset, *, metadata: bool) -> None:
        self._settled = resume
        self._metadata = metadata
        self._last_row: tuple[int, int, str] | None = None
        """Of the transaction's last row: its LSN, how many there were at it, its message's tag."""
        self.change_follows = False
        """Whether a change of a schema was sent behind the last row, which no position can tell."""
        self.done_lsn = resume.done_lsn
        """Transactions that ended here or before are done."""
        self.commit_lsn = resume.commit_lsn

    @property
    def knows_row(self) -> bool:
        """Whether a restart can go on within the transaction, and repeats nothing that was sent of it."""
        return self._last_row is not None and not self.change_follows

    def begin(self) -> None:
        """A transaction begins."""
        self._last_row = None

    def note_rows(self, messages: Sequence[bytes], last: bytes) -> None:
        """A batch was sent.

        Args:
            messages: the batch.
            last: the transaction's last row in it.
        """
        (lsn,) = _U64(last, 1)
        count = 0
        for data in reversed(messages):
            if data[0] != XLOG_DATA or data[TAG] not in _COUNTED:
                continue
            if _U64(data, 1)[0] != lsn:
                break
            count += 1
        else:
            former = self._last_row
            if former is not None and former[0] == lsn:
                count += former[1]
        self._last_row = (lsn, count, chr(last[TAG]))

    def commit(self, end_lsn: int, tx_id: int | None, ts_us: int) -> None:
        """A transaction was sent as a whole."""
        self.done_lsn = self.commit_lsn = end_lsn
        self._last_row = None
        self._settled = SourceOffset(
            done_lsn=end_lsn, lsn=end_lsn, commit_lsn=end_lsn, tx_id=tx_id, ts_us=ts_us, message_type="COMMIT"
        )

    def message(self, lsn: int, ts_us: int) -> None:
        """A message without a transaction was sent: done at once, like a transaction of its own."""
        self.commit_lsn = lsn
        self.done_lsn = lsn + 1  # the server sends what begins at the requested position or after it
        self._settled = SourceOffset(
            done_lsn=self.done_lsn, lsn=lsn, commit_lsn=lsn, ts_us=ts_us, message_type="MESSAGE"
        )

    def advance(self, lsn: int) -> None:
        """Nothing captured lies before an LSN."""
        if lsn > self._settled.done_lsn:
            self.done_lsn = lsn
            self._settled = replace(self._settled, done_lsn=lsn, lsn=lsn, snapshot=None)

    def between(self) -> SourceOffset:
        """Behind the last transaction that is done."""
        return self._settled

    def within(self, context: EventContext) -> SourceOffset:
        """Behind the last row of the transaction that is being sent; behind the one before, when it has none yet."""
        if self._last_row is None:
            return self._settled
        lsn, count, tag = self._last_row
        return SourceOffset(
            done_lsn=self.done_lsn,
            lsn=lsn,
            commit_lsn=self.commit_lsn,
            tx_id=context.tx_id,
            ts_us=context.ts_us,
            message_type=_ROW_TYPES[tag],
            events_at_lsn=count,
            transaction_id=str(context.tx_id) if self._metadata else None,
            event_counts=tuple(context.event_counts.items()) if self._metadata else (),
            left_out=context.left_out.stored() if self._metadata else (),
        )
