"""Which transactions lack something for good: their end, or rows. Pure.

Why that happens: the transaction topic, or a topic of rows, has let go of old records (retention, compaction); a reader began in
the middle of a transaction; a transform of a source that is not Tidings' has dropped rows that the marker counts; a record
could not be read.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import heappop, heappush

from tidings_connect.data.subscription import Reach, TopicPartition
from tidings_service import get_logger
from tidings_sinks.errors import TransactionError
from tidings_sinks.transactions.options import INCOMPLETE, TransactionSettings
from tidings_sinks.transactions.units import Place, Transaction

Reaches = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, Reach]]

_log = get_logger(__name__)


class Losses:
    """Those of one assembly. Times are seconds of any monotonic clock.

    Args:
        places: the partitions that are read.
    """

    def __init__(self, settings: TransactionSettings, places: Mapping[TopicPartition, Place]) -> None:
        self._settings, self._places = settings, places
        self._without_end: list[tuple[int, int, Transaction]] = []
        """A heap of (position that the end cannot be before, number, transaction) of those whose rows came first."""
        self._count = 0
        self.waits = False
        """Whether the next transaction has to wait for rows of one before it whose end is lost."""

    # Without an end

    def began(self, transaction: Transaction) -> None:
        """A transaction's first row was read."""
        begin = transaction.begin
        if transaction.end is None and begin is not None:
            self._count += 1
            key = max(begin.last_commit or 0, begin.position or 0)
            heappush(self._without_end, (key, self._count, transaction))

    def without_end(self, position: int, reaches: Reaches) -> Iterator[Transaction]:
        """Transactions that were committed before a position and whose end has not come: commits are serial, and so are their
        ends, so that it never will.

        Raises:
            TransactionError: they are not to be written.
        """
        heap = self._without_end
        self.waits = False
        while heap and heap[0][0] < position:
            transaction = heap[0][2]
            if not transaction.done and transaction.end is None:
                if not self._settings.writes_incomplete:
                    raise self._no_end(transaction)
                self.waits = not self._read_beyond(position, reaches)
                if self.waits:
                    return
                _log.warning(
                    "a transaction whose end is gone is written as it is",
                    transaction=transaction.text,
                    rows=len(transaction.rows),
                )
                heappop(heap)
                yield transaction
            else:
                heappop(heap)

    def _read_beyond(self, position: int, reaches: Reaches) -> bool:
        """Whether no row can be unread of what was committed before a position."""
        topic = self._settings.topic
        unsure = [
            at for at, place in self._places.items() if at.topic != topic and place.latest_commit < position
        ]
        return not unsure or is_read(unsure, reaches)

    def _no_end(self, transaction: Transaction) -> TransactionError:
        where = ", ".join(f"{at.topic}, partition {at.partition}" for at in sorted(transaction.partitions))
        return TransactionError(
            f"transaction {transaction.text} has rows in {where}, and no end in {self._settings.topic}, although later"
            " transactions have theirs: it was let go of (retention), or the reading began within the transaction",
            hint=f"keep {self._settings.topic} for as long as the topics of rows; to go on, set {INCOMPLETE}=write, which"
            " writes what is there of such transactions, or take a new snapshot and reset the connector's offsets",
        )

    # Without rows

    def gives_up(
        self,
        head: Transaction,
        now: float,
        changed_at: float,
        reaches: Reaches,
    ) -> bool:
        """Whether a transaction that lacks rows is to be written as it is.

        Args:
            changed_at: when partitions were assigned last.

        Raises:
            TransactionError: it lacks them for good, and is not to be written.
        """
        unsure = self._unsure(head)
        if unsure is None:
            return False
        if unsure:
            waited = now - max(head.ended_at, changed_at)
            if waited < self._settings.wait_seconds or not is_read(unsure, reaches):
                return False
        lacks = ", ".join(f"{count} rows of {name}" for name, count in sorted(head.short.items()))
        if self._settings.writes_incomplete:
            _log.warning(
                "a transaction whose rows are gone is written without them",
                transaction=head.text,
                lacks=lacks,
            )
            return True
        unread = {at.topic: place.unreadable for at, place in self._places.items() if place.unreadable}
        told = "".join(f"; {count} records of {topic} could not be read" for topic, count in unread.items())
        raise TransactionError(
            f"transaction {head.text} lacks {lacks}, although their partitions were read beyond it{told}",
            hint="rows that retention or compaction has removed, or that a transform of the source has dropped, never come: to"
            f" go on, set {INCOMPLETE}=write, which writes such transactions without them, or take a new snapshot",
        )

    def _unsure(self, head: Transaction) -> list[TopicPartition] | None:
        """The partitions in which its rows may still be unread; None where none of a collection is this task's."""
        assert head.end is not None
        unsure = []
        for collection in head.short:
            found = [at for at in self._places if self._settings.carries(at.topic, collection)]
            if not found:
                return None
            unsure += [at for at in found if self._places[at].latest_commit < head.end]
        return unsure


def is_read(partitions: Collection[TopicPartition], reaches: Reaches) -> bool:
    """Whether partitions were read to their ends."""
    found = reaches(partitions)
    return all(at in found and found[at].passed >= found[at].end for at in partitions)
