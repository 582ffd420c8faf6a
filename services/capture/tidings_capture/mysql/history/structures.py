"""The columns of captured tables at the stream's place in the log, where the log does not name them.

They are the catalog's, which knows those of now only. What it says of a table holds for a place of the log, if no definition (DDL)
of the table stands between that place and the end of the log when the catalog was asked. So the log is read ahead from the place
on, for its definitions; of a table that was altered again in that part nobody knows the columns, and its rows stop the task.
What was found is kept in the schema history, so that it is known after a restart, whatever was altered meanwhile.

No definition is understood here: each that names a table may have altered it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

import orjson

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.position import LogPosition, TransactionId
from tidings_capture.mysql.binlog.second_reader import events_behind
from tidings_capture.mysql.binlog.statements import Kind, kind_of
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import MariaDbError, UnsupportedError
from tidings_capture.mysql.history.topic import SchemaHistory
from tidings_capture.mysql.offset import Offset, Places
from tidings_capture.mysql.schemas.catalog import Column, Table, table, tables
from tidings_capture.mysql.schemas.ddl import definitions
from tidings_capture.mysql.server import names_columns
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_connect.errors import OffsetError
from tidings_service import get_logger

_log = get_logger(__name__)
Name = tuple[str, str]
"""Database and table."""
Found = dict[Name, Table | None]
"""None: nobody knows its columns, or it is gone."""
_TABLES: Final = "tidings_tables"
"""The field of a history's record with tables."""
_GTID: Final = "tidings_gtid"
"""And that with the definition's, where it is of one."""
_ANEW: Final = "tidings_anew"
"""And that which says that everything before is of no use."""
_IDLE_HEARTBEATS: Final = 3
"""So many in a row: nothing more comes. MySQL sends one also where it has left out what lies before the place."""
_ENDS: Final = frozenset({log.XID, log.QUERY, log.QUERY_COMPRESSED, log.XA_PREPARE})


class Structures:
    """Of one stream.

    Args:
        history: where they are kept; None: the log names columns, so that they are not needed.
        ask: gives a session, which may be another one after an error.
    """

    def __init__(
        self, config: MariaDbConfig, history: SchemaHistory | None, ask: Callable[[], Session]
    ) -> None:
        self._config = config
        self._history = history
        self._ask = ask
        self._known: Found = {}
        self._found: dict[str, Found] = {}
        """What was found of definitions before a restart, by their GTIDs."""
        self._ahead: list[tuple[TransactionId, str, str]] = []
        """Definitions that the stream has not come to: their statements, and the databases in use."""
        self._scanned: LogPosition | None = None
        self._is_begun = False

    def _begin(self, place: Offset) -> None:
        """The stream is at a place, and something has to be known."""
        if self._history is None:
            raise UnsupportedError(
                "the binary log does not name the columns of tables, and no schema history is configured",
                hint="SET GLOBAL binlog_row_metadata=FULL; what was written before cannot be read: take a new snapshot",
            )
        self._known, self._found = kept_at(self._history.records(), place.gtids, self._config.flavour)
        missing = [name for name in captured(self._ask(), self._config) if name not in self._known]
        self._learn(missing, place)
        self._is_begun = True

    def _learn(self, names: Collection[Name], place: Offset) -> None:
        if names:
            found = self.resolve(names, place.gtids)
            self._known |= found
            assert self._history is not None
            self._history.keep({_TABLES: _written(found)}, place)

    def at(self, name: Name, place: Offset) -> Table:
        """A table at the stream's place.

        Raises:
            UnsupportedError: nobody knows it.
            BinlogLostError: the log cannot be read.
            BrokerError: the history cannot be read or written.
            MariaDbError: the server cannot be asked.
        """
        if not self._is_begun:
            self._begin(place)
        if name not in self._known:
            self._learn([name], place)
        known = self._known[name]
        if known is None:
            raise UnsupportedError(
                f"the log does not name the columns of {'.'.join(name)}, and they cannot be known at this place: the table was"
                " altered again before the rows that were written in between were read",
                hint="SET GLOBAL binlog_row_metadata=FULL and take a new snapshot, or leave the table out with table.exclude.list",
            )
        return known

    def define(
        self, statement: str, database: str, gtid: TransactionId, place: Offset, behind: LogPosition
    ) -> Mapping[str, Any]:
        """A definition is passed: what the history is to keep of the tables that it may have altered.

        Args:
            database: the one that was in use.
            place: before it.
            behind: the place after it.

        Raises:
            BinlogLostError: the log cannot be read.
            BrokerError: the history cannot be read or written.
            MariaDbError: the server cannot be asked.
        """
        if not self._is_begun:
            if self._history is None or names_columns(self._ask()):
                return {}
            self._begin(place)
        names = {*self._known, *captured(self._ask(), self._config)}
        touched = [name for name in names if touches(statement, database, name)]
        if not touched:
            return {}
        found = self.resolve(touched, behind)
        before = self._found.pop(str(gtid), {})
        found |= {name: known for name, known in before.items() if name in found and known is not None}
        self._known |= found
        return {_TABLES: _written(found), _GTID: str(gtid)}

    def begin_anew(self, place: Offset) -> Mapping[str, Any]:
        """Keep all captured tables in the history as they are at a place, and nothing of what it says of them before.

        Returns:
            What marks other records of the same place: they alter nothing.

        Raises:
            MariaDbError: one was altered just now; or the server cannot be asked.
            BrokerError: the history cannot be written.
        """
        assert self._history is not None
        found = self.resolve(captured(self._ask(), self._config), place.gtids)
        for name, known in found.items():
            if known is None:
                raise MariaDbError(f"{'.'.join(name)} is being altered: the snapshot begins anew")
        self._history.keep({_TABLES: _written(found), _ANEW: True}, place)
        return {_TABLES: {}}

    def resolve(self, names: Collection[Name], behind: LogPosition) -> Found:
        """Tables at a place of the log. Errors are those of `define`."""
        session = self._ask()
        found: Found = {name: table(session, *name) for name in names}
        self._config.flavour.await_definitions(session, names)
        self._read_ahead(behind, self._config.flavour.end(session, behind))
        for name in names:
            if any(touches(statement, database, name) for _, statement, database in self._ahead):
                _log.warning(
                    "a table was altered again: its columns before are not known", table=".".join(name)
                )
                found[name] = None
        return found

    def _read_ahead(self, behind: LogPosition, until: LogPosition) -> None:
        """Know the definitions between two places."""
        scanned = self._scanned
        if scanned is not None and scanned.contains(behind):
            self._ahead = [one for one in self._ahead if not behind.holds(one[0])]
        else:
            self._ahead, scanned = [], behind
        self._scanned = scanned
        if not scanned.contains(until):
            self._ahead += _definitions(self._config, scanned, until)
            self._scanned = until


def touches(statement: str, database: str, name: Name) -> bool:
    """Whether a definition may have altered a table: whether it names it, or all of its database.

    Args:
        database: the one that was in use.
    """
    told = definitions(statement, database)
    if any(one.table is None and one.database.casefold() == name[0].casefold() for one in told):
        return True
    if told and all(one.type == "CREATE" for one in told):  # names others only to be like them
        return any((one.table or "").casefold() == name[1].casefold() for one in told)
    return bool(told) and _names(statement, name[1])


def _names(statement: str, table: str) -> bool:
    if not table.isascii() and not statement.isascii():
        return True  # it may be written in another character set
    word = re.escape(table.replace("`", "``").casefold())
    return re.search(rf"(?<![\w$]){word}(?![\w$])", statement.casefold()) is not None


def captured(session: Session, config: MariaDbConfig) -> list[Name]:
    """The captured tables that the server has now."""
    there = ((found.database, found.name) for found in tables(session))
    return [name for name in there if config.captures(*name)]


def _definitions(
    config: MariaDbConfig, behind: LogPosition, until: LogPosition
) -> Iterator[tuple[TransactionId, str, str]]:
    """The definitions of the log between two places."""
    current, is_last, idle = None, False, 0
    for event in events_behind(config, behind):
        if event is None:
            continue
        idle = idle + 1 if event.type in {log.HEARTBEAT, log.HEARTBEAT_V2} else 0
        if idle > _IDLE_HEARTBEATS:
            raise MariaDbError(
                f"the server's log ends at {behind}, but the server said that it ends at {until}"
            )
        if event.type == log.GTID:
            current = log.read_gtid(event).gtid
            behind = behind.after(current)
            is_last = behind.contains(until)
            continue
        if current is not None and event.type in {log.QUERY, log.QUERY_COMPRESSED}:
            query = log.read_query(event)
            if kind_of(query.statement) is Kind.OTHER:
                yield current, query.statement.decode("utf-8", "replace"), query.database
        if is_last and event.type in _ENDS:
            return


def kept_at(
    records: Iterable[Mapping[str, Any]], place: LogPosition, places: Places
) -> tuple[Found, dict[str, Found]]:
    """What a history says of tables at a place of the log, and of definitions behind it by their GTIDs.

    A table that was altered by a statement of which it does not say what became of it is in neither.
    """
    known: Found = {}
    later: dict[str, Found] = {}
    for record in records:
        if record.get(_ANEW):
            known, later = {}, {}
        is_before = place.contains(_place(record, places))
        kept = record.get(_TABLES)
        found = {_name(told): None if one is None else _table(one) for told, one in (kept or {}).items()}
        statement, database = str(record.get("ddl") or ""), str(record.get("databaseName") or "")
        if kept is None and _GTID not in record:
            for names in (known, *later.values()) if is_before else later.values():
                for name in [name for name in names if touches(statement, database, name)]:
                    del names[name]
        if is_before:
            known |= found
        if _GTID in record and not place.holds(places.gtid(record[_GTID])):
            later[record[_GTID]] = found
    return known, later


def _place(record: Mapping[str, Any], places: Places) -> LogPosition:
    position = record.get("position")
    try:
        told = position or {}
        return places.stored_position(
            told.get("gtids"), str(told.get("file") or ""), int(told.get("pos") or 0)
        )
    except (ValueError, TypeError, AttributeError):
        raise OffsetError(
            "a record of the schema history has no position that can be understood",
            hint="is schema.history.internal.kafka.topic the topic of a connector of this database?",
        ) from None


def _written(found: Found) -> dict[str, Any]:
    return {
        orjson.dumps(name).decode(): None if known is None else asdict(known) for name, known in found.items()
    }


def _name(told: str) -> Name:
    database, name = orjson.loads(told)
    return database, name


def _table(found: Mapping[str, Any]) -> Table:
    parts = {
        **found,
        "columns": tuple(Column(**column) for column in found["columns"]),
        "primary": tuple(found["primary"]),
        "unique": tuple(found["unique"]),
    }
    return Table(**parts)
