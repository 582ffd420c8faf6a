"""Which tables can be published with their updates and deletes.

PostgreSQL refuses every UPDATE and DELETE, an application's too, of a table that is published with them and has no replica
identity: no primary key (or a deferrable one), ``REPLICA IDENTITY NOTHING``, or an index that is gone. Source:
PostgreSQL's documentation, "Publication"; ``CheckCmdReplicaIdentity`` in execReplication.c. What counts of a partitioned
table is each partition's own identity. From PostgreSQL 18 on an identity must not hold a generated column either.
"""

from collections.abc import Sequence
from typing import Final

from tidings_capture.postgres.client import Session, quote

Name = tuple[str, str]
"""Schema and table."""
_SHOWN: Final = 20

_ROWS: Final = """
SELECT n.nspname, c.relname,
       CASE c.relreplident WHEN 'n' THEN false
            WHEN 'f' THEN NOT (current_setting('server_version_num')::int >= 180000 AND EXISTS (
                SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attgenerated <> '' AND NOT a.attisdropped))
            ELSE EXISTS (
                SELECT FROM pg_index i
                 WHERE i.indrelid = c.oid AND i.indisvalid AND i.indisunique AND i.indimmediate AND i.indpred IS NULL
                   AND CASE c.relreplident WHEN 'd' THEN i.indisprimary ELSE i.indisreplident END
                   AND NOT (current_setting('server_version_num')::int >= 180000 AND EXISTS (
                       SELECT FROM pg_attribute a
                        WHERE a.attrelid = c.oid AND a.attnum = ANY(i.indkey) AND a.attgenerated <> '')))
       END
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""
_ORDER: Final = " ORDER BY 1, 2"
_NAMED: Final = """
   AND c.oid IN (
    SELECT unnest(array_append(ARRAY(SELECT relid::oid FROM pg_partition_tree(named.oid)), named.oid))
      FROM unnest(%s::name[], %s::name[]) AS w(schema, name)
      JOIN pg_namespace s ON s.nspname = w.schema
      JOIN pg_class named ON named.relnamespace = s.oid AND named.relname = w.name)
"""
"""``pg_partition_tree`` is empty for a table that neither has partitions nor is one."""


def by_updatable(session: Session, tables: Sequence[Name] | None) -> tuple[list[Name], list[Name]]:
    """The tables whose updates and deletes can be published, and those that can not; partitions instead of partitioned
    tables.

    Args:
        tables: None for all of the database.
    """
    if tables is None:
        found = session.rows(_ROWS + _ORDER)
    else:
        found = session.rows(
            _ROWS + _NAMED + _ORDER, ([schema for schema, _ in tables], [name for _, name in tables])
        )
    can: list[Name] = [(schema, name) for schema, name, updatable in found if updatable]
    cannot: list[Name] = [(schema, name) for schema, name, updatable in found if not updatable]
    return can, cannot


def listed(tables: Sequence[Name]) -> str:
    """Tables as SQL lists them."""
    return ", ".join(f"{quote(schema)}.{quote(name)}" for schema, name in tables)


def shown(tables: Sequence[Name]) -> str:
    """Tables for people; not all of very many."""
    names = ", ".join(f"{schema}.{name}" for schema, name in tables[:_SHOWN])
    return names if len(tables) <= _SHOWN else f"{names} and {len(tables) - _SHOWN} more"
