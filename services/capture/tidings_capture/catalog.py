"""Builds `Table`s from ``pg_catalog``: the only place that knows what the server's catalogs look like.

pgoutput tells names and types of columns; keys, defaults, enum labels and element types are only in the catalogs. They
are read when a Relation message or a snapshot shows a relation, never while rows are decoded. The catalogs show the
present, the stream the past: what a Relation message says about a column wins, and a column that has gone since is
described by the message alone.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from tidings_capture.filters import ColumnFilter, KeyColumns
from tidings_capture.pgoutput_messages import Relation, RelationColumn
from tidings_capture.postgres import Session
from tidings_capture.relations import Column, ElementType, ReplicaIdentity, Table

_COLUMNS: Final = """
WITH first_unique AS (
    SELECT i.indkey FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE i.indrelid = %s AND i.indisunique AND i.indexprs IS NULL
     ORDER BY i.indisclustered DESC, c.relname LIMIT 1
)
SELECT a.attname, a.atttypid, a.atttypmod,
       a.attnotnull OR EXISTS (SELECT FROM pg_type t WHERE t.oid = a.atttypid AND t.typtype = 'd' AND t.typnotnull),
       CASE WHEN a.attidentity = '' AND a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END,
       a.attgenerated <> '',
       (SELECT k.place FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
         WHERE i.indrelid = a.attrelid AND i.indisprimary AND k.attnum = a.attnum AND k.place <= i.indnkeyatts),
       (SELECT k.place FROM first_unique i, unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
         WHERE k.attnum = a.attnum LIMIT 1)
  FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum
"""
_TYPES: Final = """
SELECT t.oid, t.typname, t.typtype::text, t.typbasetype, t.typtypmod,
       CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN t.typelem ELSE 0 END,
       CASE WHEN t.typtype = 'e'
            THEN ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder) END,
       t.typdelim::text
  FROM pg_type t WHERE t.oid = ANY(%s)
"""
_TYPE_NAMES: Final = """
SELECT format_type(t.oid, t.modifier)
  FROM unnest(%s::oid[], %s::int4[]) WITH ORDINALITY AS t(oid, modifier, place) ORDER BY t.place
"""
_RELATION: Final = """
SELECT c.oid, c.relreplident::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s
"""
_PUBLISHED_COLUMNS: Final = """
SELECT attnames::text[] FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s
"""


NO_KEYS: Final = KeyColumns()
_VISIBLE_SECONDS: Final = 1.0
_VISIBLE: Final = """
SELECT pg_visible_in_snapshot((CASE WHEN same > xmax THEN same - 4294967296 ELSE same END)::text::xid8, s)
  FROM (SELECT s, xmax, (xmax >> 32 << 32) + %(xid)s AS same
          FROM (SELECT s, pg_snapshot_xmax(s)::text::bigint AS xmax FROM pg_current_snapshot() AS s) a) b
"""
"""Whether a transaction is visible, of whose id the stream tells the lower 32 bits."""


@dataclass(frozen=True, slots=True)
class _Type:
    oid: int
    name: str
    kind: str
    base: int
    typmod: int
    element: int
    labels: tuple[str, ...]
    delimiter: str


@dataclass(frozen=True, slots=True)
class _Attribute:
    name: str
    type_oid: int
    typmod: int
    not_null: bool
    default: str | None
    generated: bool
    key: int | None
    identity: int | None


class Catalog:
    """Reads tables through one session."""

    def __init__(self, session: Session, columns: ColumnFilter, keys: KeyColumns = NO_KEYS) -> None:
        self._session = session
        self._filter = columns
        self._keys = keys

    def table_of_relation(self, relation: Relation, tx_id: int | None = None) -> Table:
        """The table a Relation message describes.

        Args:
            tx_id: the transaction that the message came in.
        """
        if tx_id is not None:
            self._wait_until_visible(tx_id)
        schema = relation.schema or "pg_catalog"
        attributes = {a.name: a for a in self._attributes(relation.oid)}
        types = self._types(column.type_oid for column in relation.columns)
        keyed = any(a.key is not None for a in attributes.values())
        columns = []
        for place, column in enumerate(relation.columns, start=1):
            known = attributes.get(column.name)
            if known is None:
                known = _gone(column, place, attributes_known=bool(attributes))
            columns.append(_column(known, column.type_oid, column.typmod, types, keyed=keyed))
        names = [column.name for column in columns]
        excluded = self._filter.excluded(schema, relation.name, names)
        # Debezium does not look up what it excludes: such a column is optional and without a default in a key.
        columns = [
            replace(c, not_null=False, default_expression=None) if c.name in excluded else c for c in columns
        ]
        return Table(
            schema=schema,
            name=relation.name,
            oid=relation.oid,
            columns=self._keyed(schema, relation.name, columns),
            replica_identity=ReplicaIdentity(relation.replica_identity),
            excluded_columns=excluded,
        )

    def has_table(self, schema: str, name: str) -> bool:
        """Whether there is such a table."""
        return bool(self._session.rows(_RELATION, (schema, name)))

    def table_by_name(self, schema: str, name: str, publication: str) -> Table:
        """A table as a snapshot reads it: the columns that pgoutput would send."""
        ((oid, identity),) = self._session.rows(_RELATION, (schema, name))
        version = self._session.server_version
        published: list[str] | None = None
        if version >= 150000:
            published = self._session.value(_PUBLISHED_COLUMNS, (publication, schema, name))
        attributes = [
            a
            for a in self._attributes(oid)
            if (published is None or a.name in published) and (not a.generated or version >= 180000)
        ]
        if published is None:
            attributes = [a for a in attributes if not a.generated]
        types = self._types(a.type_oid for a in attributes)
        keyed = any(a.key is not None for a in attributes)
        return Table(
            schema=schema,
            name=name,
            oid=oid,
            columns=self._keyed(
                schema, name, [_column(a, a.type_oid, a.typmod, types, keyed=keyed) for a in attributes]
            ),
            replica_identity=ReplicaIdentity(identity),
            excluded_columns=self._filter.excluded(schema, name, [a.name for a in attributes]),
        )

    def type_names(self, types: list[tuple[int, int]]) -> list[str]:
        """The SQL names of types, such as ``numeric(10,2)``, by oid and modifier; ``???`` of a type that has gone."""
        oids, modifiers = [oid for oid, _ in types], [modifier for _, modifier in types]
        return [name for (name,) in self._session.rows(_TYPE_NAMES, (oids, modifiers))]

    def _wait_until_visible(self, tx_id: int) -> None:
        """Wait until other sessions see what a transaction did.

        A commit is in the WAL, and here, a moment before that. The wait is short, because a commit that waits for
        synchronous replication, perhaps for this very stream, is not visible before.
        """
        deadline = time.monotonic() + _VISIBLE_SECONDS
        while not self._session.value(_VISIBLE, {"xid": tx_id}) and time.monotonic() < deadline:
            time.sleep(0.001)

    def _keyed(self, schema: str, table: str, columns: list[Column]) -> tuple[Column, ...]:
        """The columns, with the key that the options choose."""
        chosen = self._keys.key(schema, table, (column.name for column in columns))
        if not chosen:
            return tuple(columns)
        places = {name: place for place, name in enumerate(chosen, start=1)}
        return tuple(replace(column, key_position=places.get(column.name)) for column in columns)

    def _attributes(self, oid: int) -> list[_Attribute]:
        return [_Attribute(*row) for row in self._session.rows(_COLUMNS, (oid, oid))]

    def _types(self, oids: Iterable[int]) -> dict[int, _Type]:
        found: dict[int, _Type] = {}
        wanted = set(oids)
        while wanted:
            new = [
                _Type(oid, name, kind, base, typmod, element, tuple(labels or ()), delimiter)
                for oid, name, kind, base, typmod, element, labels, delimiter in self._session.rows(
                    _TYPES, (sorted(wanted),)
                )
            ]
            found |= {t.oid: t for t in new}
            wanted = ({t.base for t in new} | {t.element for t in new}) - found.keys() - {0}
        return found


def _gone(column: RelationColumn, place: int, *, attributes_known: bool) -> _Attribute:
    # Dropped or renamed since: only the message knows it. Where the whole table is gone, its identity is its key.
    key = place if column.is_key and not attributes_known else None
    return _Attribute(
        name=column.name,
        type_oid=column.type_oid,
        typmod=column.typmod,
        not_null=column.is_key,
        default=None,
        generated=False,
        key=None,
        identity=key if key is not None else (place if column.is_key else None),
    )


def _base(oid: int, typmod: int, types: dict[int, _Type]) -> tuple[_Type, int, str | None]:
    domain: str | None = None
    found = types.get(oid)
    while found is not None and found.kind == "d":
        domain = domain or found.name
        typmod = found.typmod if found.typmod != -1 else typmod
        found = types.get(found.base)
    if found is None:
        return _Type(oid, "unknown", "b", 0, -1, 0, (), ","), typmod, domain
    return found, typmod, domain


def _element(oid: int, types: dict[int, _Type]) -> ElementType:
    item = types.get(oid)
    base, _, _ = _base(oid, -1, types)
    if item is not None and item.kind == "d":
        return ElementType(
            item.oid, item.name, is_enum=base.kind == "e", is_domain=True, delimiter=item.delimiter
        )
    return ElementType(base.oid, base.name, base.labels, is_enum=base.kind == "e", delimiter=base.delimiter)


def _column(
    attribute: _Attribute, type_oid: int, typmod: int, types: dict[int, _Type], *, keyed: bool
) -> Column:
    base, modifier, domain = _base(type_oid, typmod, types)
    element: ElementType | None = None
    if base.element:
        element = _element(base.element, types)
    return Column(
        name=attribute.name,
        type_oid=base.oid,
        typmod=modifier,
        type_name=base.name,
        not_null=attribute.not_null,
        key_position=attribute.key if keyed else attribute.identity,
        default_expression=attribute.default,
        enum_labels=base.labels,
        element=element,
        domain_name=domain,
    )
