"""Builds `Table`s from ``pg_catalog``: the only place that knows what the server's catalogs look like.

pgoutput tells names and types of columns; keys, defaults, enum labels and element types are only in the catalogs. They
are read when a Relation message or a snapshot shows a relation, never while rows are decoded. The catalogs show the
present, the stream the past: what a Relation message says about a column wins, and a column that has gone since is
described by the message alone.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidings_capture.cdc.filters import ColumnFilter, KeyColumns
from tidings_capture.cdc.tables import Column, ElementType, ReplicaIdentity, Table
from tidings_capture.postgres.client import Session
from tidings_capture.postgres.errors import CatalogError
from tidings_capture.postgres.wire.messages import Relation, RelationColumn
from tidings_service import Retry

_COLUMNS: Final = """
WITH keys AS (
    SELECT i.indrelid, k.attnum, k.place FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
     WHERE i.indrelid = ANY(%(oids)s::oid[]) AND i.indisprimary AND k.place <= i.indnkeyatts
), first_unique AS (
    SELECT DISTINCT ON (i.indrelid) i.indrelid, i.indkey FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
     WHERE i.indrelid = ANY(%(oids)s::oid[]) AND i.indisunique AND i.indexprs IS NULL
     ORDER BY i.indrelid, i.indisclustered DESC, c.relname
), identities AS (
    SELECT u.indrelid, k.attnum, min(k.place) AS place
      FROM first_unique u, unnest(u.indkey) WITH ORDINALITY AS k(attnum, place) GROUP BY u.indrelid, k.attnum
)
SELECT a.attrelid, a.attname, a.atttypid, a.atttypmod,
       a.attnotnull OR EXISTS (SELECT FROM pg_type t WHERE t.oid = a.atttypid AND t.typtype = 'd' AND t.typnotnull),
       CASE WHEN a.attidentity = '' AND a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END,
       a.attgenerated <> '', k.place, i.place
  FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  LEFT JOIN keys k ON k.indrelid = a.attrelid AND k.attnum = a.attnum
  LEFT JOIN identities i ON i.indrelid = a.attrelid AND i.attnum = a.attnum
 WHERE a.attrelid = ANY(%(oids)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum
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
_RELATIONS: Final = """
SELECT n.nspname, c.relname, c.oid, c.relreplident::text
  FROM unnest(%s::name[], %s::name[]) AS w(schema, name)
  JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
"""
_PUBLISHED_COLUMNS: Final = """
WITH published AS MATERIALIZED (
    SELECT schemaname, tablename, attnames::text[] AS names FROM pg_publication_tables WHERE pubname = %s
)
SELECT p.schemaname, p.tablename, p.names
  FROM published p JOIN unnest(%s::name[], %s::name[]) AS w(schema, name) ON p.schemaname = w.schema AND p.tablename = w.name
"""
"""The view goes through the whole publication, however few tables are asked for: once for all of them."""
_TABLES_AT_ONCE: Final = 1_000
_FIRST_OWN_OID: Final = 16_384
"""Types below come with the server (``FirstNormalObjectId``), and nobody changes them."""

NO_KEYS: Final = KeyColumns()
_VISIBLE_SECONDS: Final = 1.0
_LONG_WAIT_SECONDS: Final = 0.1
_OLD_SECONDS: Final = 60.0
"""How long what was the oldest open transaction is remembered: ids of 32 bits are only compared while they are near."""
_VISIBLE: Final = """
SELECT pg_visible_in_snapshot((CASE WHEN same > xmax THEN same - 4294967296 ELSE same END)::text::xid8, s),
       (pg_snapshot_xmin(s)::text::bigint & 4294967295)
  FROM (SELECT s, xmax, (xmax >> 32 << 32) + %(xid)s AS same
          FROM (SELECT s, pg_snapshot_xmax(s)::text::bigint AS xmax FROM pg_current_snapshot() AS s) a) b
"""
"""Whether a transaction is visible, of whose id the stream tells the lower 32 bits; and the lower 32 bits of the oldest
open one's: every transaction before it has ended."""


_ALTERS: Final = """
SELECT EXISTS (SELECT FROM pg_locks AS x JOIN pg_locks AS r USING (virtualtransaction)
                WHERE x.locktype = 'transactionid' AND x.granted AND x.transactionid::text = %(xid)s
                  AND r.locktype = 'relation' AND r.granted AND r.relation = %(oid)s
                  AND r.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                  AND r.mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock'))
"""
"""Whether a transaction that has not ended holds a lock of a relation that altering it takes, and reading and writing rows not."""


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


@dataclass(frozen=True, slots=True)
class _Look:
    """At the open transactions."""

    oldest: int
    """The id (32 bits) of the oldest one."""
    at: float
    """On the monotonic clock."""

    def is_behind(self, tx_id: int) -> bool:
        """Whether a transaction had ended before it; not known of one that is compared too late."""
        near = time.monotonic() - self.at < _OLD_SECONDS
        return near and 0 < (self.oldest - tx_id) % (1 << 32) < 1 << 31


@dataclass(frozen=True, slots=True)
class _Ahead:
    look: _Look
    """Taken before the columns were read."""
    attributes: dict[int, list[_Attribute]]


class Catalog:
    """Reads tables through one session.

    Args:
        wait_on: called again and again while others do not see for long that a transaction has altered a table; whether to go on
            waiting, rather than to take the table as it was before.
    """

    def __init__(
        self,
        session: Session,
        columns: ColumnFilter,
        keys: KeyColumns = NO_KEYS,
        wait_on: Callable[[], bool] = lambda: False,
    ) -> None:
        self._session = session
        self._wait_on = wait_on
        self._filter = columns
        self._keys = keys
        self._known_types: dict[int, _Type] = {}
        self._last_look: _Look | None = None
        self._ahead: _Ahead | None = None

    def table_of_relation(self, relation: Relation, tx_id: int | None = None) -> Table:
        """The table a Relation message describes.

        Args:
            tx_id: the transaction that the message came in.
        """
        schema = relation.schema or "pg_catalog"
        attributes = {a.name: a for a in self._attributes_of(relation.oid, tx_id)}
        types = self._types(column.type_oid for column in relation.columns)
        keyed = any(a.key is not None for a in attributes.values())
        columns = []
        for place, column in enumerate(relation.columns, start=1):
            known = attributes.get(column.name)
            if known is None:
                known = _gone(column, place, relation.replica_identity, attributes_known=bool(attributes))
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

    def has_ended(self, tx_id: int) -> bool:
        """Whether a transaction had ended at the last look: the stream is behind the server."""
        return self._last_look is not None and self._last_look.is_behind(tx_id)

    def is_ahead(self, oid: int, tx_id: int) -> bool:
        """Whether a relation of a transaction needs no query any more."""
        return self._ahead is not None and oid in self._ahead.attributes and self._ahead.look.is_behind(tx_id)

    def read_ahead(self, tables: Sequence[tuple[str, str]], tx_id: int) -> None:
        """Read the columns of tables at once, each for the next relation of a transaction that has ended by now.

        What such a transaction did is visible, as it is to a query that waits for the relation.

        Args:
            tables: those beyond a thousand are left for another time, those that have gone are left out.
            tx_id: any transaction.
        """
        wanted = tables[:_TABLES_AT_ONCE]
        self._look(tx_id)
        assert self._last_look is not None
        names = [schema for schema, _ in wanted], [name for _, name in wanted]
        oids = [oid for _, _, oid, _ in self._session.rows(_RELATIONS, names)]
        self._ahead = _Ahead(self._last_look, self._attributes(oids))

    def has_table(self, schema: str, name: str) -> bool:
        """Whether there is such a table."""
        return bool(self._session.rows(_RELATION, (schema, name)))

    def table_by_name(self, schema: str, name: str, publication: str) -> Table:
        """A table as a snapshot reads it: the columns that pgoutput would send.

        Raises:
            CatalogError: there is no such table.
        """
        return self.tables_by_name([(schema, name)], publication)[0]

    def tables_by_name(self, names: Sequence[tuple[str, str]], publication: str) -> list[Table]:
        """Tables as a snapshot reads them, in the same order; a few queries for all of them.

        Raises:
            CatalogError: one of them does not exist.
        """
        return [
            table
            for start in range(0, len(names), _TABLES_AT_ONCE)
            for table in self._tables(names[start : start + _TABLES_AT_ONCE], publication)
        ]

    def _tables(self, names: Sequence[tuple[str, str]], publication: str) -> list[Table]:
        wanted = [schema for schema, _ in names], [name for _, name in names]
        relations = {
            (s, n): (oid, identity) for s, n, oid, identity in self._session.rows(_RELATIONS, wanted)
        }
        for schema, name in names:
            if (schema, name) not in relations:
                raise CatalogError(
                    f"table {schema}.{name} has gone since it was chosen",
                    hint="restart the connector's task, which chooses again",
                    retry=Retry.TIMED,
                )
        version = self._session.server_version
        published: dict[tuple[str, str], list[str]] = {}
        if version >= 150000:
            rows = self._session.rows(_PUBLISHED_COLUMNS, (publication, *wanted))
            published = {(schema, name): columns for schema, name, columns in rows}
        found = self._attributes([oid for oid, _ in relations.values()])
        chosen = {}
        for table in names:
            only = published.get(table)
            chosen[table] = [
                a
                for a in found.get(relations[table][0], [])
                if (not a.generated or (only is not None and version >= 180000))
                and (only is None or a.name in only)
            ]
        types = self._types(a.type_oid for attributes in chosen.values() for a in attributes)
        return [self._table(table, *relations[table], chosen[table], types) for table in names]

    def _table(
        self,
        table: tuple[str, str],
        oid: int,
        identity: str,
        attributes: list[_Attribute],
        types: dict[int, _Type],
    ) -> Table:
        schema, name = table
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

    def _wait_until_visible(self, tx_id: int, oid: int) -> None:
        """Wait until other sessions see what a transaction did, if it may have altered a relation.

        A commit is in the WAL, and here, a moment before that; one that waits for a synchronous standby, long before. It keeps its
        locks for as long.
        """
        if self.has_ended(tx_id):
            return
        until = time.monotonic() + _VISIBLE_SECONDS
        while not self._look(tx_id):
            if time.monotonic() <= until:
                time.sleep(0.001)
            elif self._session.value(_ALTERS, {"xid": str(tx_id), "oid": oid}) and self._wait_on():
                time.sleep(_LONG_WAIT_SECONDS)
            else:
                return

    def _look(self, tx_id: int) -> bool:
        """Whether others see what a transaction did; which ones are open is known afterwards."""
        now = time.monotonic()
        ((visible, oldest),) = self._session.rows(_VISIBLE, {"xid": tx_id})
        self._last_look = _Look(oldest, now)
        return bool(visible)

    def _keyed(self, schema: str, table: str, columns: list[Column]) -> tuple[Column, ...]:
        """The columns, with the key that the options choose."""
        chosen = self._keys.key(schema, table, (column.name for column in columns))
        if not chosen:
            return tuple(columns)
        places = {name: place for place, name in enumerate(chosen, start=1)}
        return tuple(replace(column, key_position=places.get(column.name)) for column in columns)

    def _attributes_of(self, oid: int, tx_id: int | None) -> list[_Attribute]:
        """A relation's, as what a transaction did has left them, or later."""
        if tx_id is not None:
            if self._ahead is not None and self.is_ahead(oid, tx_id):
                return self._ahead.attributes.pop(oid)  # the next relation has changed
            self._wait_until_visible(tx_id, oid)
        return self._attributes([oid]).get(oid, [])

    def _attributes(self, oids: list[int]) -> dict[int, list[_Attribute]]:
        found: dict[int, list[_Attribute]] = {}
        for oid, *values in self._session.rows(_COLUMNS, {"oids": oids}):
            found.setdefault(oid, []).append(_Attribute(*values))
        return found

    def _types(self, oids: Iterable[int]) -> dict[int, _Type]:
        found: dict[int, _Type] = {}
        wanted = set(oids)
        while wanted:
            new = [self._known_types[oid] for oid in wanted & self._known_types.keys()]
            unknown = sorted(wanted - self._known_types.keys())
            rows = self._session.rows(_TYPES, (unknown,)) if unknown else []
            new += [
                _Type(oid, name, kind, base, typmod, element, tuple(labels or ()), delimiter)
                for oid, name, kind, base, typmod, element, labels, delimiter in rows
            ]
            found |= {t.oid: t for t in new}
            wanted = ({t.base for t in new} | {t.element for t in new}) - found.keys() - {0}
        self._known_types |= {oid: t for oid, t in found.items() if oid < _FIRST_OWN_OID}
        return found


def _gone(column: RelationColumn, place: int, identity: str, *, attributes_known: bool) -> _Attribute:
    # Dropped or renamed since: only the message knows it. Where the whole table is gone, its identity is its key.
    # Nobody knows any more whether it could be null; only of an index it could not. FULL has every column.
    key = place if column.is_key and not attributes_known else None
    return _Attribute(
        name=column.name,
        type_oid=column.type_oid,
        typmod=column.typmod,
        not_null=column.is_key and identity != "f",
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
