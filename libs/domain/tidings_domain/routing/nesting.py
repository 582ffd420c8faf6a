"""Finds the roots of children of children that hold no root's key, and what moves along when a row above them moves.

The rows of such tables, and of the tables above them, are kept in `Memory` with their declared columns: a transaction that
moves a child to another root says nothing about the child's own children, but these go with it. Rows that came before the
row above them (in a snapshot, or where no foreign key stands guard) are kept too, and follow when it comes.

For each transaction: `NestedRows.begin` notes where its rows belonged, the rows are remembered, and `NestedRows.routed` tells
where they belong now. A root's change set gets the changes of rows that it had, has, or receives with a row above them.
"""

from collections.abc import Iterable, Iterator

from tidings_domain.aggregate.uses import Role, TableUse, root_of
from tidings_domain.changes import Op, RowChange, identity
from tidings_domain.loading.domain import Domain
from tidings_domain.routing.memory import Memory

_Place = tuple[str, str, str]
"""Aggregate, table, key."""


class NestedRows:
    """See the module's text. One per `Memory`, made when that has been restored."""

    def __init__(self, domain: Domain, memory: Memory) -> None:
        uses = [use for found in domain.tables.values() for use in found if use.role is Role.CHILD]
        self._memory = memory
        self._under: dict[tuple[str, str], list[TableUse]] = {}
        """Aggregate and table to the uses whose `above` it is."""
        for use in uses:
            if use.above is not None:
                self._under.setdefault((use.aggregate, use.above.table), []).append(use)
        self._uses: dict[str, tuple[TableUse, ...]] = {}
        for use in uses:
            if use.above is not None or (use.aggregate, use.table) in self._under:
                self._uses[use.table] = (*self._uses.get(use.table, ()), use)
        self._ways = {
            table: tuple({use.by for use in uses if use.above is not None})
            for table, uses in self._uses.items()
        }
        self._rows_under: dict[tuple[str, tuple[str, ...]], dict[str, set[str]]] = {
            (table, way): {} for table, ways in self._ways.items() for way in ways
        }
        for table, ways in self._ways.items():
            for key, row in memory.rows(table) if ways else ():
                self._index(table, key, None, row)

    def __bool__(self) -> bool:
        return bool(self._uses)

    def uses(self, table: str) -> tuple[TableUse, ...]:
        """The uses of a table that are looked after here."""
        return self._uses.get(table, ())

    def remembered(self, table: str, key: str, old: dict[str, object] | None) -> None:
        """A row has just been put into the memory, or out of it; `old` is what was there."""
        self._index(table, key, old, self._memory.row(table, key))

    def _index(
        self, table: str, key: str, old: dict[str, object] | None, new: dict[str, object] | None
    ) -> None:
        for way in self._ways.get(table, ()):
            index = self._rows_under[table, way]
            was, now = _above(old, way), _above(new, way)
            if was != now:
                if was is not None and was in index:
                    index[was].discard(key)
                    if not index[was]:
                        del index[was]
                if now is not None:
                    index.setdefault(now, set()).add(key)

    def begin(self, changes: Iterable[RowChange]) -> dict[_Place, str | None]:
        """Where the changed rows belong before the transaction; call it before any of them is remembered."""
        origins: dict[_Place, str | None] = {}
        for change in changes:
            for use in self._uses.get(change.table, ()):
                place = (use.aggregate, use.table, _key(use, change))
                if place not in origins:
                    origins[place] = self._root(use, place[2])
        return origins

    def routed(
        self, change: RowChange, origins: dict[_Place, str | None]
    ) -> Iterator[tuple[str, str, RowChange]]:
        """Aggregate and root for a change of a row, and for the unchanged rows that follow it to another root."""
        for use in self._uses.get(change.table, ()):
            key = _key(use, change)
            origin = origins[use.aggregate, use.table, key]
            root = self._root(use, key)
            for one in dict.fromkeys((origin, root)):
                if one is not None:
                    yield use.aggregate, one, change
            if root is not None and root != origin:
                for table, row in self._followers(use, key, origins):
                    # In a snapshot the message must be one of a snapshot throughout.
                    op: Op = "r" if change.op == "r" else "u"
                    yield use.aggregate, root, RowChange(table, op, None, row, change.ordinal)

    def _root(self, use: TableUse, key: str) -> str | None:
        row = self._memory.row(use.table, key)
        return None if row is None else root_of(use, row, self._memory.row)

    def _followers(
        self, use: TableUse, key: str, origins: dict[_Place, str | None]
    ) -> Iterator[tuple[str, dict[str, object]]]:
        """The rows below one, but for those that the transaction itself has changed: they are on their way."""
        for lower in self._under.get((use.aggregate, use.table), ()):
            for found in sorted(self._rows_under[lower.table, lower.by].get(key, ())):
                row = self._memory.row(lower.table, found)
                if row is not None and (lower.aggregate, lower.table, found) not in origins:
                    yield lower.table, row
                    yield from self._followers(lower, found, origins)


def _key(use: TableUse, change: RowChange) -> str:
    row = change.after if change.after is not None else change.before
    assert row is not None
    return identity(row, use.key)


def _above(row: dict[str, object] | None, way: tuple[str, ...]) -> str | None:
    if row is None or any(row.get(column) is None for column in way):
        return None
    return identity(row, way)
