"""Which tables look like aggregates, which like their children, and what refers to what.

A table is taken as the child of another one when its rows cannot be without it: the foreign key is part of its own
primary key, or the rows go with the other's (ON DELETE CASCADE), or the foreign key is never null and nobody refers to
the table. Every other table with a primary key is the root of an aggregate. It is a proposal: the reasons are told.
"""

from collections.abc import Iterable, Iterator

import msgspec

from tidings_translator.starting.naming import class_name, identifier, singular
from tidings_translator.starting.tables import Column, ForeignKey, Table


class Held(msgspec.Struct, frozen=True):
    """A reference of a row: the field, the foreign key and the class it leads to."""

    field: str
    key: ForeignKey
    cls: str


class Member(msgspec.Struct, frozen=True):
    """A class of the domain: a row that others refer to, a child, or an aggregate."""

    cls: str
    table: Table
    references: tuple[Held, ...] = ()


class Child(msgspec.Struct, frozen=True):
    """A child table of an aggregate and why it is taken as one."""

    field: str
    key: ForeignKey
    member: Member
    why: str


class Proposed(msgspec.Struct, frozen=True):
    """An aggregate."""

    root: Member
    children: tuple[Child, ...]


class Proposal(msgspec.Struct, frozen=True):
    """A domain: the rows that are referred to, the aggregates, and what was left out, in words."""

    referred: tuple[Member, ...]
    aggregates: tuple[Proposed, ...]
    notes: tuple[str, ...]


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
            mine = [(child, found) for child, found in parents.items() if found[0].table == name]
            aggregates.append(_aggregate(member, [(members[child], *found) for child, found in mine]))
    return Proposal(tuple(referred.values()), tuple(aggregates), tuple(notes))


def _parents(tables: dict[str, Table], roots: set[str]) -> dict[str, tuple[ForeignKey, str]]:
    """Child table to the foreign key that makes it one, and why. A child's own children are aggregates: an aggregate
    has the rows that hold its own key."""
    wanted: dict[str, tuple[ForeignKey, str]] = {}
    referred = {
        key.table for table in tables.values() for key in table.foreign_keys if key.table != table.name
    }
    for table in tables.values():
        if table.name not in roots:
            found = _parent(table, tables, leaf=table.name not in referred)
            if found is not None:
                wanted[table.name] = found
    return {name: found for name, found in wanted.items() if found[0].table not in wanted}


def _parent(table: Table, tables: dict[str, Table], *, leaf: bool) -> tuple[ForeignKey, str] | None:
    keys = [key for key in table.foreign_keys if key.table in tables and key.table != table.name]
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
        yield Held(_field(key, taken), key, referred[key.table].cls)


def _field(key: ForeignKey, taken: set[str]) -> str:
    """``customer_id`` gives ``customer``, several columns the other table's name; one that is taken gets an ending."""
    column = key.columns[-1]
    name = column.removesuffix("_id") if len(key.columns) == 1 else singular(key.table.partition(".")[2])
    found = identifier(name)
    while found in taken:
        found += "_row"
    taken.add(found)
    return found


def _aggregate(root: Member, children: list[tuple[Member, ForeignKey, str]]) -> Proposed:
    taken = {identifier(column.name) for column in root.table.columns} | {
        held.field for held in root.references
    }
    made = []
    for member, key, why in children:
        name = member.table.name.partition(".")[2]
        prefix = f"{singular(root.table.name.partition('.')[2])}_"
        field = identifier(name.removeprefix(prefix) or name)
        while field in taken:
            field += "_rows"
        taken.add(field)
        made.append(Child(field, key, member, why))
    return Proposed(root, tuple(made))


def key_columns(table: Table) -> list[Column]:
    """The key's columns, in the key's order."""
    return [table.column(name) for name in table.key]
