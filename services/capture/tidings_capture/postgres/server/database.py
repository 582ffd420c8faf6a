"""One task's database: the session for catalog reads, what the filters choose, and what `cdc.database` asks.

The session is opened when it is first asked for. Rows and keys go through COPY, as the text that conversion expects.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.database import LookedUp
from tidings_capture.cdc.incremental.state import Key
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.postgres.client import Session
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.server.catalog import Catalog
from tidings_capture.postgres.server.chunk_query import (
    chunk_query,
    count_query,
    gone_query,
    look_up_query,
    maximum_query,
)
from tidings_capture.postgres.server.setup import captured_tables, server_lsn
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.wire.copy_format import parse_copy_line
from tidings_service import get_logger

_log = get_logger(__name__)

_TOLD_SECONDS: Final = 30.0
_IS_STANDBY: Final = """
SELECT count(*) > 0 FROM pg_stat_replication AS r JOIN pg_replication_slots AS s ON s.active_pid = r.pid
 WHERE s.slot_name = %s AND r.sync_state IN ('sync', 'quorum')
"""


class PostgresDatabase:
    """See `cdc.database.Database`. For one thread; whoever opens it closes it.

    Args:
        breathe: called while it waits.
    """

    def __init__(self, config: ConnectorConfig, breathe: Callable[[], None]) -> None:
        self._config = config
        self._breathe = breathe
        self._told_unseen = float("-inf")
        self._session: Session | None = None
        self._catalog: Catalog | None = None
        self._compared: tuple[Table, Sequence[Column]] | None = None
        self._types: list[str] = []

    @property
    def session(self) -> Session:
        """The session for catalog reads; opened when it is first asked for."""
        if self._session is None:
            # The standby may be this task: `synchronous_standby_names = '*'` takes every reader of a slot for one. What it
            # writes beside its stream would wait for the stream to confirm it.
            self._session = Session(self._config.endpoint, waits_for_standbys=False)
        return self._session

    def catalog(self, fresh: bool = False) -> Catalog:
        """The catalog; `fresh`: through a new session."""
        if fresh:
            self.drop_session()
        if self._catalog is None:
            self._catalog = Catalog(self.session, self._config.columns, self._config.keys, self._wait_on)
        return self._catalog

    def _wait_on(self) -> bool:
        """Whether to wait on for a transaction that others do not see: it may wait for a standby, but not for this task."""
        self._breathe()
        if self.session.value(_IS_STANDBY, (self._config.slot,)):
            _log.warning(
                "a table is taken as it was before a transaction, which waits for this task as for a standby",
                connector=self._config.name,
                hint="synchronous_standby_names should name standbys, and not this task's application_name or all of them (*)",
            )
            return False
        if time.monotonic() - self._told_unseen > _TOLD_SECONDS:
            self._told_unseen = time.monotonic()
            _log.warning(
                "a transaction has changed a table, and others do not see it yet: the stream waits for that",
                connector=self._config.name,
                hint="its commit waits for a synchronous standby, as a rule: see pg_stat_replication",
            )
        return True

    def drop_session(self) -> None:
        """Close the session; who asks for it next gets a new one."""
        if self._session is not None:
            self._session.close()
            self._session = self._catalog = None

    def close(self) -> None:
        """Close the session."""
        self.drop_session()

    def captured(self) -> list[tuple[str, str]]:
        """The tables the filters choose, as they are now."""
        return captured_tables(self.session, self._config)

    def captures(self, schema: str, name: str) -> bool:
        """Whether the filters choose a table."""
        return self._config.tables.captures(schema, name)

    def wal_end(self) -> int | None:
        """The end of the server's WAL; None, with a warning, when it could not be asked."""
        try:
            return server_lsn(self.session)
        except PostgresError as error:
            _log.warning(
                "the end of the WAL could not be read", connector=self._config.name, reason=str(error)
            )
            self.drop_session()
            return None

    def run_heartbeat_action(self) -> None:
        """Run ``heartbeat.action.query``. A statement that fails does not stop the stream: the next heartbeat tries
        again, through a new session."""
        try:
            self.session.execute(self._config.heartbeat_action)
        except PostgresError as error:
            _log.warning("heartbeat.action.query failed", connector=self._config.name, reason=str(error))
            self.drop_session()

    # What incremental snapshots ask

    def table(self, schema: str, name: str) -> Table | None:
        """A table with its published columns; None when there is no such table."""
        catalog = self.catalog()
        if not catalog.has_table(schema, name):
            return None
        return catalog.table_by_name(schema, name, self._config.publication)

    def largest_key(self, table: Table, columns: Sequence[Column], condition: str) -> Key | None:
        """See `Database`."""
        found = self._lines(maximum_query(table, columns, condition), condition)
        if not found:
            return None
        return [cell.decode() if isinstance(cell, bytes) else None for cell in parse_copy_line(found[0])]

    def count(self, table: Table, condition: str) -> int:
        """See `Database`."""
        with self._reading(condition):
            return int(self.session.slow_value(count_query(table, condition)))

    def chunk(
        self,
        table: Table,
        columns: Sequence[Column],
        condition: str,
        after: Key | None,
        maximum: Key | None,
        limit: int,
    ) -> list[Cells]:
        """See `Database`."""
        query = chunk_query(table, columns, condition, after, maximum, limit)
        return [parse_copy_line(line) for line in self._lines(query, condition)]

    def gone(self, table: Table, columns: Sequence[Column], keys: Sequence[Key]) -> list[int]:
        """See `Database`."""
        if self._compared != (table, columns):
            # Without modifiers: a value is to be compared, not cut.
            self._types = self.catalog().type_names([(column.type_oid, -1) for column in columns])
            self._compared = (table, columns)
        query = gone_query(table, columns, self._types, keys)
        return [number for (number,) in self.session.rows(query)]

    def look_up(self, table: Table, columns: Sequence[Column], keys: Sequence[Key]) -> list[LookedUp]:
        """See `Database`."""
        types = self.catalog().type_names([(column.type_oid, column.typmod) for column in columns])
        found = []
        for line in self._lines(look_up_query(table, columns, types, keys), ""):
            is_missing, *cells = parse_copy_line(line)
            width = len(columns)
            found.append(
                LookedUp(False, cells[:width]) if is_missing == b"t" else LookedUp(True, cells[width:])
            )
        return found

    def _lines(self, statement: str, condition: str) -> list[bytes]:
        with self._reading(condition):
            return [line for lines in self.session.copy_out(statement) for line in lines]

    def _reading(self, condition: str) -> AbstractContextManager[None]:
        """A signal's filter may call a function that writes: then it is read in a transaction that cannot."""
        return self.session.read_only() if condition else nullcontext()
