"""The topic of schema changes, ``<topic.prefix>``: each definition (DDL) and the tables behind it, as Debezium writes them."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.encoding.records import Place, source_schema
from tidings_capture.mysql.encoding.selected import quoted
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.schemas.catalog import SYSTEM, Table, tables
from tidings_capture.mysql.schemas.ddl import Definition, definitions
from tidings_capture.mysql.schemas.structure import CHANGE, change, structure
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_connect.transforms.record import Header, SourceRecord
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema

_CHARSETS: Final = """
SHOW VARIABLES WHERE Variable_name IN ('character_set_server', 'collation_server')
"""
_DATABASES: Final = """
SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata
"""
_CLOCK_SECONDS: Final = 1
"""The server tells when a table was made, and a statement began and how long it took, in whole seconds."""


@dataclass(frozen=True, slots=True)
class Structure:
    """One of the statements that would make all tables as they are."""

    database: str
    table: str | None
    ddl: str
    changes: Sequence[Mapping[str, Any]] = ()


@lru_cache
def schemas_of(database: str) -> tuple[ConnectSchema, ConnectSchema]:
    """Of keys and values, which differ in their names.

    Args:
        database: see `Flavour.name`.
    """
    names = f"io.debezium.connector.{database}.SchemaChange"
    fields = (
        ("source", source_schema(database)),
        ("ts_ms", semantic.INT64),
        ("databaseName", semantic.OPTIONAL_STRING),
        ("schemaName", semantic.OPTIONAL_STRING),
        ("ddl", semantic.OPTIONAL_STRING),
        ("tableChanges", semantic.array(CHANGE)),
    )
    key = semantic.struct(f"{names}Key", (("databaseName", semantic.STRING),), version=1)
    return key, semantic.struct(f"{names}Value", fields, version=1)


class SchemaTopic:
    """Writes its records."""

    def __init__(self, config: MariaDbConfig) -> None:
        self._config = config
        self._key_schema, self._value_schema = schemas_of(config.flavour.name)
        self._headers = tuple(Header(name, semantic.STRING, value) for name, value in config.headers)

    def _structure(self, session: Session, database: str, name: str) -> tuple[Table, dict[str, Any]] | None:
        return structure(session, database, name, comments=self._config.fields.comments)

    def streamed(
        self, session: Session, statement: str, database: str, place: Place, ended: int
    ) -> Iterator[SourceRecord]:
        """What a statement of the log is told as.

        Args:
            database: the one that was in use.
            ended: when the statement had been run, in seconds since the Unix epoch. What was altered after it is told without
                its columns, as only the server's catalog knows them, and that of now.

        Raises:
            MariaDbError: the server cannot be asked.
        """
        for one in self.told(statement, database):
            changes = [] if not one.type else [self._change(session, one, ended)]
            nanos = place.nanos // 1_000_000 * 1_000_000 or place.seconds * 1_000_000_000
            name = ",".join(one.tables) if one.tables else one.table
            source = self._source(place, nanos, one.database, name)
            yield self._record(one.database, one.statement, changes, source)

    def told(self, statement: str, database: str) -> list[Definition]:
        """What a statement of the log is told as: nothing where it is about what is not told of."""
        found = definitions(statement, database)
        if self._config.history_tables and not any(
            one.table and self._config.captures(one.database, one.table) for one in found
        ):
            return []
        return [one for one in found if self._tells(one.database)]

    def _change(self, session: Session, one: Definition, ended: int) -> dict[str, Any]:
        now = None if one.type == "DROP" else self._structure(session, one.database, one.table or "")
        if now is not None and now[0].created is not None and now[0].created > ended + _CLOCK_SECONDS:
            now = None
        return change(one.type, one.database, one.table or "", now[1] if now else None)

    def _tells(self, database: str) -> bool:
        if database.lower() in SYSTEM:
            return False
        return not self._config.history_databases or self._config.tables.captures_schema(database)

    def structures(
        self, session: Session, only: Collection[tuple[str, str]] | None = None
    ) -> Iterator[Structure]:
        """The structure of all tables that are told of, as statements that would make them.

        Args:
            only: these tables, and nothing of their databases.

        Raises:
            MariaDbError: the server cannot be asked.
        """
        names = sorted(
            (found.database, found.name)
            for found in tables(session)
            if self._tells(found.database)
            and (not self._config.history_tables or self._config.captures(found.database, found.name))
            and (only is None or (found.database, found.name) in only)
        )
        if only is not None:
            yield from self._tables(session, names)
            return
        variables = dict(session.rows(_CHARSETS))
        said = ", ".join(f"{name}={variables[name]}" for name in sorted(variables))
        yield Structure("", None, f"SET {said}")
        yield from self._drops(names)
        charsets = {name: (charset, collation) for name, charset, collation in session.rows(_DATABASES)}
        for database in dict.fromkeys(database for database, _ in names):
            yield Structure(database, None, f"DROP DATABASE IF EXISTS {quoted(database)}")
            charset, collation = charsets.get(database, ("", ""))
            ddl = f"CREATE DATABASE {quoted(database)} CHARSET {charset} COLLATE {collation}"
            yield Structure(database, None, ddl)
            yield Structure(database, None, f"USE {quoted(database)}")
            yield from self._creates(session, [found for found in names if found[0] == database])

    def _tables(self, session: Session, names: Sequence[tuple[str, str]]) -> Iterator[Structure]:
        yield from self._drops(names)
        yield from self._creates(session, names)

    def _drops(self, names: Sequence[tuple[str, str]]) -> Iterator[Structure]:
        for database, name in names:
            ddl = f"DROP TABLE IF EXISTS {quoted(database)}.{quoted(name)}"
            yield Structure(database, name, ddl, [change("DROP", database, name, None)])

    def _creates(self, session: Session, names: Sequence[tuple[str, str]]) -> Iterator[Structure]:
        for database, name in names:
            made = self._structure(session, database, name)
            if made is None:
                continue  # dropped just now
            ((_, ddl),) = session.rows(f"SHOW CREATE TABLE {quoted(database)}.{quoted(name)}")
            yield Structure(database, name, ddl, [change("CREATE", database, name, made[1])])

    def snapshot(self, told: Structure, offset: Offset) -> SourceRecord:
        """The record of a structure at the beginning of a snapshot."""
        place = Place(snapshot="true", file=offset.file, position=offset.position)
        source = self._source(place, time.time_ns(), told.database, told.table)
        return self._record(told.database, told.ddl, told.changes, source)

    def _source(self, place: Place, nanos: int, database: str, table: str | None) -> dict[str, Any]:
        return {
            "version": self._config.flavour.version,
            "connector": self._config.flavour.name,
            "name": self._config.prefix,
            "ts_ms": nanos // 1_000_000,
            "snapshot": place.snapshot,
            "db": database,
            "sequence": None,
            "ts_us": nanos // 1_000,
            "ts_ns": nanos,
            "table": table,
            "server_id": place.server_id,
            "gtid": place.gtid,
            "file": place.file,
            "pos": place.position,
            "row": 0,
            "thread": None,
            "query": None,
        }

    def _record(
        self, database: str, ddl: str, changes: Sequence[Mapping[str, Any]], source: Mapping[str, Any]
    ) -> SourceRecord:
        value = {
            "source": source,
            "ts_ms": time.time_ns() // 1_000_000,
            "databaseName": database,
            "schemaName": None,
            "ddl": ddl,
            "tableChanges": list(changes),
        }
        key = {"databaseName": database}
        return SourceRecord(
            self._config.prefix,
            0,
            self._key_schema,
            key,
            self._value_schema,
            value,
            None,
            list(self._headers),
        )
