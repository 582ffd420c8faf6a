"""DuckDB on the lakehouse's tables: a statement is answered in about a second, without a JVM.

The only module that imports duckdb. The database is in memory, its extensions come with the installation (nothing is loaded
from a network), and it can open files of the warehouse only. A table that a statement names becomes a view on the table's
newest metadata file, so that every table is read as of one commit of its own; DuckDB's Iceberg extension applies position
deletes, renamed and widened columns.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb

from tidings_lakehouse.catalogs.catalog import NAMESPACES, locations
from tidings_lakehouse.errors import QueryError
from tidings_lakehouse.reading.civil import moment_text
from tidings_lakehouse.reading.rows import Rows
from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.topics import CATALOG

_EXTENSIONS = ("avro", "iceberg")
_NAMED = re.compile(rf'\b({"|".join(NAMESPACES)})"?\s*\.\s*"?([A-Za-z_][A-Za-z0-9_]*)', re.IGNORECASE)
_READS = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
_NUMBERS = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\))")
_PLAIN = {"BOOLEAN", "VARCHAR"}
_NESTED = re.compile(r"(STRUCT|MAP)\(|.*\[\]$", re.DOTALL)
_SECRETS = {
    "s3.access-key-id": "KEY_ID",
    "s3.secret-access-key": "SECRET",
    "s3.session-token": "SESSION_TOKEN",
    "client.region": "REGION",
}


class DuckLake:
    """The lakehouse's tables in a DuckDB that is this object's; for one thread.

    Args:
        settings: where the tables are; `lakehouse_heap` bounds DuckDB's memory, too.
    """

    def __init__(self, settings: WarehouseSettings) -> None:
        self._settings = settings
        self.tables: Mapping[str, str] = locations(settings)
        self._viewed: set[str] = set()
        self.connection = duckdb.connect(
            config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        )
        try:
            self._prepare()
        except BaseException:
            self.connection.close()
            raise

    def close(self) -> None:
        """Forget everything."""
        self.connection.close()

    def refresh(self) -> None:
        """See what has been committed since."""
        self.tables = locations(self._settings)
        for name in self._viewed:
            self.connection.execute(f"DROP VIEW IF EXISTS {name} CASCADE")
        self._viewed = set()

    def view(self, name: str) -> str:
        """Have a table as a view; gives its name, to be used in a statement.

        Raises:
            QueryError: there is no such table, or it cannot be read.
        """
        if name not in self.tables:
            raise QueryError(f"there is no table {name}", hint="tidings lakehouse tables lists them")
        if name not in self._viewed:
            location = self.tables[name].replace("'", "''")
            self.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM iceberg_scan('{location}')")  # noqa: S608
            self._viewed.add(name)
        return name

    def columns(self, name: str) -> dict[str, str]:
        """The columns of a table with their types in DuckDB's words."""
        return {row[0]: row[1] for row in self.execute(f"DESCRIBE {self.view(name)}")}

    def property(self, name: str, key: str) -> str:
        """A property of a table; empty when it has none of that name."""
        return str(self.metadata(name).get("properties", {}).get(key, ""))

    def metadata(self, name: str) -> dict[str, Any]:
        """What a table's newest metadata file says (Iceberg specification, "Table Metadata")."""
        found: dict[str, Any] = json.loads(
            self.execute("SELECT content FROM read_text(?)", [self.tables[name]])[0][0]
        )
        return found

    def check_names(self, name: str) -> None:
        """See that DuckDB tells the columns of a table apart, and the fields within them.

        Raises:
            QueryError: the names of two differ in capitals only; it would give the values of the first for both.
        """
        metadata = self.metadata(name)
        schemas = {schema["schema-id"]: schema for schema in metadata["schemas"]}
        found = _same_but_capitals(schemas[metadata["current-schema-id"]])
        if found is not None:
            raise QueryError(
                f"the columns {found[0]!r} and {found[1]!r} of {name} are one to DuckDB, so that it would read wrong values",
                hint="read the table by pyiceberg, or by Spark with spark.sql.caseSensitive=true, or rename one by a transform"
                " of the connector",
            )

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run any statement of our own.

        Raises:
            QueryError: DuckDB refuses it.
        """
        try:
            return self.connection.execute(statement, values).fetchall()
        except duckdb.Error as error:
            raise _refused(error) from error

    def answer(self, statement: str, more: Mapping[str, str] | None = None) -> Rows:
        """Run a person's statement, which can only read.

        Args:
            more: by name, queries for views that are not tables (``technical.orders_history``).

        Raises:
            QueryError: it does more, or DuckDB refuses it.
        """
        statement = statement.strip().rstrip(";")
        try:
            parsed = self.connection.extract_statements(statement)
        except duckdb.Error as error:
            raise _refused(error) from error
        if len(parsed) != 1 or parsed[0].type not in _READS:
            raise QueryError(
                "only statements that read are run here", hint="begin with SELECT, WITH or DESCRIBE"
            )
        self._view_named(statement, more or {})
        if parsed[0].type == duckdb.StatementType.EXPLAIN:
            return Rows(("plan",), [(row[1],) for row in self.execute(statement)], (False,))
        return self._rows(statement)

    def named(self, statement: str) -> list[str]:
        """The tables of the lakehouse that a statement may name."""
        return sorted({f"{schema}.{table}".lower() for schema, table in _NAMED.findall(statement)})

    def _view_named(self, statement: str, more: Mapping[str, str]) -> None:
        for name in self.named(statement):
            if name in more:
                self.execute(f"CREATE OR REPLACE VIEW {name} AS {more[name]}")
            elif name in self.tables:
                self.check_names(name)
                self.view(name)

    def _rows(self, statement: str) -> Rows:
        described = self.execute(f"DESCRIBE {statement}")
        names, types = tuple(row[0] for row in described), [row[1] for row in described]
        shown = ", ".join(_shown(f"c{number}", type_) for number, type_ in enumerate(types))
        aliases = ", ".join(f"c{number}" for number in range(len(names)))
        found = self.execute(f"SELECT {shown} FROM ({statement}) AS answer({aliases})")  # noqa: S608 - our own words
        moments = [index for index, type_ in enumerate(types) if type_.startswith("TIMESTAMP")]
        return Rows(
            names,
            [_with_moments(row, moments) for row in found] if moments else found,
            tuple(_NUMBERS.fullmatch(type_) is not None for type_ in types),
        )

    def _prepare(self) -> None:
        run = self.connection.execute
        run("SET TimeZone = 'UTC'")
        run("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")  # as Spark has it
        run(f"SET memory_limit = '{self._settings.lakehouse_heap.upper()}B'")
        directory = self._settings.warehouse_directory
        for name in _EXTENSIONS if directory is not None else ("httpfs", *_EXTENSIONS):
            run(f"LOAD '{_extension(name)}'")
        if directory is None:
            run(_secret(self._settings))
        for namespace in NAMESPACES:
            run(f"CREATE SCHEMA {namespace}")
        spill = Path(tempfile.gettempdir()) / "tidings-lakehouse-duckdb"
        run(f"SET temp_directory = '{_text(str(spill))}'")
        allowed = (
            [str(directory), directory.as_uri(), f"file:{directory}"]
            if directory is not None
            else [self._settings.warehouse_uri]
        )
        run(f"SET allowed_directories = [{', '.join(chr(39) + _text(one) + chr(39) for one in allowed)}]")
        run("SET enable_external_access = false")
        run("SET lock_configuration = true")


@contextmanager
def duck_lake(settings: WarehouseSettings) -> Iterator[DuckLake]:
    """The lakehouse in DuckDB, closed at the end."""
    lake = DuckLake(settings)
    try:
        yield lake
    finally:
        lake.close()


def list_store(settings: WarehouseSettings) -> None:
    """See that the warehouse's bucket is there, and that its key may list it.

    Raises:
        QueryError: it is not, or may not.
    """
    with duckdb.connect(
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    ) as connection:
        try:
            connection.execute(f"LOAD '{_extension('httpfs')}'")
            connection.execute(_secret(settings))
            connection.execute("SELECT count(*) FROM glob(?)", [f"{settings.warehouse_uri.rstrip('/')}/*"])
        except duckdb.Error as error:
            raise _refused(error) from error


def _same_but_capitals(type_: Any) -> tuple[str, str] | None:
    """Two fields of a struct, at any depth, whose names differ in capitals only (Iceberg specification, "Schemas")."""
    if not isinstance(type_, dict):
        return None
    seen: dict[str, str] = {}
    for field in type_.get("fields", ()):
        other = seen.setdefault(field["name"].lower(), field["name"])
        if other != field["name"]:
            return other, field["name"]
    inner = [field["type"] for field in type_.get("fields", ())]
    inner += [type_[part] for part in ("element", "key", "value") if part in type_]
    return next((found for found in map(_same_but_capitals, inner) if found is not None), None)


def _shown(column: str, type_: str) -> str:
    """A column as `Rows` has it: values that JSON has no type for are written as SQL writes them."""
    if type_ in _PLAIN or _NUMBERS.fullmatch(type_):
        return column
    if type_.startswith("TIMESTAMP"):
        return f"epoch_us({column})"  # Python has no year 294247
    if type_ == "BLOB":
        return f"hex({column})"
    if _NESTED.match(type_):
        return f"CAST(to_json({column}) AS VARCHAR)"
    return f"CAST({column} AS VARCHAR)"


def _with_moments(row: tuple[Any, ...], moments: Sequence[int]) -> tuple[Any, ...]:
    changed = list(row)
    for index in moments:
        if changed[index] is not None:
            changed[index] = moment_text(changed[index])
    return tuple(changed)


def _extension(name: str) -> str:
    spec = find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None:
        raise QueryError(
            f"DuckDB's extension {name} is not installed", hint=f"pip install duckdb-extension-{name}"
        )
    path = Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    return _text(str(path))


def _secret(settings: WarehouseSettings) -> str:
    """The object store's keys, from those that Spark's S3FileIO has."""
    prefix = f"spark.sql.catalog.{CATALOG}."
    conf = {
        key.removeprefix(prefix): value
        for key, value in settings.spark_conf.items()
        if key.startswith(prefix)
    }
    parts = [f"{name} '{_text(conf[key])}'" for key, name in _SECRETS.items() if key in conf]
    if "s3.endpoint" in conf:
        scheme, _, host = conf["s3.endpoint"].rpartition("://")
        parts += [f"ENDPOINT '{_text(host.rstrip('/'))}'", f"USE_SSL {str(scheme != 'http').lower()}"]
    if conf.get("s3.path-style-access", "").lower() == "true":
        parts.append("URL_STYLE 'path'")
    return f"CREATE SECRET lake (TYPE s3{''.join(f', {part}' for part in parts)})"


def _text(value: str) -> str:
    return value.replace("'", "''")


def _refused(error: duckdb.Error) -> QueryError:
    message = str(error).strip().splitlines()
    return QueryError(message[0] if message else type(error).__name__)
