"""What the target has of a source's transactions, by which is recognised what the source writes again after a crash. Pure.

Repeated is an end that is not behind the last one, and a row of a transaction that was written: the last commit before it is older
than the last one that was. Only MariaDB may log a new transaction that is not behind the last one: see
`tidings_envelope.server_numbers`. A transaction's id is ``txid:lsn`` with another LSN in each record, so that it is joined on the txid;
MariaDB's is a GTID.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tidings_connect.task.sink import SinkRecord
from tidings_envelope.errors import OrderError
from tidings_envelope.server_numbers import ServerNumbers
from tidings_sinks.errors import TransactionError
from tidings_sinks.transactions.events import End, RowPlace, place_in_words
from tidings_sinks.transactions.units import Transaction, Unit

_FINISHED_KEPT: Final = 256


class Written:
    """Of one source."""

    def __init__(self) -> None:
        self.position: int | None = None
        """Of the last transaction that was written; None before the first."""
        self._numbers = ServerNumbers()
        """MariaDB's, of the transactions that were written."""
        self._read = ServerNumbers()
        """The same of those whose ends were read."""
        self._finished: dict[int, int] = {}
        """Positions by txid of the last ones that were written here."""
        self._repeated: dict[int, int] = {}
        """The same of those whose ends came again, and that were written before this task began."""

    def begin_behind(self, position: int | None, numbers: ServerNumbers) -> None:
        """See `Assembly.begin_behind`."""
        self.position, self._numbers, self._read = position, numbers, numbers.copy()

    def forget_read(self) -> None:
        """What was read and not written is read again."""
        self._read = self._numbers.copy()

    # What is read

    def end_read(self, end: End) -> None:
        """An end that is behind all before it."""
        if end.gtid is not None:
            self._read.note(end.gtid)

    def is_repeated_end(self, end: End, record: SinkRecord) -> bool:
        """Whether an end that is not behind the last one is of a transaction that was written; else it is read already.

        Raises:
            TransactionError: it is of one that was not: the history has changed, or its order is not that of positions.
        """
        if end.gtid is not None:
            try:
                self._read.check_told(end.gtid)
            except OrderError as error:
                raise TransactionError(f"{place_in_words(record)}: {error}", hint=error.hint) from None
        if self.position is None or end.position > self.position:
            return False
        known = self._finished.values()
        if known and end.position >= next(iter(known)) and end.position not in known:
            raise TransactionError(
                f"transaction {end.text} was committed before one that is written, and has not been seen: the history has"
                " changed",
                hint="was the database restored or replaced? Take a new snapshot, and reset the connector's offsets",
            )
        _note(self._repeated, end.txid, end.position)
        return True

    def has_row(self, txid: int, place: RowPlace) -> bool:
        """Whether a row belongs to a transaction that was written."""
        known = self._finished.get(txid, self._repeated.get(txid))
        if known is not None and place.position is not None and place.position < known:
            return True
        written = self.position
        if written is None or place.last_commit is None or place.last_commit >= written:
            return False
        return place.position is None or place.position < written

    # What is written

    def position_after(self, units: Sequence[Unit]) -> int | None:
        """See `Assembly.position_after`."""
        return max((one.end for one in _ended(units) if one.end is not None), default=self.position)

    def numbers_after(self, units: Sequence[Unit]) -> ServerNumbers:
        """See `Assembly.numbers_after`."""
        numbers = self._numbers.copy()
        for one in _ended(units):
            if one.gtid is not None:
                numbers.note(one.gtid)
        return numbers

    def done(self, units: Sequence[Unit]) -> None:
        """These are durable in the target."""
        self.position, self._numbers = self.position_after(units), self.numbers_after(units)

    def finished(self, transaction: Transaction) -> None:
        """A transaction is over: it was written, now or before this task began."""
        if transaction.end is not None:
            _note(self._finished, transaction.txid, transaction.end)


def _ended(units: Sequence[Unit]) -> Iterator[Transaction]:
    return (unit for unit in units if isinstance(unit, Transaction) and unit.end is not None)


def _note(kept: dict[int, int], txid: int, position: int) -> None:
    kept.pop(txid, None)
    kept[txid] = position
    while len(kept) > _FINISHED_KEPT:
        del kept[next(iter(kept))]
