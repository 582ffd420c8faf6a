"""Turns a complete transaction into what it did to each aggregate. Pure, but for what it remembers in `Memory`.

A row goes to every aggregate that has its table as root or child. A child row finds its root by its own columns where
it can; a delete carries only the key, so then, and for the root it has left, what was remembered counts. Referenced rows
are attached as of the commit: all rows of the transaction are remembered before its change sets are made.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Any
from zlib import crc32

from tidings_domain.aggregate.uses import TableUse
from tidings_domain.changes import ChangeSet, RowChange, identity
from tidings_domain.loading.domain import Domain
from tidings_domain.routing.memory import Memory, Waiting
from tidings_domain.routing.nesting import NestedRows
from tidings_domain.routing.record_sizes import MAX_VALUE_BYTES
from tidings_domain.routing.tables import Branch, Table, references_of, row_without
from tidings_domain.routing.transactions import (
    AT_THE_BEGINNING,
    Buckets,
    CompleteTransaction,
    SnapshotRow,
    StreamPosition,
    TooLarge,
)
from tidings_envelope.envelope import Envelope
from tidings_envelope.position import place_in_stream
from tidings_envelope.toast import has_unavailable, without_unavailable

_Row = dict[str, Any]
_References = dict[str, dict[str, _Row]]

_ROW_OPS = frozenset("cudr")


class Router:
    """Makes change sets of one domain.

    Args:
        domain: with the aggregates.
        memory: as it was restored.
        stream: where the stream of transactions is by now.
    """

    def __init__(self, domain: Domain, memory: Memory, stream: StreamPosition = AT_THE_BEGINNING) -> None:
        self._memory = memory
        self._stream = stream
        self._nested_rows = NestedRows(domain, memory)
        self._held = references_of(domain)
        self.too_many_wait = False
        """Some rows of a snapshot were not kept to wait for what they refer to."""
        self.warned_of_waiting = False
        """Somebody was told, which once is enough."""
        self._truncated: dict[str, int | None] = {}
        self._too_large: dict[tuple[str, str], int] = {}
        self._snapshot_aggregates = {rule.aggregate.__name__ for rule in domain.rules if rule.snapshot}
        """Those about which a rule speaks when a snapshot has read them."""
        self._tables = {table: Table(table, domain, self._nested_rows) for table in domain.tables}

    def change_sets(self, transaction: CompleteTransaction) -> list[ChangeSet]:
        """One change set for each aggregate that the transaction touched, by first touch.

        Raises:
            RowError: a row lacks a column by which the domain knows whose it is.
        """
        rows = list(self._mapped(transaction.rows))
        if not rows:
            return []
        self._end_snapshot()
        origins = self._nested_rows.begin(change for _, change in rows) if self._nested_rows else {}
        self._remember(rows)
        source = next(iter(transaction.rows)).source
        return self._gather(
            self._routed(rows, origins),
            commit_lsn=transaction.commit_lsn,
            txid=transaction.txid,
            ts_us=source.ts_us or source.ts_ms * 1000,
            snapshot=transaction.silent,
        )

    def parts(
        self, transaction: CompleteTransaction, buckets: Buckets
    ) -> Generator[list[ChangeSet | TooLarge]]:
        """As `change_sets`, of a transaction whose rows are on disk: in as many parts as there are buckets, of which one is in
        memory. The buckets are closed at the end.

        All of the transaction is remembered before the first part comes. The same rows and the same memory give the same
        parts; an aggregate is in one of them as a whole, or as `TooLarge` where its rows fit into no record.

        Raises:
            RowError: a row lacks a column by which the domain knows whose it is.
            Exception: whatever the buckets raise, where their disk is full or not writable.
        """
        count = len(buckets)
        try:
            self._end_snapshot()
            origins: dict[tuple[str, str, str], str | None] = {}
            if self._nested_rows:
                origins = self._nested_rows.begin(change for _, change in self._mapped(transaction.rows))
            self._remember(self._mapped(transaction.rows))
            for aggregate, root, _, change in self._routed(self._mapped(transaction.rows), origins):
                buckets.add(crc32(f"{aggregate}/{root}".encode()) % count, aggregate, root, change)
            source = next(iter(transaction.rows)).source
            for number in range(count):
                yield self._part(transaction, buckets, number, source.ts_us or source.ts_ms * 1000)
        finally:
            buckets.close()

    def _part(
        self, transaction: CompleteTransaction, buckets: Buckets, number: int, ts_us: int
    ) -> list[ChangeSet | TooLarge]:
        too_large: dict[tuple[str, str], int] = {}
        sets = self._gather(
            (
                (aggregate, root, self._tables[change.table], change)
                for aggregate, root, change in buckets.read(number, MAX_VALUE_BYTES, too_large)
            ),
            commit_lsn=transaction.commit_lsn,
            txid=transaction.txid,
            ts_us=ts_us,
            snapshot=transaction.silent,
        )
        return [
            one
            if (size := too_large.get((one.aggregate, one.id))) is None
            else TooLarge(one.aggregate, one.id, one.commit_lsn, one.txid, size)
            for one in sets
        ]

    def _mapped(self, envelopes: Iterable[Envelope]) -> Iterator[tuple[Table, RowChange]]:
        """The row changes of tables that the domain has."""
        tables = self._tables
        for envelope in envelopes:
            table = tables.get(envelope.source.qualified_table)
            if table is None:
                continue
            if envelope.op in _ROW_OPS:
                yield table, self._change(table, envelope)
            elif envelope.op == "t":
                self._truncated[table.table] = envelope.source.lsn

    def snapshot_row(self, row: SnapshotRow) -> list[ChangeSet]:
        """The change sets of one row that a snapshot read, or that an incremental one found gone (op ``d``)."""
        envelope = row.envelope
        table = self._tables.get(envelope.source.qualified_table)
        if table is None or envelope.op not in _ROW_OPS:
            return []
        change = self._change(table, envelope)
        origins = self._nested_rows.begin([change]) if table.nested else {}
        self._remember([(table, change)])
        routed = list(self._routed([(table, change)], origins))
        if envelope.after is not None:
            if row.begins_anew:
                routed = list(self._without_children(routed, envelope.after))
            routed += self._waited(table, envelope.after)
        source = envelope.source
        lsn = row.commit_lsn
        if lsn is None and source.snapshot == "incremental":
            # It comes out behind all that its partition has before it, so of its key nothing is between its own place and
            # where the stream is by now. Of other rows of its aggregates there may be, on either side.
            lsn = self._stream.commit_lsn
        if lsn is None:
            place = place_in_stream(source.snapshot or "true", source.last_commit_lsn, source.lsn or 0)
            lsn = place.last_commit_lsn
        return self._gather(
            routed, commit_lsn=lsn, txid=None, ts_us=source.ts_us or source.ts_ms * 1000, snapshot=True
        )

    def _without_children(
        self, routed: list[tuple[str, str, Table, RowChange]], row: _Row
    ) -> Iterator[tuple[str, str, Table, RowChange]]:
        """A root's row of a snapshot with which the stream begins anew: what was known below it may be gone, and what is not
        is read behind it. Where a rule speaks about what snapshots read, all of that would be its news; there it stays."""
        for aggregate, root, table, change in routed:
            uses = (use for use in table.roots if use.aggregate == aggregate)
            if aggregate not in self._snapshot_aggregates and any(identity(row, u.by) == root for u in uses):
                yield aggregate, root, table, RowChange(change.table, "d", row, None)
            yield aggregate, root, table, change

    def _waited(self, table: Table, row: _Row) -> Iterator[tuple[str, str, Table, RowChange]]:
        """The rows that a snapshot has read before this one, which they refer to: told again."""
        if not table.referred or not self._memory.awaits:
            return
        for one in self._memory.take_waiting(table.table, identity(row, table.key)):
            if one.table in self._tables:
                yield (
                    one.aggregate,
                    one.root,
                    self._tables[one.table],
                    RowChange(one.table, "r", None, one.row),
                )

    def _end_snapshot(self) -> None:
        """Before a transaction: it comes behind all rows of the snapshot before it."""
        if self._memory.awaits and not self._stream.snapshot_open:
            self._memory.forget_waiting()

    def take_truncated(self) -> dict[str, int | None]:
        """Tables of the domain that were emptied by TRUNCATE since the last call, with the LSN. Nothing says which rows they
        had, so their aggregates stay as they were, until somebody deletes them or begins a new generation."""
        taken, self._truncated = self._truncated, {}
        return taken

    def take_too_large(self) -> dict[tuple[str, str], int]:
        """Rows that others refer to, by table and key, which fit into no record of the memory, with their sizes in bytes; since
        the last call. Whoever refers to one goes without."""
        taken, self._too_large = self._too_large, {}
        return taken

    def learn(self, envelopes: Iterable[Envelope], *, may_be_old: bool = False) -> None:
        """Remember rows of a transaction that is not translated: they were committed all the same.

        Args:
            may_be_old: what is known of their keys may be newer than they are, and stays; only of others they tell.
        """
        for table, change in self._mapped(envelopes):
            if may_be_old and self._is_known(table, change):
                continue
            self._remember([(table, change)])
            for use, remembered in table.children:
                self._roots_of(use, change, remembered=remembered)

    def _is_known(self, table: Table, change: RowChange) -> bool:
        """Whether anything is remembered of a row; what a delete tells cannot be told from what is not known."""
        row, memory = change.after, self._memory
        if row is None or change.op == "d":
            return True
        return any(
            memory.row(change.table, identity(row, columns)) is not None for columns in table.kept
        ) or any(
            memory.root(use.aggregate, use.table, identity(row, use.key)) is not None
            for use, remembered in table.children
            if remembered
        )

    def check(self, envelope: Envelope) -> None:
        """Whether a row says whose it is: asked when it comes in, so that only its own transaction is lost if not.

        Raises:
            RowError: it lacks a column by which the domain knows that.
        """
        table = self._tables.get(envelope.source.qualified_table)
        if table is None or envelope.op not in _ROW_OPS:
            return
        after = envelope.after
        row, needed = (envelope.before, table.named_by) if after is None else (after, table.placed_by)
        if row is None or not needed <= row.keys():
            raise row_without(table, envelope, needed - (row or {}).keys())

    def _change(self, table: Table, envelope: Envelope) -> RowChange:
        self.check(envelope)
        transaction = envelope.transaction
        columns = table.columns
        before, after = envelope.before, envelope.after
        if before is not None and len(before) > len(columns):
            before = {name: before[name] for name in columns if name in before}
        if after is not None and len(after) > len(columns):
            after = {name: after[name] for name in columns if name in after}
        return RowChange(
            table.table,
            envelope.op,  # type: ignore[arg-type]  # one of the four: the callers have looked
            before,
            after,
            0 if transaction is None else transaction.total_order,
        )

    def _remember(self, rows: Iterable[tuple[Table, RowChange]]) -> None:
        memory = self._memory
        for table, change in rows:
            for columns in table.kept:
                row = change.after if change.op != "d" else None
                known_by = row if row is not None else change.before
                if known_by is None:
                    continue
                key = identity(known_by, columns)
                old = memory.row(change.table, key)
                if row is not None and has_unavailable(row):
                    row = without_unavailable(row, old or {})
                if row is not None and (size := memory.too_large(row)) is not None:
                    # An older one would be wrong: who refers to it has none, which rules are prepared for.
                    self._too_large[change.table, key] = size
                    row = None
                memory.set_row(change.table, key, row)
                if table.nested:
                    self._nested_rows.remembered(change.table, key, old)

    def _routed(
        self, rows: Iterable[tuple[Table, RowChange]], origins: dict[tuple[str, str, str], str | None]
    ) -> Iterator[tuple[str, str, Table, RowChange]]:
        """Every change with each aggregate and root that it goes to."""
        for table, change in rows:
            for aggregate, root in self._aggregates(table, change):
                yield aggregate, root, table, change
            if table.nested:
                for aggregate, root, moved in self._nested_rows.routed(change, origins):
                    yield aggregate, root, self._tables[moved.table], moved

    def _gather(
        self,
        routed: Iterable[tuple[str, str, Table, RowChange]],
        *,
        commit_lsn: int,
        txid: int | None,
        ts_us: int,
        snapshot: bool,
    ) -> list[ChangeSet]:
        gathered: dict[tuple[str, str], tuple[list[RowChange], _References]] = {}
        for aggregate, root, table, change in routed:
            found = gathered.get((aggregate, root))
            if found is None:
                found = gathered[aggregate, root] = ([], {})
            found[0].append(change)
            after = change.after
            if table.references and after is not None:
                for unknown in self._refer(self._held.get((aggregate, table.table), ()), after, found[1]):
                    if snapshot:
                        key = identity(after, table.key)
                        waiting = Waiting(aggregate, root, table.table, key, after)
                        self.too_many_wait |= not self._memory.wait(*unknown, waiting)
        return [
            ChangeSet(aggregate, root, commit_lsn, txid, ts_us, snapshot, tuple(changes), references)
            for (aggregate, root), (changes, references) in gathered.items()
        ]

    def _aggregates(self, table: Table, change: RowChange) -> Iterable[tuple[str, str]]:
        """Aggregate and id of every aggregate that the row change touches."""
        row = change.after if change.after is not None else change.before
        assert row is not None
        found = [(use.aggregate, identity(row, use.by)) for use in table.roots]
        for use, remembered in table.children:
            found += [(use.aggregate, root) for root in self._roots_of(use, change, remembered=remembered)]
        # A row of a table that is root and child of one aggregate may be its own parent.
        return found if len(found) < 2 else dict.fromkeys(found)

    def _roots_of(self, use: TableUse, change: RowChange, *, remembered: bool) -> list[str]:
        """The root that a child row belongs to, and the one it has left."""
        after, before = change.after, change.before
        if not remembered:
            row = after if after is not None else before
            assert row is not None
            return [identity(row, use.by)]
        memory = self._memory
        if after is None:
            assert before is not None
            key = identity(before, use.key)
            left = memory.root(use.aggregate, use.table, key)
            memory.set_root(use.aggregate, use.table, key, None)
            return [] if left is None else [left]
        key = identity(after, use.key)
        left = memory.root(use.aggregate, use.table, key)
        if any(after.get(column) is None for column in use.by):
            root = None
        else:
            root = identity(after, use.by)
        memory.set_root(use.aggregate, use.table, key, root)
        return [one for one in dict.fromkeys((left, root)) if one is not None]

    def _refer(
        self, held: tuple[Branch, ...], row: _Row, references: _References
    ) -> Iterator[tuple[str, str]]:
        """Attach the rows that `row` refers to, and those that they refer to; table and key of what is not known."""
        for branch in held:
            if any(row.get(column) is None for column in branch.by):
                continue
            key = identity(row, branch.by)
            rows = references.setdefault(branch.table, {})
            known = rows.get(key)
            if known is None:
                known = self._memory.row(branch.table, key)
                if known is None:
                    yield branch.table, key
                    continue
                rows[key] = known
            elif not branch.branches:
                continue
            yield from self._refer(branch.branches, known, references)
