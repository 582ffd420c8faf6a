"""Proposes which tables are aggregates, which are their children, and what refers to what.

A table is taken as the child of another one when its rows cannot be without it: the foreign key is part of its own
primary key, or the rows go with the other's (ON DELETE CASCADE), or the foreign key is never null and nobody refers to
the table. A child may be a child's. Every other table with a primary key is the root of an aggregate. It is a proposal:
the reasons are told.
"""

from collections.abc import Iterable, Iterator

import msgspec

from tidings_domain.starting.naming import class_name, identifier, singular
from tidings_domain.starting.tables import Column, ForeignKey, Table


class Held(msgspec.Struct, frozen=True):
    """A reference of a row: the field, the foreign key, the class it leads to, and whether the database promises its row."""

    field: str
    key: ForeignKey
    cls: str
    required: bool = False


class Member(msgspec.Struct, frozen=True):
    """A class of the domain: a row that others refer to, a child, or an aggregate."""

    cls: str
    table: Table
    references: tuple[Held, ...] = ()


class Child(msgspec.Struct, frozen=True):
    """A child table of an aggregate, or of a child, and why it is taken as one."""

    field: str
    key: ForeignKey
    member: Member
    why: str
    children: tuple["Child", ...] = ()


class Proposed(msgspec.Struct, frozen=True):
    """An aggregate."""

    root: Member
    children: tuple[Child, ...]

    def descendants(self) -> Iterator[Child]:
        """The children with theirs, each before its own."""
        todo = list(self.children)
        while todo:
            child = todo.pop(0)
            yield child
            todo += child.children


class Proposal(msgspec.Struct, frozen=True):
    """A domain: the rows that are referred to, the aggregates, and what was left out, in words."""

    referred: tuple[Member, ...]
    aggregates: tuple[Proposed, ...]
    notes: tuple[str, ...]

    def of(self, aggregate: Proposed) -> "Proposal":
        """The part of it that one aggregate needs."""
        members = (aggregate.root, *(child.member for child in aggregate.descendants()))
        wanted = {held.cls for member in members for held in member.references}
        return Proposal(tuple(one for one in self.referred if one.cls in wanted), (aggregate,), ())


def propose(tables: Iterable[Table], roots: Iterable[str] = ()) -> Proposal:
    """A domain of these tables.

    Args:
        roots: tables that are to be aggregates, whatever they look like.
    """
    notes: list[str] = []
    usable = {}
    for table in tables:
        notes += [f"{table.name}: {note}" for note in table.notes]
        missing = set(table.key) - {column.name for column in table.columns}
        if not table.key or missing:
            notes.append(f"{table.name} is left out: it has no primary key that is captured")
        else:
            usable[table.name] = table
    parents = _parents(usable, set(roots))
    used: set[str] = set()
    names: dict[str, str] = {}
    for name in usable:
        names[name] = class_name(name, used)
        used.add(names[name])
    referred: dict[str, Member] = {}
    members: dict[str, Member] = {}
    for table in usable.values():
        members[table.name] = Member(
            names[table.name],
            table,
            tuple(_references(table, usable, parents.get(table.name), referred, used)),
        )
    aggregates = []
    for name, member in members.items():
        if name not in parents:
            aggregates.append(Proposed(member, _children(member, members, parents)))
    return Proposal(tuple(referred.values()), tuple(aggregates), tuple(notes))


def _parents(tables: dict[str, Table], roots: set[str]) -> dict[str, tuple[ForeignKey, str]]:
    """Child table to the foreign key that makes it one, and why; a table that would be below itself is a root."""
    wanted: dict[str, tuple[ForeignKey, str]] = {}
    referred = {
        key.table for table in tables.values() for key in table.foreign_keys if key.table != table.name
    }
    for table in tables.values():
        if table.name not in roots:
            found = _parent(table, tables, leaf=table.name not in referred)
            if found is not None:
                wanted[table.name] = found
    for name in list(wanted):
        passed, above = {name}, wanted[name][0].table
        while above in wanted and above not in passed:
            passed.add(above)
            above = wanted[above][0].table
        if above == name or not _same_types(tables[name], tables, wanted[name][0]):
            del wanted[name]
    return wanted


def _same_types(table: Table, tables: dict[str, Table], key: ForeignKey) -> bool:
    """A row finds the row above it by values, which must be declared alike."""
    other = tables[key.table]
    return all(
        table.column(mine).kind.python == other.column(theirs).kind.python
        for mine, theirs in zip(key.columns, other.key, strict=True)
    )


def _parent(table: Table, tables: dict[str, Table], *, leaf: bool) -> tuple[ForeignKey, str] | None:
    keys = [
        key
        for key in table.foreign_keys
        if key.table in tables and key.table != table.name and not key.partial
    ]
    for key in keys:
        if set(key.columns) < set(table.key) and table.key[: len(key.columns)] == key.columns:
            return key, "its primary key begins with the other's"
    for key in keys:
        if key.owned and not _nullable(table, key):
            return key, "its rows are deleted with the other's"
    firm = [key for key in keys if not _nullable(table, key)]
    if leaf and len(firm) == 1 and not set(table.key) <= set(firm[0].columns):
        return firm[0], "it always has one and nobody refers to it; if it lives by itself, use --root"
    return None


def _nullable(table: Table, key: ForeignKey) -> bool:
    return any(table.column(column).nullable for column in key.columns)


def _references(
    table: Table,
    tables: dict[str, Table],
    parent: tuple[ForeignKey, str] | None,
    referred: dict[str, Member],
    used: set[str],
) -> Iterator[Held]:
    taken = {identifier(column.name) for column in table.columns}
    for key in table.foreign_keys:
        if key.table not in tables or (parent is not None and key == parent[0]):
            continue
        if any(column not in {c.name for c in table.columns} for column in key.columns):
            continue
        if key.table not in referred:
            cls = class_name(key.table, used, "Ref")
            used.add(cls)
            referred[key.table] = Member(cls, tables[key.table])
        required = key.promised and not _nullable(table, key)
        yield Held(_field(key, taken), key, referred[key.table].cls, required)


def _field(key: ForeignKey, taken: set[str]) -> str:
    """``customer_id`` gives ``customer``, several columns the other table's name; one that is taken gets an ending."""
    column = key.columns[-1]
    name = column.removesuffix("_id") if len(key.columns) == 1 else singular(key.table.partition(".")[2])
    found = identifier(name)
    while found in taken:
        found += "_row"
    taken.add(found)
    return found


def _children(
    above: Member, members: dict[str, Member], parents: dict[str, tuple[ForeignKey, str]]
) -> tuple[Child, ...]:
    taken = {identifier(column.name) for column in above.table.columns} | {
        held.field for held in above.references
    }
    made = []
    for name, (key, why) in parents.items():
        if key.table != above.table.name:
            continue
        member = members[name]
        short = name.partition(".")[2]
        prefix = f"{singular(above.table.name.partition('.')[2])}_"
        field = identifier(short.removeprefix(prefix) or short)
        while field in taken:
            field += "_rows"
        taken.add(field)
        made.append(Child(field, key, member, why, _children(member, members, parents)))
    return tuple(made)


def key_columns(table: Table) -> list[Column]:
    """The key's columns, in the key's order."""
    return [table.column(name) for name in table.key]
