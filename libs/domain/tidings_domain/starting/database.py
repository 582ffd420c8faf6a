"""Reads tables, keys and foreign keys from PostgreSQL's catalog; no other module of this library imports psycopg.

How a type looks on the technical topics: Debezium documentation, PostgreSQL connector, "Data type mappings", with the
default handling modes but `decimal.handling.mode=string`.
"""

from collections.abc import Iterator
from typing import Any

from tidings_domain.errors import TranslatorError
from tidings_domain.starting import tables as known
from tidings_domain.starting.tables import Column, ForeignKey, Kind, Table

_TABLES = """
select c.oid::bigint as oid, n.nspname || '.' || c.relname as name
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p' and n.nspname = any(%(schemas)s)
order by 2
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
left join pg_class c on c.oid = k.confrelid
left join pg_namespace n on n.oid = c.relnamespace
where k.conrelid = any(%(oids)s::bigint[]::oid[]) and k.contype in ('p', 'f') and k.conparentid = 0
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


def read_database(url: str, schemas: list[str]) -> list[Table]:
    """The ordinary and partitioned tables of some schemas.

    Args:
        url: a PostgreSQL URL or keyword string; it is named in no message.

    Raises:
        CatalogError: psycopg is not installed, the database cannot be reached, or a schema has no table.
    """
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
            found = connection.execute(_TABLES, {"schemas": schemas}).fetchall()
            oids = {"oids": [table["oid"] for table in found]}
            columns = connection.execute(_COLUMNS, oids).fetchall()
            constraints = connection.execute(_CONSTRAINTS, oids).fetchall()
    except psycopg.ProgrammingError as error:
        if error.sqlstate is None:
            # libpq repeats parts of the text, which may be the password.
            raise CatalogError(
                "--database is not a PostgreSQL URL", hint="postgresql://user@host/db"
            ) from None
        raise CatalogError(f"--database: the catalog cannot be read: {error.sqlstate}") from error
    except psycopg.Error as error:
        raise CatalogError(f"--database: {str(error).splitlines()[0]}") from error
    for schema in schemas:
        if not any(table["name"].startswith(f"{schema}.") for table in found):
            raise CatalogError(
                f"schema '{schema}' has no tables that can be seen", hint="--schema, and its USAGE"
            )
    return list(_tables(found, columns, constraints))


def _tables(
    found: list[dict[str, Any]], columns: list[dict[str, Any]], constraints: list[dict[str, Any]]
) -> Iterator[Table]:
    keys = {k["relation"]: tuple(k["columns"]) for k in constraints if k["type"] == "p"}
    names = {table["oid"]: table["name"] for table in found}
    key_of = {names[oid]: key for oid, key in keys.items()}
    for table in found:
        oid, notes = table["oid"], []
        kept = []
        for column in columns:
            if column["relation"] != oid:
                continue
            kind = _kind(column)
            if column["generated"]:
                notes.append(f"column {column['name']} is generated, and not in the WAL")
            elif kind is None:
                notes.append(
                    f"column {column['name']} has type {column['type']}, which is not captured by default"
                )
            else:
                kept.append(Column(column["name"], kind, column["nullable"]))
        foreign = []
        for constraint in constraints:
            if constraint["relation"] == oid and constraint["type"] == "f":
                pairs = dict(zip(constraint["other_columns"], constraint["columns"], strict=True))
                key = key_of.get(constraint["other"])
                if key is not None and set(pairs) == set(key):
                    by = tuple(pairs[column] for column in key)
                    foreign.append(ForeignKey(by, constraint["other"], owned=constraint["owned"]))
                else:
                    why = f"{constraint['other']} in a schema that was not read, or not its primary key"
                    notes.append(f"foreign key {', '.join(constraint['columns'])} refers to {why}")
        yield Table(table["name"], tuple(kept), keys.get(oid, ()), tuple(foreign), tuple(notes))


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
