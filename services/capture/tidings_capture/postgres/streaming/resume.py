"""The transaction that was sent in part: PostgreSQL repeats it as a whole, and its first rows must not be sent again."""

from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_connect.data.records import Record


class Resumption:
    """Tells the rows that were sent from those that were not.

    Args:
        resume: where the stream goes on.
    """

    def __init__(self, resume: SourceOffset) -> None:
        self._resume: SourceOffset | None = resume if resume.in_transaction else None
        self._seen = 0
        self._held: list[Record] = []
        """Changes of schemas behind a row that is done already: sent before, if another such row follows."""

    def of(self, tx_id: int) -> SourceOffset | None:
        """Where to go on within a transaction; None when it is another one."""
        return self._resume if self._resume is not None and self._resume.tx_id == tx_id else None

    def begin(self, tx_id: int) -> None:
        """A transaction begins that is not left out as a whole."""
        self._seen = 0
        self._resume = self.of(tx_id)

    def is_new(self, lsn: int) -> bool:
        """Whether the next row of the transaction has not been sent."""
        assert self._resume is not None
        if lsn == self._resume.lsn:
            self._seen += 1
            new = self._seen > self._resume.events_at_lsn
        else:
            new = lsn > self._resume.lsn
        if not new:
            self._held.clear()
        return new

    def hold(self, records: list[Record]) -> None:
        """Keep changes of schemas until it is known whether they were sent."""
        self._held += records

    def release(self) -> list[Record]:
        """What is held. Nobody knows whether it was sent after the last row that is done: rather twice than not at all."""
        held, self._held = self._held, []
        return held

    def end(self) -> None:
        """The transaction is done."""
        self._resume = None
