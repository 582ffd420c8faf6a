"""Takes a connector's snapshot: gets a snapshot from a new slot, reads the tables as of it, stores where it ends."""

import contextlib
import time
from collections.abc import Iterator

from tidings_capture.catalog import Catalog
from tidings_capture.postgres import Replication, Session
from tidings_capture.preparation import SlotState
from tidings_capture.snapshot import SnapshotPoint, SnapshotRows, begin_snapshot, copy_table, end_snapshot
from tidings_capture.source_offset import SourceOffset
from tidings_capture.task_parts import TaskParts
from tidings_envelope.position import lsn_from_text
from tidings_service import get_logger

_log = get_logger(__name__)


class SnapshotRun:
    """One snapshot of a task's."""

    def __init__(self, parts: TaskParts) -> None:
        self._parts = parts
        self._config = parts.config

    def take(self, slot: SlotState | None, tables: list[tuple[str, str]]) -> SourceOffset | None:
        """Read the tables; from where to stream then, None when there is nothing to stream."""
        parts, config, session = self._parts, self._config, self._parts.session
        parts.progress.state = "snapshot"
        parts.progress.tables_left = len(tables)
        only = config.snapshot_mode == "initial_only"
        with contextlib.closing(Replication(config.endpoint)) as replication:
            if slot is not None and slot.wal_status == "lost":
                replication.drop_slot(config.slot)
                slot = None
            # A slot that exists stays where it is, behind the snapshot; a temporary one gives the snapshot.
            temporary = only or slot is not None
            name = f"{config.slot[:50]}_snapshot" if temporary else config.slot
            created = replication.create_slot(
                name, temporary=temporary, export=True, failover=config.slot_failover and not temporary
            )
            lsn = lsn_from_text(created.consistent_lsn)
            tx_id = session.value("SELECT CASE WHEN pg_is_in_recovery() THEN 0 ELSE txid_current() END")
            point = SnapshotPoint(created.snapshot or "", lsn, tx_id, time.time_ns() // 1000)
            began, rows = time.monotonic(), self._copy_tables(session, point, tables)
        end = SourceOffset(done_lsn=lsn, lsn=lsn, tx_id=tx_id, ts_us=point.ts_us, snapshot="INITIAL")
        parts.checkpoints.take_and_wait(end)
        _log.info(
            "snapshot finished",
            connector=config.name,
            tables=len(tables),
            rows=rows,
            lsn=created.consistent_lsn,
            seconds=round(time.monotonic() - began, 3),
        )
        return None if only else end

    def _copy_tables(self, session: Session, point: SnapshotPoint, tables: list[tuple[str, str]]) -> int:
        parts = self._parts
        rows = SnapshotRows(point, parts.producer.send)
        begin_snapshot(session, point)
        catalog = Catalog(session, self._config.columns)
        for schema, name in tables:
            route = parts.routes.add_table(catalog.table_by_name(schema, name, self._config.publication))
            count = rows.table(route, self._watched(copy_table(session, route.table), rows))
            parts.progress.tables_left -= 1
            _log.info("table read", connector=self._config.name, table=f"{schema}.{name}", rows=count)
        rows.finish()
        end_snapshot(session)
        return rows.rows

    def _watched(self, batches: Iterator[list[bytes]], rows: SnapshotRows) -> Iterator[list[bytes]]:
        for batch in batches:
            yield batch
            self._parts.progress.snapshot_rows = rows.rows
            self._parts.checkpoints.poll()
            self._parts.breathe()
