"""What conversion needs to know about a table: its columns, their types, its key and its replica identity.

A `Table` is one version of a relation. The catalog builds it from ``pg_catalog`` when a Relation message (or the
snapshot) shows a relation or a version of it for the first time; conversion compiles a plan from it and never asks the
database anything. Everything here is frozen, so that a plan stays true for as long as its table does.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class ReplicaIdentity(StrEnum):
    """``pg_class.relreplident``: what pgoutput tells about the old row of an update or delete."""

    DEFAULT = "d"
    """The old primary key, on deletes and on updates that change it."""
    NOTHING = "n"
    FULL = "f"
    """The whole old row."""
    INDEX = "i"
    """The old values of a unique index's columns."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """The element type of an array column."""

    oid: int
    """``pg_type.oid`` of the element; of its base type when the element is a domain."""
    name: str
    """``pg_type.typname``, for example ``int4``."""
    enum_labels: tuple[str, ...] = ()
    """The labels in sort order when the element is an enum, else empty."""
    is_enum: bool = False
    """Also true for a domain over an enum, whose labels Debezium does not see."""
    is_domain: bool = False
    """The element is a domain; `name` is then its own."""
    delimiter: str = ","
    """``pg_type.typdelim``: what stands between elements; ``;`` for boxes, ``:`` for PostGIS's geometries."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it is in ``pg_attribute``, with domains resolved to their base type."""

    name: str
    type_oid: int
    """``pg_attribute.atttypid``; for a domain the oid of its base type."""
    typmod: int
    """``pg_attribute.atttypmod``; for a domain ``pg_type.typtypmod`` of the domain; -1 means none."""
    type_name: str
    """``pg_type.typname`` of `type_oid`, for example ``numeric``, ``_int4``, ``order_status``."""
    not_null: bool
    key_position: int | None = None
    """1-based position in the primary key (or in the replica identity index where there is no primary key)."""
    default_expression: str | None = None
    """``pg_get_expr(adbin, adrelid)``, for example ``'EUR'::bpchar``; None without a default and for generated and
    identity columns."""
    enum_labels: tuple[str, ...] = ()
    """``pg_enum.enumlabel`` in ``enumsortorder`` when the type is an enum."""
    element: ElementType | None = None
    """The element type when the column is an array (``pg_type.typelem`` of a true array type)."""
    domain_name: str | None = None
    """``pg_type.typname`` of the domain when the column is declared with one."""


@dataclass(frozen=True, slots=True)
class Table:
    """One version of a relation."""

    schema: str
    name: str
    oid: int
    columns: tuple[Column, ...]
    """In the order in which pgoutput sends them (``attnum``); only published columns."""
    replica_identity: ReplicaIdentity = ReplicaIdentity.DEFAULT
    excluded_columns: frozenset[str] = field(default_factory=frozenset)
    """Columns pgoutput sends that the connector's column filters leave out of the value (never out of the key)."""

    @property
    def qualified_name(self) -> str:
        """``schema.table``, as it stands in topics and transaction counts."""
        return f"{self.schema}.{self.name}"

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of the key in key order; empty when the table has none."""
        keyed = [column for column in self.columns if column.key_position is not None]
        return tuple(sorted(keyed, key=lambda column: column.key_position or 0))
