"""Versions of a read model in PostgreSQL: each has a schema of its own, and readers have views in the schema that they know.

The first version's tables stand where readers look for them. When the second takes their place, they move to a schema of their
own and become a version like the others; from then on a switch is a view with another SELECT.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tidings_connect.config.sink_options import TOPICS_REGEX, topics_of
from tidings_connect.errors import ConnectError
from tidings_sinks.errors import RebuildError
from tidings_sinks.jdbc import flat_options, options
from tidings_sinks.jdbc.database import TableName
from tidings_sinks.jdbc.databases.postgres import PostgresDatabase, identifier, quoted
from tidings_sinks.jdbc.settings import Naming as TableNaming
from tidings_sinks.jdbc.settings import Settings
from tidings_sinks.read_model import Naming

_MOST_NAME_BYTES: Final = 63
_TABLES: Final = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relkind IN ('r', 'p') ORDER BY 1"""
_KIND: Final = """
SELECT c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s"""
_READ_BY: Final = """
SELECT DISTINCT t.relname, tn.nspname FROM pg_depend d
  JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
  JOIN pg_class v ON v.oid = r.ev_class JOIN pg_namespace vn ON vn.oid = v.relnamespace
  JOIN pg_class t ON t.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass JOIN pg_namespace tn ON tn.oid = t.relnamespace
 WHERE vn.nspname = %s AND v.relkind = 'v' AND v.relname = t.relname AND t.oid <> v.oid"""
_VIEWS_ON: Final = """
SELECT DISTINCT v.oid::regclass::text FROM pg_depend d
  JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass JOIN pg_class v ON v.oid = r.ev_class
  JOIN pg_class t ON t.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass JOIN pg_namespace n ON n.oid = t.relnamespace
 WHERE n.nspname = %s AND t.relname = %s AND v.oid <> t.oid ORDER BY 1"""
_GRANTS: Final = """
SELECT a.privilege_type, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END, a.is_grantable
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) a
  LEFT JOIN pg_roles r ON r.oid = a.grantee
 WHERE n.nspname = %s AND c.relname = %s AND a.grantee <> c.relowner
   AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER')"""
_INDEXES: Final = """
SELECT x.relname, replace(pg_get_indexdef(i.indexrelid), format(' ON %%I.%%I USING ', n.nspname, t.relname),
                          format(' ON %%I.%%I USING ', %s::text, t.relname))
  FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
  JOIN pg_namespace n ON n.oid = t.relnamespace
 WHERE n.nspname = %s AND t.relname = %s AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = x.oid)
   AND NOT EXISTS (SELECT 1 FROM pg_class o JOIN pg_namespace m ON m.oid = o.relnamespace
                    WHERE m.nspname = %s AND o.relname = x.relname)
 ORDER BY 1"""
_OLDER_SNAPSHOTS: Final = """
SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND backend_xmin IS NOT NULL
   AND age(backend_xmin) > pg_snapshot_xmax(pg_current_snapshot())::text::bigint - %s"""


class PostgresVersions:
    """A `ReadModel`.

    Raises:
        RebuildError: the tables' names are not such that a version can have its own.
        LostError, TargetError: the database cannot be reached, or refuses the login.
    """

    converts = True

    def __init__(self, naming: Naming, settings: Settings, config: Mapping[str, str]) -> None:
        if settings.address.dialect != "postgresql":
            raise RebuildError(
                f"{naming.connector} writes to {settings.address.dialect}: a read model of tables is rebuilt in PostgreSQL only"
            )
        self._naming, self._settings, self._topics = naming, settings, topics_of(config)
        schema = _schema_of(naming, settings, config)
        self._database = PostgresDatabase(settings)
        if schema is None:
            ((schema,),) = self._database.ask("SELECT current_schema()")
        self._schema = str(schema)
        self._settled: int | None = None
        """The transaction before which others must have begun, to be waited for."""

    def close(self) -> None:
        """See `ReadModel.close`."""
        self._database.close()

    def options(self, version: int, config: Mapping[str, str]) -> dict[str, str]:
        """See `ReadModel.options`."""
        name = _format_name(config)
        return {name: f"{self._place(version)}.{_format(config).rpartition('.')[2]}"}

    def version_of(self, config: Mapping[str, str]) -> int | None:
        """See `ReadModel.version_of`."""
        return self._naming.version_in(_format(config).rpartition(".")[0])

    def shared(self, config: Mapping[str, str]) -> Sequence[str]:  # noqa: ARG002 - a place is one version's own
        """See `ReadModel.shared`."""
        return ()

    def live(self) -> int | None:
        """See `ReadModel.live`."""
        found = {
            version
            for _, schema in self._database.ask(_READ_BY, (self._schema,))
            if (version := self._version(schema)) is not None
        }
        return max(found, default=None)

    def prepare(self, version: int) -> None:
        """See `ReadModel.prepare`."""
        place = identifier(self._place(version))
        self._database.begin()
        try:
            self._database.ask(f"DROP SCHEMA IF EXISTS {place} CASCADE")
            self._database.ask(f"CREATE SCHEMA {place}")
            if not self._settings.makes_tables:
                for table in self._copied():
                    self._database.ask(
                        f"CREATE TABLE {self._at(version, table)} (LIKE {self._readers(table)} INCLUDING ALL)"
                    )
            self._database.commit()
        finally:
            self._database.rollback()

    def _copied(self) -> list[str]:
        """The tables that the connector does not make itself: they are made like those that readers see."""
        text = self._settings.name_format.rpartition(".")[2]
        if "${source." in text:
            raise RebuildError(
                f"{self._naming.connector} makes no tables, and {text} does not say which there are",
                hint=f"let the new version make them ({self._settings.words.makes_tables} in a file given with --connector)",
            )
        topics = [topic.replace(".", "_") for topic in self._topics]
        return sorted({text.replace("${topic}", topic) for topic in topics})

    def counts(self, version: int) -> dict[str, int]:
        """See `ReadModel.counts`."""
        found = {}
        for table in self._tables(version):
            ((count,),) = self._database.ask(f"SELECT count(*) FROM {self._at(version, table)}")  # noqa: S608 - quoted
            found[table] = int(count)
        if not found and version == 1:
            for table in self._plain():
                ((count,),) = self._database.ask(f"SELECT count(*) FROM {self._readers(table)}")  # noqa: S608 - quoted
                found[table] = int(count)
        return found

    def complete(self, version: int, live: int) -> Sequence[str]:
        """The indexes that a person has made, and the statistics for the planner."""
        failed = []
        schema = self._place(live) if self._tables(live) else self._schema
        for table in self._tables(version):
            place = self._place(version)
            for name, definition in self._database.ask(_INDEXES, (place, schema, table, place)):
                try:
                    self._database.ask(definition)
                except ConnectError as error:  # one that the new structure cannot have stops nothing
                    failed.append(f"index {name} of {table} could not be made: {error}")
            self._database.ask(f"ANALYZE {self._at(version, table)}")
        return failed

    def settle(self, version: int) -> bool:  # noqa: ARG002 - the transactions of all count
        """Whether all transactions are over that began before now: a later look of theirs would see a part of what was written since."""
        if self._settled is None:
            ((now,),) = self._database.ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
            self._settled = int(now)
        ((count,),) = self._database.ask(_OLDER_SNAPSHOTS, (self._settled,))
        return not count

    def switch(self, version: int, former: int, *, keeps: bool) -> None:  # noqa: ARG002 - nothing is lost by it
        """See `ReadModel.switch`."""
        tables = self._tables(version)
        self._database.begin()
        try:
            # Who waits for a lock holds up all who come after: better let go, and try again.
            self._database.ask("SET LOCAL lock_timeout TO '500ms'")
            for table in tables:
                self._show(table, version, former)
            for table, schema in self._database.ask(_READ_BY, (self._schema,)):
                if schema == self._place(former) and table not in tables:
                    self._database.ask(f"DROP VIEW {self._readers(table)}")
            self._database.commit()
        finally:
            self._database.rollback()
            self._settled = None

    def _show(self, table: str, version: int, former: int) -> None:
        """Have readers see a table of a version by its name; within a transaction."""
        readers, at = self._readers(table), (self._schema, table)
        kind = next((row[0] for row in self._database.ask(_KIND, at)), None)
        grants = self._database.ask(_GRANTS, at) if kind is not None else []
        select = f"SELECT * FROM {self._at(version, table)}"  # noqa: S608 - quoted
        if kind in {"r", "p"}:
            views = [name for (name,) in self._database.ask(_VIEWS_ON, at)]
            if views:
                raise RebuildError(
                    f"{', '.join(views)} read {self._schema}.{table}, and would go on reading the former version",
                    hint="drop them, run the rebuild again, and make them anew: a view is in the table's place then",
                )
            place = identifier(self._place(former))
            self._database.ask(f"CREATE SCHEMA IF NOT EXISTS {place}")
            self._database.ask(f"ALTER TABLE {readers} SET SCHEMA {place}")
        elif kind == "v" and self._same_columns(table, version):
            self._database.ask(f"CREATE OR REPLACE VIEW {readers} AS {select}")
            return
        elif kind == "v":
            self._database.ask(f"DROP VIEW {readers}")
        elif kind is not None:
            raise RebuildError(f"{self._schema}.{table} is neither a table nor a view")
        self._database.ask(f"CREATE VIEW {readers} AS {select}")
        for privilege, role, grantable in grants:
            more = " WITH GRANT OPTION" if grantable else ""
            self._database.ask(f"GRANT {privilege} ON {readers} TO {role}{more}")

    def _same_columns(self, table: str, version: int) -> bool:
        """Whether a view may get another SELECT: it has the columns that it had, and perhaps more behind them."""
        had = list(self._database.columns(TableName(self._schema, table)).values())
        has = list(self._database.columns(TableName(self._place(version), table)).values())
        return [(one.name, one.type) for one in had] == [(one.name, one.type) for one in has[: len(had)]]

    def go_on(self, version: int) -> None:
        """See `ReadModel.go_on`: nothing hinders it."""

    def drop(self, version: int, group: str) -> None:
        """See `ReadModel.drop`. Waits for whoever reads a table of it."""
        self._database.begin()
        try:
            self._database.ask("SET LOCAL lock_timeout TO '10min'")
            self._database.ask(f"DROP SCHEMA IF EXISTS {identifier(self._place(version))} CASCADE")
            ((there,),) = self._database.ask("SELECT to_regclass(%s)", (self._settings.positions,))
            if there is not None:
                self._database.ask(
                    f"DELETE FROM {self._settings.positions} WHERE consumer_group = %s",  # noqa: S608 - checked as a name
                    (group,),
                )
            self._database.commit()
        finally:
            self._database.rollback()

    # Names

    def _place(self, version: int) -> str:
        name = f"{self._schema}{self._naming.suffix(version)}".lower()
        if len(name.encode()) > _MOST_NAME_BYTES:
            raise RebuildError(
                f"the schema of version {version} would be {name}, which has more than {_MOST_NAME_BYTES} bytes",
                hint=f"give connector {self._naming.connector} a shorter name",
            )
        return name

    def _version(self, schema: str) -> int | None:
        version = self._naming.version_in(schema)
        return version if version is not None and schema == self._place(version) else None

    def _tables(self, version: int) -> list[str]:
        return [name for (name,) in self._database.ask(_TABLES, (self._place(version),))]

    def _plain(self) -> list[str]:
        """Of the tables that any version has: those that stand where readers look for them."""
        found = self._database.ask(
            "SELECT DISTINCT c.relname, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind IN ('r', 'p') AND n.nspname LIKE %s",
            (f"{self._schema}\\_\\_%".lower(),),
        )
        names = {name for name, schema in found if self._version(schema) is not None}
        return sorted(names & {name for (name,) in self._database.ask(_TABLES, (self._schema,))})

    def _at(self, version: int, table: str) -> str:
        return quoted(TableName(self._place(version), table))

    def _readers(self, table: str) -> str:
        return quoted(TableName(self._schema, table))


def _format_name(config: Mapping[str, str]) -> str:
    """The option that says how tables are called."""
    if "io.debezium" in config["connector.class"] or "." not in config["connector.class"]:
        former = config.get(options.FORMER_NAME_FORMAT, "").strip()
        return options.FORMER_NAME_FORMAT if former else options.NAME_FORMAT
    return flat_options.NAME_FORMAT


def _format(config: Mapping[str, str]) -> str:
    return config.get(_format_name(config), "").strip() or "${topic}"


def _schema_of(naming: Naming, settings: Settings, config: Mapping[str, str]) -> str | None:
    """The schema in which readers look; None: where the database looks first.

    Raises:
        RebuildError: it depends on the record, or a version's cannot be put in its place.
    """
    schema, _, table = _format(config).rpartition(".")
    what = _format_name(config)
    if "${" in schema:
        raise RebuildError(
            f"{naming.connector} takes the schema from the record ({what}={_format(config)}): a version needs one schema",
            hint="have a connector for each schema, with its name in the option",
        )
    dotted = bool(config.get(TOPICS_REGEX, "").strip()) or any("." in topic for topic in topics_of(config))
    if settings.naming is TableNaming.NORMALIZED or settings.tables:
        raise RebuildError(f"{naming.connector} names its tables by {flat_options.MAPPING} or {flat_options.NORMALIZE}, which leaves no place for a version's schema")  # fmt: skip
    if settings.naming is TableNaming.AS_IT_IS and "${topic}" in table and dotted:
        raise RebuildError(
            f"{naming.connector} takes schema and table from the topic ({what}={_format(config)})",
            hint="name the table, one connector for each, or take Debezium's class",
        )
    version = naming.version_in(schema)
    return (schema.removesuffix(naming.suffix(version)) if version is not None else schema) or None
