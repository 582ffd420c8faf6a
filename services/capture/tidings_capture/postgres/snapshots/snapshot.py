"""Takes a snapshot: as of what, which tables, and what is stored while it runs, so that a crash loses nothing.

**First start.** The slot is created and exports its snapshot; every table is read as of it; the stream from the slot's
consistent position L gives exactly what the snapshot does not hold: a transaction is in the snapshot if its commit
record is before L, and in the stream if it is at L or later.

**Interrupted.** The exported snapshot died with its connection, so what is left has to be read as of a later one, at L'.
Two things must not happen at a consumer: a row must not go back in time, and a row that was sent and then deleted must
not stay. Both follow from one order of events in each topic, which is kept whatever happens:

1. rows as of L (some tables whole, some in part, some not at all),
2. every change that was committed between L and L', from the slot, which has been waiting at L,
3. rows as of L' of the tables that were not sent whole,
4. every change from L' on.

So a task that finds an unfinished snapshot first creates a temporary slot, whose snapshot is at L', then streams the
connector's own slot up to L' and not further, and then reads what is left. After (2) everything that was sent is as of
L', and the state is that of a snapshot at L' which has some tables done: interrupted again, the same steps hold with L'
for L. No row goes back (a row of (3) is as of L', later than all of (2)); a row deleted between L and L' has its delete
event in (2). Rows of a table that was sent in part are sent again, later ones over earlier ones.

What is stored: the position L, and the tables sent whole (`SourceOffset.unfinished`), each only after Kafka has
acknowledged its last row; before the first row, so that an interruption at any time is known as one. While (2) runs the
stream's position is stored with it, as always. The same steps serve a snapshot in the middle of the stream (a blocking
one, asked for by a signal) and ``snapshot.mode=always`` with a stored offset: there, nothing is done yet and L is where
the stream is. Only a slot that was lost leaves no way to (2).
"""

import contextlib
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from tidings_capture.cdc.fault_points import reached
from tidings_capture.cdc.signals.notifications import INITIAL, Notifier
from tidings_capture.cdc.start import SnapshotWork
from tidings_capture.postgres.client import Replication, Session
from tidings_capture.postgres.encoding.output import TaskOutput
from tidings_capture.postgres.encoding.routes import Routes
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.offsets.offset import SourceOffset
from tidings_capture.postgres.offsets.positions import SnapshotPosition
from tidings_capture.postgres.offsets.progress import TaskProgress
from tidings_capture.postgres.server.catalog import Catalog
from tidings_capture.postgres.server.database import PostgresDatabase
from tidings_capture.postgres.server.setup import fails_over, patience, read_slot
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.snapshots.altered_tables import AlteredTables
from tidings_capture.postgres.snapshots.readers import begin_snapshot, copy_statement, read_all
from tidings_capture.postgres.snapshots.rows import SnapshotPoint, SnapshotRows, TableRows
from tidings_connect.task.checkpoints import Checkpoints
from tidings_envelope.java.hash_order import java_hash_order
from tidings_envelope.position import lsn_from_text, lsn_to_text
from tidings_service import Retry, get_logger

_log = get_logger(__name__)

_EXISTS: Final = "42710"
CatchUp = Callable[[SourceOffset, int], SourceOffset]
"""Streams the connector's slot from an offset up to the last commit before an LSN; where it stands then."""

_ESTIMATES = """
SELECT n.nspname, c.relname, c.reltuples::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p')
"""


class SnapshotRun:
    """Takes a task's snapshots.

    Args:
        on_wait: called again and again; may raise to give up.
    """

    def __init__(
        self,
        config: ConnectorConfig,
        database: PostgresDatabase,
        routes: Routes,
        output: TaskOutput,
        checkpoints: Checkpoints[SourceOffset],
        notifier: Notifier,
        progress: TaskProgress,
        on_wait: Callable[[], None],
        catch_up: CatchUp,
    ) -> None:
        self._config = config
        self._database = database
        self._routes = routes
        self._output = output
        self._checkpoints = checkpoints
        self._notifier = notifier
        self._progress = progress
        self._on_wait = on_wait
        self._catch_up = catch_up

    def take(self, work: SnapshotWork[SourceOffset]) -> SourceOffset:
        """Take a snapshot; the offset that ends it, which has been stored: from there the stream goes on."""
        config = self._config
        tables = self._ordered(work)
        began = time.monotonic()
        self._progress.begin_snapshot(tables)
        only = not config.snapshot.streams
        with contextlib.closing(Replication(config.endpoint)) as replication:
            slot = read_slot(self._database.session, config)
            if slot is not None and slot.wal_status == "lost":
                replication.drop_slot(config.slot)
                slot = None
            # A slot that exists stays where it is, behind the snapshot; a temporary one gives the snapshot.
            temporary = only or slot is not None
            name = f"{config.slot[:50]}_snapshot" if temporary else config.slot
            failover = not temporary and fails_over(replication, config)
            meanwhile = patience(config.name, self._on_wait)
            try:
                created = replication.create_slot(
                    name, temporary=temporary, export=True, failover=failover, meanwhile=meanwhile
                )
            except PostgresError as error:
                if not temporary or error.sqlstate != _EXISTS:
                    raise
                # Of a run whose connection was lost without a word: the server keeps it until it notices, which takes
                # hours without tcp_keepalives_idle. Nobody else gives a name like this to a temporary slot.
                _log.warning("a former snapshot's slot is still there", connector=config.name, slot=name)
                name = f"{name}_{secrets.token_hex(4)}"
                created = replication.create_slot(name, temporary=True, export=True, meanwhile=meanwhile)
            reached("slot.created")
            lsn = lsn_from_text(created.consistent_lsn)
            stored = SnapshotPosition(lsn, work.done, work.afterwards)
            if work.catch_up is not None:
                _log.info("catching up with the snapshot", connector=config.name, lsn=created.consistent_lsn)
                stored.catch_up(self._catch_up(work.catch_up, lsn))
            self._progress.state = "snapshot"
            session = self._database.session
            tx_id = session.value("SELECT CASE WHEN pg_is_in_recovery() THEN 0 ELSE txid_current() END")
            point = SnapshotPoint(
                created.snapshot or "",
                lsn,
                tx_id,
                time.time_ns() // 1000,
                stored.commit_lsn,
                follows=work.catch_up is not None or work.afterwards is not None,
            )
            if not work.blocking:
                self._checkpoints.take_and_wait(stored.so_far())
            reached("snapshot.begun")
            try:
                rows = self._copy_tables(session, point, tables, work, stored)
            except BaseException as error:
                self._notifier.tell(INITIAL, "ABORTED")
                if not work.blocking or not isinstance(error, PostgresError) or error.retry is Retry.TIMED:
                    raise
                # A mistake in the signal's own SQL, as a rule, and no reason for the stream to end.
                session.execute("ROLLBACK")
                _log.error("blocking snapshot given up", connector=config.name, reason=str(error))
                return stored.given_up()
        reached("snapshot.sent")
        end = stored.end(tx_id, point.ts_us, blocking=work.blocking)
        self._checkpoints.take_and_wait(end)
        seconds = round(time.monotonic() - began, 3)
        _log.info(
            "snapshot finished",
            connector=config.name,
            tables=len(tables),
            rows=rows,
            lsn=lsn_to_text(lsn),
            seconds=seconds,
        )
        return end

    def _ordered(self, work: SnapshotWork[SourceOffset]) -> list[tuple[tuple[str, str], int | None]]:
        """The tables in the order of reading, with the rows that the server's statistics estimate."""
        found = {(schema, name): rows for schema, name, rows in self._database.session.rows(_ESTIMATES)}
        tables = [(table, rows if (rows := found.get(table, -1)) >= 0 else None) for table in work.tables]
        order = self._config.snapshot.order
        if order != "disabled":
            tables.sort(key=lambda item: item[1] or 0, reverse=order == "descending")
        return tables

    def _copy_tables(
        self,
        session: Session,
        point: SnapshotPoint,
        tables: list[tuple[tuple[str, str], int | None]],
        work: SnapshotWork[SourceOffset],
        stored: SnapshotPosition,
    ) -> int:
        config = self._config

        def sent(table: TableRows) -> None:
            stored.table_sent(table.name)
            self._progress.tables[table.name].state = "done"
            _log.info("table read", connector=config.name, table=table.name, rows=table.rows)
            if not work.blocking and self._checkpoints.due(time.monotonic()):
                self._checkpoints.take(stored.so_far())

        rows = SnapshotRows(point, self._output.send, sent)
        tell, names = self._notifications(tables, work)
        begin_snapshot(session, point.snapshot)
        catalog = Catalog(session, config.columns, config.keys)
        opened: list[TableRows] = []
        statements = []
        self._output.prepare_topics(config.topics.of_table(schema, name) for (schema, name), _ in tables)
        for found in catalog.tables_by_name([name for name, _ in tables], config.publication):
            route = self._routes.add_table(found)
            opened.append(TableRows(found.qualified_name, route, leads=not opened))
            select = work.selects.get(found.qualified_name)
            statements.append(copy_statement(session, route.table, select))
            self._on_wait()
        hashed = ",".join(java_hash_order(sorted(table.name for table in opened)))
        told: set[str] = set()
        check = AlteredTables(session, [table.route.table for table in opened], work.selects)
        for number, lines in read_all(
            session,
            config.endpoint,
            point.snapshot,
            statements,
            config.snapshot.threads,
            self._on_wait,
            check,
        ):
            table = opened[number]
            if table.name not in told:
                told.add(table.name)
                tell(
                    "IN_PROGRESS", {"current_collection_in_progress": table.name, "data_collections": hashed}
                )
            if lines is None:
                rows.end(table)
                reached("snapshot.table")
                scanned = {"scanned_collection": table.name, "data_collections": names}
                tell(
                    "TABLE_SCAN_COMPLETED",
                    scanned | {"total_rows_scanned": str(table.rows), "status": "SUCCEEDED"},
                )
            else:
                rows.take(table, lines)
                self._progress.snapshot_rows = rows.rows
                seen = self._progress.tables[table.name]
                seen.state, seen.rows = "reading", table.rows
                reached("snapshot.rows")
            self._checkpoints.poll()
            self._checkpoints.relieve(time.monotonic())
            self._on_wait()
        rows.finish()
        tell("COMPLETED")
        self._progress.snapshot_rows = rows.rows
        session.execute("COMMIT")
        return rows.rows

    def _notifications(
        self, tables: list[tuple[tuple[str, str], int | None]], work: SnapshotWork[SourceOffset]
    ) -> tuple[Callable[..., None], str]:
        """What tells of this snapshot, and all its tables' names, the signal table's among them as in Debezium."""
        tell = partial(self._notifier.tell, INITIAL)
        signals = self._config.signals.table
        own = [] if work.blocking or signals is None else [signals]
        found = [*(table for table, _ in tables), *own]
        alphabetical = sorted(found)
        if not self._config.tables.table_include:
            found = alphabetical
        names, resolved = (",".join(f"{schema}.{name}" for schema, name in n) for n in (found, alphabetical))
        tell("STARTED")
        tell("DATA_COLLECTIONS_RESOLVED", {"data_collections": resolved})
        return tell, names
