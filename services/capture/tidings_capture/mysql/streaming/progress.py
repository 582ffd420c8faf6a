"""How far a stream is within the transaction that it reads, and what of it was read before a restart. Pure."""

from dataclasses import replace

from tidings_capture.mysql.offset import Offset


class Progress:
    """Counts what is read of the present transaction, and tells what is to be passed.

    Args:
        start: the offset that the stream began at.
    """

    def __init__(self, start: Offset) -> None:
        self._start = start
        self._parts = dict(start.parts)
        self.resumes = bool(start.parts or start.events or start.rows)
        """Whether a transaction that was read in part has still to come, or to be passed."""
        self.events = self.rows = 0
        """Of the present transaction."""
        self.defined = 0
        """How many of the rows are definitions."""
        self._passed = self._passed_events = self._passed_rows = 0
        self._gtid: str | None = None

    def begin(self, gtid: str) -> None:
        """A transaction begins."""
        self._gtid = gtid
        self.events = self.rows = self.defined = 0
        self._passed = self._parts.get(gtid, 0)
        by_events = self.resumes and not self._start.parts  # Debezium's numbers are of the next transaction
        self._passed_events, self._passed_rows = (
            (self._start.events, self._start.rows) if by_events else (0, 0)
        )

    def end(self) -> None:
        """It ends."""
        self._parts.pop(self._gtid or "", None)
        self.resumes = self.resumes and bool(self._parts)
        self._gtid = None

    @property
    def began_before(self) -> bool:
        """Whether something of the present transaction was read before."""
        return bool(self._passed or self._passed_events or self._passed_rows)

    def is_passed(self, row: int | None = None) -> bool:
        """Whether the last row that was counted was read before.

        Args:
            row: its number in its event, from 0; None: it is a definition.
        """
        if self.rows <= self._passed or self.events < self._passed_events:
            return True
        return row is not None and self.events == self._passed_events and row < self._passed_rows

    def offset(self, before: Offset) -> Offset:
        """Behind everything that was read. Until what was read before is passed, it is the one that the stream began at.

        Args:
            before: the position before the present transaction.
        """
        here = replace(before, parts=dict(self._parts))
        if self.resumes and not self._caught_up():
            start = self._start
            return replace(here, events=start.events, rows=start.rows, parts={**start.parts, **self._parts})
        if self._gtid is None or not self.rows:
            return here
        return replace(here, events=self.events, parts={**self._parts, self._gtid: self.rows})

    def _caught_up(self) -> bool:
        """Whether everything of the transaction that was read in part is passed."""
        if self._gtid is None or self.rows < self._passed:
            return False
        behind = self.events - self._passed_events
        return behind > 0 or (behind == 0 and not self._passed_rows)
