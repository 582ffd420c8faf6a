"""Derives from a domain whose a table's rows are, what they refer to, and which of its columns are needed."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from tidings_domain.aggregate.uses import Role, TableUse, child_uses
from tidings_domain.errors import RowError
from tidings_domain.language.model import Row
from tidings_domain.loading.domain import Domain
from tidings_domain.routing.nesting import NestedRows
from tidings_envelope.envelope import Envelope


class Table:
    """What the domain does with one table."""

    def __init__(self, table: str, domain: Domain, nested_rows: NestedRows) -> None:
        uses = domain.tables[table]
        self.table = table
        self.key = uses[0].key
        self.nested = nested_rows.uses(table)
        self.roots = tuple(use for use in uses if use.role is Role.ROOT)
        self.children = tuple(
            # Where the root's key is part of the child's own, nothing needs to be remembered.
            (use, not set(use.by) <= set(use.key))
            for use in uses
            if use.role is Role.CHILD and use not in self.nested
        )
        self.referred = any(use.role is Role.REFERENCE for use in uses)
        self.kept = {use.key for use in uses if use.role is Role.REFERENCE or use in self.nested}
        """The key of a table of which rows are remembered."""
        self.references = domain.references.get(table, ())
        self.columns = _columns(table, uses, self.references, domain)
        ways = [use.by for use in self.roots]
        ways += [use.key if remembered else use.by for use, remembered in self.children]
        self.named_by = frozenset(column for way in (*ways, *self.kept) for column in way)
        """Without these columns nobody knows whose row it is."""
        self.placed_by = self.named_by.union(
            *(use.by for use, _ in self.children), *(use.by for use in self.nested)
        )
        """And a row that is there needs these, too."""


class Branch(NamedTuple):
    """A reference that rows of an aggregate hold, and those of the row that it leads to."""

    table: str
    by: tuple[str, ...]
    branches: tuple["Branch", ...]


def _branches(row: type[Row]) -> tuple[Branch, ...]:
    return tuple(
        Branch(relation.row.__table__, relation.by, _branches(relation.row))
        for relation in row.__relations__.values()
        if relation.kind == "reference"
    )


def references_of(domain: Domain) -> dict[tuple[str, str], tuple[Branch, ...]]:
    """Aggregate and table to the references of its root or child rows."""
    found: dict[tuple[str, str], tuple[Branch, ...]] = {}
    for aggregate in domain.aggregates.values():
        for row in (aggregate, *(child.row for child in child_uses(aggregate))):
            place = (aggregate.__name__, row.__table__)
            branches = (*found.get(place, ()), *_branches(row))
            if branches:
                found[place] = branches
    return found


def row_without(table: Table, envelope: Envelope, missing: Iterable[str]) -> RowError:
    source = envelope.source
    where = "a snapshot" if envelope.transaction is None else f"transaction {envelope.transaction.id}"
    return RowError(
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
        for relation in cls.__relations__.values():
            todo.append(relation.row)
            if relation.kind == "children" and relation.row.__table__ == table:
                found |= dict.fromkeys(relation.by)
        if cls.__table__ == table:
            names = {field.name: field.encode_name for field in msgspec.structs.fields(cls)}
            found |= {column: None for name, column in names.items() if name not in cls.__relations__}
    return tuple(found)
