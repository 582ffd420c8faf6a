"""From a complete transaction to what it did to each aggregate. Pure, but for what it remembers in `Memory`.

A row goes to every aggregate that has its table as root or child. A child row finds its root by its own columns where
it can; a delete carries only the key, so then, and for the root it has left, what was remembered counts. Referenced rows
are attached as of the commit: all rows of the transaction are remembered before its change sets are made.
"""

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from tidings_envelope.envelope import Envelope
from tidings_translator.changes import ChangeSet, RowChange, identity
from tidings_translator.domain import Domain, Role, TableUse
from tidings_translator.errors import SequenceError
from tidings_translator.memory import Memory
from tidings_translator.model import Row
from tidings_translator.spill import Buckets, RoutedRow
from tidings_translator.transactions import CompleteTransaction, SnapshotRow

_Row = dict[str, Any]
_References = dict[str, dict[str, _Row]]

_UNAVAILABLE = "__debezium_unavailable_value"
_ROW_OPS = frozenset("cudr")


class _Table:
    """What the domain does with one table."""

    def __init__(self, table: str, domain: Domain) -> None:
        uses = domain.tables[table]
        self.table = table
        self.roots = tuple(use for use in uses if use.role is Role.ROOT)
        self.children = tuple(
            # Where the root's key is part of the child's own, nothing needs to be remembered.
            (use, not set(use.by) <= set(use.key))
            for use in uses
            if use.role is Role.CHILD
        )
        self.referred = {use.key for use in uses if use.role is Role.REFERENCE}
        self.references = domain.references.get(table, ())
        self.columns = _columns(table, uses, self.references, domain)
        ways = [use.by for use in self.roots]
        ways += [use.key if remembered else use.by for use, remembered in self.children]
        self.named_by = frozenset(column for way in (*ways, *self.referred) for column in way)
        """Without these columns nobody knows whose row it is."""
        self.placed_by = self.named_by.union(*(use.by for use, _ in self.children))
        """And a row that is there needs these, too."""


class Router:
    """Makes change sets of one domain."""

    def __init__(self, domain: Domain, memory: Memory) -> None:
        self._memory = memory
        self._tables = {table: _Table(table, domain) for table in domain.tables}

    def change_sets(self, transaction: CompleteTransaction) -> list[ChangeSet]:
        """One change set for each aggregate that the transaction touched, by first touch.

        Raises:
            SequenceError: a row lacks a column by which the domain knows whose it is.
        """
        rows = list(self._mapped(transaction.rows))
        if not rows:
            return []
        self._remember(rows)
        source = next(iter(transaction.rows)).source
        return self._gather(
            (
                (aggregate, root, table, change)
                for table, change in rows
                for aggregate, root in self._aggregates(table, change)
            ),
            commit_lsn=transaction.commit_lsn,
            txid=transaction.txid,
            ts_us=source.ts_us or source.ts_ms * 1000,
            snapshot=False,
        )

    def parts(
        self, transaction: CompleteTransaction, directory: Path | None, count: int
    ) -> Generator[list[ChangeSet]]:
        """As `change_sets`, of a transaction whose rows are on disk: in `count` parts, of which one is in memory.

        All of the transaction is remembered before the first part comes. The same rows and the same memory give the same
        parts; an aggregate is in one of them as a whole.

        Raises:
            SequenceError: the disk is full or not writable, or a row lacks a column by which the domain knows whose it is.
        """
        self._remember(self._mapped(transaction.rows))
        buckets = Buckets(directory, count)
        try:
            for table, change in self._mapped(transaction.rows):
                for aggregate, root in self._aggregates(table, change):
                    number = crc32(f"{aggregate}/{root}".encode()) % count
                    buckets.add(number, RoutedRow(aggregate, root, change))
            source = next(iter(transaction.rows)).source
            tables = self._tables
            for number in range(count):
                yield self._gather(
                    (
                        (row.aggregate, row.id, tables[row.change.table], row.change)
                        for row in buckets.read(number)
                    ),
                    commit_lsn=transaction.commit_lsn,
                    txid=transaction.txid,
                    ts_us=source.ts_us or source.ts_ms * 1000,
                    snapshot=False,
                )
        finally:
            buckets.close()

    def _mapped(self, envelopes: Iterable[Envelope]) -> Iterator[tuple[_Table, RowChange]]:
        """The row changes of tables that the domain has."""
        tables = self._tables
        for envelope in envelopes:
            table = tables.get(envelope.source.qualified_table)
            if table is not None and envelope.op in _ROW_OPS:
                yield table, self._change(table, envelope)

    def snapshot_row(self, row: SnapshotRow) -> list[ChangeSet]:
        """The change sets of one row that a snapshot read."""
        envelope = row.envelope
        table = self._tables.get(envelope.source.qualified_table)
        if table is None or envelope.after is None:
            return []
        change = self._change(table, envelope)
        self._remember([(table, change)])
        source = envelope.source
        # An incremental snapshot's rows have no LSN: they are as new as the last commit.
        lsn = source.lsn if source.lsn is not None else self._memory.progress.commit_lsn or 0
        routed = [(aggregate, root, table, change) for aggregate, root in self._aggregates(table, change)]
        return self._gather(
            routed, commit_lsn=lsn, txid=None, ts_us=source.ts_us or source.ts_ms * 1000, snapshot=True
        )

    def learn(self, envelopes: Iterable[Envelope]) -> None:
        """Remember rows of a transaction that is not translated: they were committed all the same."""
        for table, change in self._mapped(envelopes):
            self._remember([(table, change)])
            for use, remembered in table.children:
                self._roots_of(use, change, remembered=remembered)

    def _change(self, table: _Table, envelope: Envelope) -> RowChange:
        transaction = envelope.transaction
        columns = table.columns
        before, after = envelope.before, envelope.after
        row, needed = (before, table.named_by) if after is None else (after, table.placed_by)
        if row is None or not needed <= row.keys():
            raise _without(table, envelope, needed - (row or {}).keys())
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

    def _remember(self, rows: Iterable[tuple[_Table, RowChange]]) -> None:
        memory = self._memory
        for table, change in rows:
            for columns in table.referred:
                after = change.after
                if change.op == "d" or after is None:
                    if change.before is not None:
                        memory.set_row(change.table, identity(change.before, columns), None)
                    continue
                key = identity(after, columns)
                if _UNAVAILABLE in after.values():
                    known = memory.row(change.table, key) or {}
                    after = {n: known.get(n, v) if v == _UNAVAILABLE else v for n, v in after.items()}
                memory.set_row(change.table, key, after)

    def _gather(
        self,
        routed: Iterable[tuple[str, str, _Table, RowChange]],
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
            if table.references and change.after is not None:
                self._refer(table, change.after, aggregate, found[1])
        return [
            ChangeSet(aggregate, root, commit_lsn, txid, ts_us, snapshot, tuple(changes), references)
            for (aggregate, root), (changes, references) in gathered.items()
        ]

    def _aggregates(self, table: _Table, change: RowChange) -> Iterable[tuple[str, str]]:
        """Aggregate and id of every aggregate that the row change touches."""
        row = change.after if change.after is not None else change.before
        assert row is not None
        found = [(use.aggregate, identity(row, use.by)) for use in table.roots]
        for use, remembered in table.children:
            found += [(use.aggregate, root) for root in self._roots_of(use, change, remembered=remembered)]
        return found

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

    def _refer(self, table: _Table, row: _Row, aggregate: str, references: _References) -> None:
        """Attach the rows that `row` refers to, and those that they refer to."""
        for use in table.references:
            if use.aggregate != aggregate or any(row.get(column) is None for column in use.by):
                continue
            key = identity(row, use.by)
            rows = references.setdefault(use.table, {})
            if key in rows:
                continue
            known = self._memory.row(use.table, key)
            if known is not None:
                rows[key] = known
                self._refer(self._tables[use.table], known, aggregate, references)


def _without(table: _Table, envelope: Envelope, missing: Iterable[str]) -> SequenceError:
    source = envelope.source
    where = "a snapshot" if envelope.transaction is None else f"transaction {envelope.transaction.id}"
    return SequenceError(
        f"a row of {table.table} in {where} (LSN {source.lsn}) has no {', '.join(sorted(missing))}, by which the domain"
        " knows whose row it is",
        hint="capture leaves the column out, the table's replica identity does not have it, or the domain names a column"
        " that the table has not",
    )


def declared_columns(domain: Domain, table: str) -> tuple[str, ...]:
    """The columns of a table that the domain declares or needs to find its way."""
    return _columns(table, domain.tables[table], domain.references.get(table, ()), domain)


def _columns(
    table: str, uses: Iterable[TableUse], references: Iterable[TableUse], domain: Domain
) -> tuple[str, ...]:
    """The columns of a table that the domain declares or needs to find its way; the others are left behind."""
    found: dict[str, None] = {}
    for use in uses:
        found |= dict.fromkeys(use.key)
        if use.role is not Role.REFERENCE:
            found |= dict.fromkeys(use.by)
    for use in references:
        found |= dict.fromkeys(use.by)
    todo: list[type[Row]] = list(domain.aggregates.values())
    while todo:
        cls = todo.pop()
        todo += [relation.row for relation in cls.__relations__.values()]
        if cls.__table__ == table:
            names = {field.name: field.encode_name for field in msgspec.structs.fields(cls)}
            found |= {column: None for name, column in names.items() if name not in cls.__relations__}
    return tuple(found)
