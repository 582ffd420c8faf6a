"""Tracks how far the sequencer has got: what must survive a restart besides the rows that it remembers.

`Progress` is the only owner of this state. Assembling changes it by the methods below and in no other way; who stores it
(`changelog`) and who reads it (the router, the gate, the commands) change nothing.
"""

from collections.abc import Container

import msgspec

from tidings_envelope.gtid import Gtid
from tidings_envelope.server_numbers import ServerNumbers
from tidings_translator.base.records import Partition

PROGRESS_KEY = b"progress"
"""The changelog's key of the progress; written in each of the sequencer's Kafka transactions."""
_FINISHED_KEPT = 256
_GAPS_KEPT = 64
_LOST_KEPT = 256


class UnreadableRow(msgspec.Struct, frozen=True, array_like=True):
    """Where a row was that nobody could read, and what is known of its transaction."""

    topic: str
    partition: int
    offset: int
    after: int = 0
    """The last commit before the transaction of the row in front of it, so its own is not before that."""

    @property
    def at(self) -> tuple[Partition, int]:
        return Partition(self.topic, self.partition), self.offset

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} offset {self.offset}"


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """Commit LSNs between which an unreadable marker was."""

    after: int
    upto: int | None = None
    """Included; None while no later END was read."""
    offset: int = -1
    """The marker's, in the transaction topic."""


class Beginning(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot with which a stream begins anew: the engine tells of nothing that was committed before it."""

    lsn: int
    """The position behind which the stream goes on; the snapshot's rows bear it."""
    after: int | None
    """The last commit that was told of before; None when there is none."""
    read_until_ms: int = 0
    """When its last row was read, by the connector's clock; 0 where all rows are as of `lsn`."""


class Progress(msgspec.Struct):
    """What must survive a restart; stored in the same Kafka transaction as what came out.

    Attributes:
        commit_lsn: of the last transaction that came out, None before the first.
        finished: txid to commit LSN of the last ones that came out, oldest first.
        began_lsn: commit LSN of the first END that was ever read.
        lost: txid to commit LSN of the last ones that were given up, oldest first.
        gaps: where unreadable markers were.
        unreadable: unreadable rows that no transaction was given up for yet.
        snapshot_open: snapshot rows came out, and it is not known yet that these were all.
        snapshot_lsn: the highest LSN of a snapshot's row.
        first_snapshot_lsn: of the rows of the stream's first snapshot; 0 where none was seen.
        beginning: the last snapshot with which the stream has begun anew.
        parts: (commit LSN, how many came out, of how many) of a transaction that is coming out in parts; its rows are
            read again after a restart, and give the same parts.
        part_sets: how many change sets of the part behind these came out, too.
        rows: ``topic/partition`` to (last commit LSN before it, LSN) of the last row; only where rows come out one by one.
        replication_domain: of the source's GTIDs (MariaDB), whose numbers do not compare with those of another; None before the first.
        last_of_server: MariaDB's server to the sequence of its last commit of which an END was read.
        servers_since: the sequence from which on `last_of_server` knows all; None before the first GTID.
    """

    commit_lsn: int | None = None
    finished: dict[int, int] = {}
    began_lsn: int = 0
    lost: dict[int, int] = {}
    gaps: list[Gap] = []
    unreadable: list[UnreadableRow] = []
    snapshot_open: bool = True
    snapshot_lsn: int = 0
    first_snapshot_lsn: int = 0
    beginning: Beginning | None = None
    parts: tuple[int, int, int] | None = None
    part_sets: int = 0
    rows: dict[str, tuple[int, int]] = {}
    replication_domain: int | None = None
    last_of_server: dict[int, int] = {}
    servers_since: int | None = None

    def note_domain(self, replication_domain: int | None) -> None:
        """GTIDs of this replication domain were read."""
        if self.replication_domain is None:
            self.replication_domain = replication_domain

    @property
    def server_numbers(self) -> ServerNumbers:
        """What is known of MariaDB's servers, with the dictionary of this progress."""
        return ServerNumbers(self.last_of_server, self.servers_since)

    def note_server(self, gtid: Gtid) -> None:
        """The END of a commit was read that is beyond all before it."""
        numbers = self.server_numbers
        numbers.note(gtid)
        self.servers_since = numbers.since

    # --- transactions

    def first_end(self, end_lsn: int) -> None:
        """The first END marker that was ever read has this commit LSN."""
        self.began_lsn = end_lsn

    def finish(self, txid: int, end_lsn: int) -> None:
        """A transaction came out, or was given up; its commit LSN is the stream's position now."""
        self.commit_lsn = end_lsn
        _put(self.finished, txid, end_lsn, _FINISHED_KEPT)

    def give_up(self, txid: int, end_lsn: int) -> None:
        """A transaction is given up."""
        _put(self.lost, txid, end_lsn, _LOST_KEPT)

    def single_row(self, place: str, at: tuple[int, int]) -> int | None:
        """A row came that is a transaction of its own, and where its partition is; its position, None for a repeated one.

        Args:
            place: ``topic/partition``.
            at: the last commit LSN before the row, 0 where it has none, and its LSN.
        """
        known = self.rows.get(place, (0, 0))
        # Before the first commit that a connector saw there is none to tell: such a row may come twice rather than never.
        if at[0] and at < known:
            return None
        self.rows[place] = max(known, at)
        self.commit_lsn = max((self.commit_lsn or 0) + 1, at[1], self.snapshot_lsn + 1)
        return self.commit_lsn

    # --- a transaction that comes out in parts

    def part_out(self, commit_lsn: int, done: int, count: int, sets: int) -> None:
        """Of `count` parts of the transaction `done` came out, and `sets` change sets of the next one."""
        self.parts = (commit_lsn, done, count)
        self.part_sets = sets

    def parts_done(self) -> None:
        """All parts came out."""
        self.parts = None

    # --- records that nobody could read

    def note_row(self, partition: Partition, offset: int, after: int) -> bool:
        """An unreadable row, behind the commit LSN `after`; False when it was noted before."""
        if any(one.at == (partition, offset) for one in self.unreadable):
            return False
        self.unreadable = [*self.unreadable, UnreadableRow(*partition, offset, after)]
        return True

    def forget_rows(self, gone: Container[UnreadableRow]) -> None:
        """These unreadable rows explain nothing any more."""
        self.unreadable = [one for one in self.unreadable if one not in gone]

    def note_gap(self, offset: int, after: int) -> bool:
        """An unreadable marker, behind the END with the LSN `after`; False when it was noted before."""
        if any(gap.offset == offset for gap in self.gaps):
            return False
        self.gaps = [*self.gaps, Gap(after, None, offset)][-_GAPS_KEPT:]
        return True

    def end_gaps(self, end_lsn: int) -> None:
        """An END that is new: what was unreadable before it was about earlier commits."""
        if any(gap.upto is None for gap in self.gaps):
            self.gaps = [
                Gap(gap.after, end_lsn, gap.offset) if gap.upto is None and gap.after < end_lsn else gap
                for gap in self.gaps
            ]

    # --- snapshots

    def first_snapshot(self, lsn: int) -> None:
        """The rows of the stream's first snapshot have this LSN, unless that is known already."""
        if not self.first_snapshot_lsn:
            self.first_snapshot_lsn = lsn

    def open_snapshot(self, lsn: int) -> None:
        """A snapshot's row with this LSN came; there may be more."""
        self.snapshot_open = True
        self.snapshot_lsn = max(self.snapshot_lsn, lsn)

    def close_snapshot(self) -> None:
        """All rows of the snapshot were read."""
        self.snapshot_open = False

    def begin_anew(self, beginning: Beginning) -> None:
        """A snapshot with which the stream begins anew, or more of the same."""
        self.beginning = beginning


def _put(kept: dict[int, int], txid: int, end_lsn: int, most: int) -> None:
    """Note the youngest transaction and forget the oldest beyond `most`."""
    kept.pop(txid, None)
    kept[txid] = end_lsn
    while len(kept) > most:
        del kept[next(iter(kept))]


def decode_progress(value: bytes) -> Progress:
    """The progress in its changelog record.

    Raises:
        msgspec.DecodeError: it is not such a record.
    """
    return msgspec.msgpack.decode(value, type=Progress)
