"""Where each table's metadata are, by the Iceberg JDBC catalog's own table, or a REST catalog's server: no JVM, no Spark.

``iceberg_tables`` has one row a table (Iceberg, JdbcUtil.java): catalog, namespace, name, the URI of the newest metadata file
and, since version V1, whether it is a table or a view.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from urllib.parse import unquote

from tidings_lakehouse.catalogs.conf import JDBC, REST, catalog_kind, rest_login
from tidings_lakehouse.catalogs.rest import RestLocations
from tidings_lakehouse.database import connected, of_jdbc, rows
from tidings_lakehouse.errors import QueryError
from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.topics import BUSINESS, CATALOG, REPLAYED, SYSTEM, TECHNICAL

NAMESPACES = (BUSINESS, TECHNICAL, SYSTEM, REPLAYED)
_SQLITE, _POSTGRES = "jdbc:sqlite:", "jdbc:postgresql:"
_STATEMENT = "SELECT * FROM iceberg_tables"
_BUSY_SECONDS = 30.0
_MISSING_RIGHTS = """
    SELECT needed || ' ON ' || name
    FROM unnest(ARRAY['iceberg_tables', 'iceberg_namespace_properties']) AS name,
        unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS needed
    WHERE to_regclass(name) IS NOT NULL AND NOT has_table_privilege(to_regclass(name), needed)
    UNION ALL
    SELECT 'CREATE ON SCHEMA ' || quote_ident(coalesce(current_schema(), 'public'))
    WHERE to_regclass('iceberg_tables') IS NULL
        AND NOT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
"""
"""The job makes the catalog's two tables when they are not there."""


def locations(settings: WarehouseSettings) -> Mapping[str, str]:
    """Table (``technical.orders``) to the URI of its newest metadata file.

    Raises:
        QueryError: the catalog is of a kind that is only read by Spark.
        DatabaseError: the catalog's database does not answer.
        CatalogError: the catalog's server does not answer, or refuses.
    """
    kind = catalog_kind(settings)
    if kind == REST:
        return RestLocations(rest_login(settings), NAMESPACES)
    uri = settings.catalog_uri if kind == JDBC else ""
    if uri.startswith(_SQLITE):
        found = _of_sqlite(uri)
    elif uri.startswith(_POSTGRES):
        found = _of_postgres(settings, uri)
    else:
        raise QueryError(
            f"a catalog of the kind {uri.split('//')[0] or kind or 'catalog-impl'} is read by Spark only",
            hint="add --engine spark",
        )
    return {
        f"{row['table_namespace']}.{row['table_name']}": str(row["metadata_location"])
        for row in found
        if row["catalog_name"] == CATALOG
        and row["table_namespace"] in NAMESPACES
        and row.get("iceberg_type") in {None, "TABLE"}
    }


def missing_rights(settings: WarehouseSettings) -> list[str]:
    """What the catalog's user may not do in its database and has to: ``INSERT ON iceberg_tables``.

    Empty for an SQLite file, whose rights are the directory's, and for a catalog of a kind that only Spark reads.

    Raises:
        DatabaseError: the catalog's database does not answer, or refuses the login.
        SettingsError: no catalog is named.
    """
    if catalog_kind(settings) != JDBC:
        return []
    uri = settings.catalog_uri
    if not uri.startswith(_POSTGRES):
        return []
    parameters = of_jdbc(uri, settings.lakehouse_catalog_user, settings.catalog_password)
    with connected("TIDINGS_LAKEHOUSE_CATALOG", **parameters) as database:
        return [str(missing) for (missing,) in rows(database, _MISSING_RIGHTS)]


def _of_sqlite(uri: str) -> list[dict[str, object]]:
    path = unquote(uri.removeprefix(_SQLITE).removeprefix("file:").partition("?")[0])
    try:
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(_STATEMENT)]
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return []
        raise QueryError(f"the catalog {path} cannot be read: {error}") from error


def _of_postgres(settings: WarehouseSettings, uri: str) -> list[dict[str, object]]:
    parameters = of_jdbc(uri, settings.lakehouse_catalog_user, settings.catalog_password)
    with connected("TIDINGS_LAKEHOUSE_CATALOG", **parameters) as database:
        cursor = database.execute(_STATEMENT)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in rows(database, _STATEMENT)]
