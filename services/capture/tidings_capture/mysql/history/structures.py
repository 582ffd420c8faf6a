"""The columns of captured tables at the stream's place in the log, where the log does not name them.

They are the catalog's, which knows those of now only. What it says of a table holds for a place of the log, if no definition (DDL)
of the table stands between that place and the end of the log when the catalog was asked. So the log is read ahead from the place
on, for its definitions; of a table that was altered again in that part nobody knows the columns, and its rows stop the task.
What was found is kept in the schema history, so that it is known after a restart, whatever was altered meanwhile.

No definition is understood here: each that names a table may have altered it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.log_place import LogPlace
from tidings_capture.mysql.binlog.position import LogPosition, TransactionId
from tidings_capture.mysql.binlog.second_reader import events_behind
from tidings_capture.mysql.binlog.statements import Kind, kind_of
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import MariaDbError, UnsupportedError
from tidings_capture.mysql.history.kept import (
    ANEW,
    GTID,
    NOTHING_ALTERED,
    PLACE,
    TABLES,
    Found,
    Name,
    kept_at,
    written,
)
from tidings_capture.mysql.history.topic import SchemaHistory
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.schemas.catalog import Table, table, tables
from tidings_capture.mysql.schemas.ddl import touches
from tidings_capture.mysql.server import names_columns
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_service import get_logger

_log = get_logger(__name__)
_IDLE_HEARTBEATS: Final = 3
"""So many in a row: nothing more comes. MySQL sends one also where it has left out what lies before the place."""


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
            self._history.keep({TABLES: written(found), PLACE: str(place.gtids)}, place)

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
        return {TABLES: written(found), GTID: str(gtid)}

    def begin_anew(self, place: Offset) -> Mapping[str, Any]:
        """Keep all captured tables in the history as they are at the place of a snapshot: a stream that begins there, or behind it,
        takes nothing of what the history says before.

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
        self._history.keep({TABLES: written(found), ANEW: True}, place)
        return NOTHING_ALTERED

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


def captured(session: Session, config: MariaDbConfig) -> list[Name]:
    """The captured tables that the server has now."""
    there = ((found.database, found.name) for found in tables(session))
    return [name for name in there if config.captures(*name)]


def _definitions(
    config: MariaDbConfig, behind: LogPosition, until: LogPosition
) -> Iterator[tuple[TransactionId, str, str]]:
    """The definitions of the log between two places."""
    place, idle = LogPlace(behind), 0
    for event in events_behind(config, behind):
        if event is None:
            continue
        idle = idle + 1 if event.type in {log.HEARTBEAT, log.HEARTBEAT_V2} else 0
        if idle > _IDLE_HEARTBEATS:
            raise MariaDbError(
                f"the server's log ends at {place.complete}, but the server said that it ends at {until}"
            )
        if place.current is not None and event.type in {log.QUERY, log.QUERY_COMPRESSED}:
            query = log.read_query(event)
            if kind_of(query.statement) is Kind.OTHER:
                yield place.current.gtid, query.statement.decode("utf-8", "replace"), query.database
        if place.take(event) and place.complete.contains(until):
            return
