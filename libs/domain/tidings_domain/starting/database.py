"""Reads tables, keys and foreign keys from PostgreSQL's catalog; no other module of this library imports psycopg.

How a type looks on the technical topics: Debezium documentation, PostgreSQL connector, "Data type mappings", with the
default handling modes but `decimal.handling.mode=string`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tidings_domain.errors import TranslatorError
from tidings_domain.starting import tables as known
from tidings_domain.starting.tables import Column, ForeignKey, Kind, Table

_TABLES = """
select c.oid::bigint as oid, n.nspname || '.' || c.relname as name, c.relkind = 'p' as partitioned,
       c.relreplident::text as identity
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p' and n.nspname = any(%(schemas)s)
    -- An extension's tables are not people's.
    and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
order by 2
"""

_SCHEMAS = """
select distinct n.nspname as name
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p'
    and n.nspname <> 'information_schema' and left(n.nspname, 3) <> 'pg_'
    and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
order by 1
"""

_LEAVES = """
select c.oid::bigint as oid, pg_partition_root(c.oid)::oid::bigint as root
from pg_class c
where c.relispartition and c.relkind in ('r', 'f') and pg_partition_root(c.oid)::oid = any(%(oids)s::bigint[]::oid[])
"""

# A domain (typtype d) counts as the type below it, as Debezium has it.
_COLUMNS = """
with recursive base(oid, root, typmod) as (
    select t.oid, t.oid, -1 from pg_type t where t.typtype <> 'd'
    union all
    select t.oid, b.root, greatest(b.typmod, t.typtypmod) from pg_type t join base b on t.typbasetype = b.oid
    where t.typtype = 'd'
)
select a.attrelid::bigint as relation, a.attname as name, not a.attnotnull as nullable, a.attgenerated <> '' as generated,
       t.typname as type, t.typtype::text as kind, greatest(a.atttypmod, b.typmod) as modifier,
       e.typname as element, e.typtype::text as element_kind,
       (select array_agg(l.enumlabel::text order by l.enumsortorder) from pg_enum l where l.enumtypid = t.oid) as labels
from pg_attribute a
join base b on b.oid = a.atttypid
join pg_type t on t.oid = b.root
left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
where a.attrelid = any(%(oids)s::bigint[]::oid[]) and a.attnum > 0 and not a.attisdropped
order by a.attrelid, a.attnum
"""

_CONSTRAINTS = """
select k.conrelid::bigint as relation, k.contype::text as type, k.confdeltype = 'c' as owned,
       (select array_agg(a.attname::text order by p.place) from unnest(k.conkey) with ordinality p(num, place)
        join pg_attribute a on a.attrelid = k.conrelid and a.attnum = p.num) as columns,
       n.nspname || '.' || c.relname as other,
       (select array_agg(a.attname::text order by p.place) from unnest(k.confkey) with ordinality p(num, place)
        join pg_attribute a on a.attrelid = k.confrelid and a.attnum = p.num) as other_columns
from pg_constraint k
left join pg_class c on c.oid = coalesce(pg_partition_root(k.confrelid)::oid, k.confrelid)
left join pg_namespace n on n.oid = c.relnamespace
where k.conrelid = any(%(oids)s::bigint[]::oid[]) and k.contype in ('p', 'f') and (k.conparentid = 0 or %(of_partitions)s)
order by k.conname
"""

_PLAIN: dict[str, Kind] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), known.INTEGER),
    **dict.fromkeys(("float4", "float8"), known.FLOAT),
    **dict.fromkeys(("text", "varchar", "bpchar", "char", "name", "citext", "xml"), known.TEXT),
    **dict.fromkeys(("inet", "cidr", "macaddr", "macaddr8", "ltree", "tsvector"), known.TEXT),
    **dict.fromkeys(("int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"), known.TEXT),
    **dict.fromkeys(("json", "jsonb"), known.JSON),
    **dict.fromkeys(("point", "geometry", "geography"), known.STRUCTURE),
    "bool": known.BOOLEAN,
    "uuid": known.UUID,
    "bytea": known.BYTES,
    "date": known.DATE,
    "timestamptz": known.TIMESTAMPTZ,
    "timetz": known.ZONED_TIME,
    "interval": known.INTERVAL,
    "money": known.decimal(None, 2),
    "hstore": known.JSON,
    "varbit": known.BYTES,
}
_MILLISECONDS = 3
"""Up to this precision Debezium writes milliseconds."""


class CatalogError(TranslatorError):
    """The database cannot be asked for its tables."""

    code = "catalog"


class Server(msgspec.Struct, frozen=True):
    """Where a database is, and what its server is like; no password.

    Attributes:
        version: such as 16.
        ssl_mode: what the URL asks for; None where it asks for nothing.
    """

    host: str
    port: int
    user: str
    database: str
    version: int
    wal_level: str
    ssl_mode: str | None = None


def read_database(url: str, schemas: list[str]) -> list[Table]:
    """The ordinary and partitioned tables of some schemas.

    Args:
        url: a PostgreSQL URL or keyword string; it is named in no message.

    Raises:
        CatalogError: psycopg is not installed, the database cannot be reached, or a schema has no table.
    """
    with _connected(url) as connection:
        found = connection.execute(_TABLES, {"schemas": schemas}).fetchall()
        oids = {"oids": [table["oid"] for table in found]}
        columns = connection.execute(_COLUMNS, oids).fetchall()
        constraints = connection.execute(_CONSTRAINTS, {**oids, "of_partitions": False}).fetchall()
        leaves = {leaf["oid"]: leaf["root"] for leaf in connection.execute(_LEAVES, oids).fetchall()}
        below = connection.execute(_CONSTRAINTS, {"oids": list(leaves), "of_partitions": True}).fetchall()
    constraints += _foreign_keys_below(constraints, below, leaves)
    for schema in schemas:
        if not any(table["name"].startswith(f"{schema}.") for table in found):
            raise CatalogError(
                f"schema '{schema}' has no tables that can be seen",
                hint="choose another --schema, or grant the role USAGE on it",
            )
    return list(_tables(found, columns, constraints))


def read_schemas(url: str) -> list[str]:
    """The schemas that hold tables of people's own, by name.

    Raises:
        CatalogError: as `read_database`.
    """
    with _connected(url) as connection:
        return [row["name"] for row in connection.execute(_SCHEMAS).fetchall()]


def read_server(url: str) -> Server:
    """Where the database is, as libpq has it once it is connected.

    Raises:
        CatalogError: as `read_database`.
    """
    with _connected(url) as connection:
        info = connection.info
        (row,) = connection.execute("select current_setting('wal_level') as level").fetchall()
        return Server(
            info.host,
            info.port,
            info.user,
            info.dbname,
            info.server_version // 10_000,
            row["level"],
            info.get_parameters().get("sslmode"),
        )


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    """A connection that may read only, and whose rows are dictionaries."""
    try:
        import psycopg  # noqa: PLC0415 - only authors need it, the services do not
        from psycopg.rows import dict_row  # noqa: PLC0415
    except ImportError as error:
        raise CatalogError(
            "reading a database needs psycopg", hint="pip install 'tidings-translator[init]'"
        ) from error
    try:
        with psycopg.connect(url, row_factory=dict_row, connect_timeout=10) as connection:
            connection.read_only = True
            yield connection
    except psycopg.ProgrammingError as error:
        if error.sqlstate is None:
            # libpq repeats parts of the text, which may be the password.
            raise CatalogError(
                "--database is not a PostgreSQL URL", hint="write --database postgresql://user@host/db"
            ) from None
        raise CatalogError(f"--database: the catalog cannot be read: {error.sqlstate}") from error
    except psycopg.Error as error:
        raise CatalogError(f"--database: {str(error).splitlines()[0]}") from error


def _foreign_keys_below(
    above: list[dict[str, Any]], below: list[dict[str, Any]], leaves: dict[int, int]
) -> Iterator[dict[str, Any]]:
    """Foreign keys that stand on partitions only, as the partitioned table's; `partial` where some lack them."""

    def named(one: dict[str, Any], relation: int) -> tuple[Any, ...]:
        return relation, tuple(one["columns"]), one["other"], tuple(one["other_columns"])

    known = {named(one, one["relation"]) for one in above if one["type"] == "f"}
    holders: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for one in below:
        if one["type"] == "f" and named(one, leaves[one["relation"]]) not in known:
            holders.setdefault(named(one, leaves[one["relation"]]), {})[one["relation"]] = one
    for (root, *_), having in holders.items():
        partial = len(having) < sum(one == root for one in leaves.values())
        owned = all(one["owned"] for one in having.values())
        yield {**next(iter(having.values())), "relation": root, "owned": owned, "partial": partial}


def _tables(
    found: list[dict[str, Any]], columns: list[dict[str, Any]], constraints: list[dict[str, Any]]
) -> Iterator[Table]:
    keys = {k["relation"]: tuple(k["columns"]) for k in constraints if k["type"] == "p"}
    names = {table["oid"]: table["name"] for table in found}
    key_of = {names[oid]: key for oid, key in keys.items()}
    for table in found:
        oid = table["oid"]
        kept, left_out = _columns([column for column in columns if column["relation"] == oid])
        own = [one for one in constraints if one["relation"] == oid and one["type"] == "f"]
        foreign, refused = _foreign_keys(own, key_of)
        yield Table(
            table["name"],
            kept,
            keys.get(oid, ()),
            foreign,
            (*left_out, *refused),
            partitioned=table["partitioned"],
            # f: the whole row, i: an index; d is the primary key, n nothing.
            identity=table["identity"] in "fi" or (table["identity"] == "d" and oid in keys),
        )


def _columns(columns: list[dict[str, Any]]) -> tuple[tuple[Column, ...], list[str]]:
    """Those that are captured, and what is to be said of the others."""
    kept, notes = [], []
    for column in columns:
        kind = _kind(column)
        if column["generated"]:
            notes.append(f"column {column['name']} is generated, and not in the WAL")
        elif kind is None:
            notes.append(
                f"column {column['name']} has type {column['type']}, which is not captured by default"
            )
        else:
            kept.append(Column(column["name"], kind, column["nullable"]))
    return tuple(kept), notes


def _foreign_keys(
    constraints: list[dict[str, Any]], key_of: dict[str, tuple[str, ...]]
) -> tuple[tuple[ForeignKey, ...], list[str]]:
    """Those that refer to a primary key that is known, and what is to be said of the others."""
    foreign, notes = [], []
    for constraint in constraints:
        pairs = dict(zip(constraint["other_columns"], constraint["columns"], strict=True))
        shown, partial = ", ".join(constraint["columns"]), constraint.get("partial", False)
        key = key_of.get(constraint["other"])
        if key is None or set(pairs) != set(key):
            why = f"{constraint['other']} in a schema that was not read, or not its primary key"
            notes.append(f"foreign key {shown} refers to {why}")
            continue
        by = tuple(pairs[column] for column in key)
        foreign.append(ForeignKey(by, constraint["other"], owned=constraint["owned"], partial=partial))
        if partial:
            notes.append(f"foreign key {shown} stands on some of its partitions only, so nobody promises it")
    return tuple(foreign), notes


def _kind(column: dict[str, Any]) -> Kind | None:
    if column["kind"] == "e":
        return known.enum(column["labels"] or [])
    if column["element"] is not None:
        element = (
            known.TEXT if column["element_kind"] == "e" else _base(column["element"], column["modifier"])
        )
        return None if element is None else known.array(element)
    return _base(column["type"], column["modifier"])


def _base(name: str, modifier: int) -> Kind | None:
    """The kind of a base type; `modifier` is pg_attribute.atttypmod, -1 for none."""
    if name == "numeric":
        if modifier < 0:
            return known.decimal(None, None)
        packed = modifier - 4
        scale = packed & 0x7FF
        return known.decimal(packed >> 16 & 0xFFFF, scale - 0x800 if scale & 0x400 else scale)
    if name in ("timestamp", "time"):
        if 0 <= modifier <= _MILLISECONDS:
            return known.TIMESTAMP_MS if name == "timestamp" else known.TIME_MS
        return known.TIMESTAMP if name == "timestamp" else known.TIME
    if name == "bit":
        return known.BOOLEAN if modifier == 1 else known.BYTES
    return _PLAIN.get(name)
