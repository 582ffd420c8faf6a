"""Decides which transactions are lost: rows and END markers that nobody could read, rows that capture failed on. Pure.

Where an unreadable record was is noted in `Progress`, so that a restart neither forgets nor doubles it. Whose row it was is
told by its neighbours: the rows of a partition are in commit order, so it belongs to no transaction that ended before the one
in front of it began, and when a later transaction's rows behind it are done, so is its own. A note is never more than an
explanation: who asks for one has seen that the rows can't come any more.
"""

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.progress import Progress, UnreadableRow
from tidings_translator.sequencer.assembly.transactions import OpenTransaction, Place


class Losses:
    """Decides what is given up, and keeps the notes of one source in its progress. Times are seconds of any monotonic clock.

    Args:
        progress: where they are kept.
        places: the partitions that are read.
        grace_seconds: how long after its END a transaction's rows may still be on their way to Kafka.
        give_up_seconds: how long a transaction may lack rows that nothing explains; None is for ever.
    """

    def __init__(
        self,
        progress: Progress,
        places: Mapping[Partition, Place],
        grace_seconds: float,
        give_up_seconds: float | None,
    ) -> None:
        self._progress = progress
        self._places = places
        self._grace_seconds = grace_seconds
        self._give_up_seconds = give_up_seconds
        self._without_end: list[tuple[int, int, OpenTransaction]] = []
        """A heap of (position that its END can't be before, number, transaction) of those whose END was not there first."""
        self._opened = 0

    # --- transactions that lack rows

    def given_up(self, head: OpenTransaction, now: float) -> str | None:
        """Why the next transaction is lost: what it lacks can't come any more, and that is explained, or it has waited long
        enough. None while it waits."""
        reason = self._told_by_capture(head)
        if reason is None:
            if now - head.ended_at < self._grace_seconds:
                return None
            if not head.ends and head.looked_at is None:
                head.wants_ends = any(place.table in head.needed for place in self._places.values())
            if head.wants_ends or self.unread(head):
                return None
            reason = self._explain(head)
        if reason is None:
            if head.looked_at is None:
                head.looked_at = now
            if self._give_up_seconds is None or now - head.looked_at < self._give_up_seconds:
                return None
            reason = (
                f"{in_words(head.short())} have not come in {now - head.ended_at:.0f} s, although all partitions of its"
                " tables were read to the end"
            )
        assert head.end_lsn is not None
        self._progress.give_up(head.txid, head.end_lsn)
        return reason

    def unread(self, head: OpenTransaction) -> dict[Partition, int]:
        """Partitions that must be read up to an offset before it can be given up."""
        return {p: end for p, end in head.ends.items() if self._places[p].next_offset < end}

    # --- transactions without an END

    def opened(self, transaction: OpenTransaction, lsn: int) -> None:
        """One whose first row, at this LSN, came before its END."""
        if transaction.last_commit_lsn is not None:
            self._opened += 1
            key = max(transaction.last_commit_lsn, lsn)
            heappush(self._without_end, (key, self._opened, transaction))

    def passed(self, position: int) -> Iterator[tuple[OpenTransaction, str | None]]:
        """Transactions before a commit LSN whose END was unreadable, or never came, and why they are lost; without a reason
        those that are older than the first transaction that is known of."""
        waiting = self._without_end
        while waiting and waiting[0][0] < position:
            transaction = heappop(waiting)[2]
            if transaction.done or transaction.end_lsn is not None:
                continue
            before = transaction.last_commit_lsn
            if self.in_gap(transaction.txid, before):
                yield transaction, "its END marker was unreadable"
            elif before is not None and before < self._progress.began_lsn:
                yield transaction, None
            else:
                yield transaction, "no END marker of it has come, although those of later transactions have"

    # --- unreadable records

    def note_row(self, partition: Partition, offset: int) -> bool:
        """An unreadable record of a table's topic; False when it was noted before a restart."""
        before = self._places[partition].latest
        return self._progress.note_row(
            partition, offset, 0 if before is None else before.last_commit_lsn or 0
        )

    def note_marker(self, offset: int, last_end_lsn: int) -> bool:
        """An unreadable record of the transaction topic, behind the END with this LSN; False when it was noted before."""
        return self._progress.note_gap(offset, last_end_lsn)

    def end_read(self, end_lsn: int) -> None:
        """An END that is new: what was unreadable before it was about earlier commits."""
        self._progress.end_gaps(end_lsn)

    def explains_end(self, end_lsn: int) -> bool:
        """Whether an END with this LSN may have been unreadable when it came first."""
        return any(
            gap.after < end_lsn and (gap.upto is None or end_lsn <= gap.upto) for gap in self._progress.gaps
        )

    def in_gap(self, txid: int, last_commit_lsn: int | None) -> bool:
        """Whether the END of a transaction behind this commit may be one that was unreadable."""
        if last_commit_lsn is None or txid in self._progress.finished:
            return False
        return any(
            gap.after <= last_commit_lsn and (gap.upto is None or last_commit_lsn < gap.upto)
            for gap in self._progress.gaps
        )

    def _told_by_capture(self, head: OpenTransaction) -> str | None:
        """Why it can't be complete, when capture has told so of every row that it lacks."""
        short, failed = head.short(), head.failed
        if not failed or any(count > failed.get(table, 0) for table, count in short.items()):
            return None
        return f"capture could not transform or convert {in_words(short)}, which is tolerated there"

    def _explain(self, head: OpenTransaction) -> str | None:
        """Why it can't be complete, when unreadable rows explain all that it lacks; they are forgotten then."""
        progress = self._progress
        used: list[UnreadableRow] = []
        assert head.end_lsn is not None
        for table, short in head.short().items():
            count = short - head.failed.get(table, 0)
            found = [one for one in progress.unreadable if self._may_be_of(one, table, head.end_lsn)]
            if len(found) < count:
                return None
            used += found[: max(count, 0)]
        if not used:
            return None
        progress.forget_rows(used)
        reason = f"unreadable rows at {', '.join(map(str, used))}"
        if head.failed:
            reason += f"; capture could not transform or convert {in_words(head.failed)}"
        return reason

    def _may_be_of(self, row: UnreadableRow, table: str, end_lsn: int) -> bool:
        place = self._places.get(row.at[0])
        return place is not None and place.table == table and row.after < end_lsn

    def finished(self, transaction: OpenTransaction) -> None:
        """All its rows are there: what was unreadable among or before them was nothing that anybody lacks."""
        progress = self._progress
        if progress.unreadable:
            places = transaction.places
            progress.forget_rows(
                [
                    one
                    for one in progress.unreadable
                    if (last := places.get(one.at[0])) is not None and one.offset <= last[1]
                ]
            )


def in_words(counts: Mapping[str, int]) -> str:
    """Numbers of rows by table, for people."""
    return ", ".join(f"{count} rows of {table}" for table, count in sorted(counts.items()))
