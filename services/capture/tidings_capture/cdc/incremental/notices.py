"""What an incremental snapshot tells through the notification channels: Debezium's types, in Debezium's fields."""

import math

from tidings_capture.cdc.incremental.state import IncrementalState
from tidings_capture.cdc.signals.notifications import INCREMENTAL, Notifier


class IncrementalNotices:
    """Tells how far an incremental snapshot is, and counts for it what was read of the current table.

    Args:
        brief: see `SignalOptions`.
    """

    def __init__(self, notifier: Notifier, *, brief: bool = False) -> None:
        self._notifier = notifier
        self._brief = brief
        self._chunks = 0
        self.rows_scanned = 0

    def next_table(self) -> None:
        """The next table begins."""
        self.rows_scanned = self._chunks = 0

    def started(self, state: IncrementalState) -> None:
        """The tables are known."""
        self._tell_tables(state, "STARTED")
        if not self._brief:
            self._tell_tables(state, "DATA_COLLECTIONS_RESOLVED")

    def paused(self, state: IncrementalState) -> None:
        """No further chunk is read."""
        self._tell_tables(state, "PAUSED")

    def resumed(self, state: IncrementalState) -> None:
        """It goes on."""
        self._tell_tables(state, "RESUMED")

    def chunk_read(self, state: IncrementalState, rows: int, total_rows: int, chunk_rows: int) -> None:
        """A chunk of the current table was read.

        Args:
            rows: in the chunk.
            total_rows: in the table, as far as is known.
            chunk_rows: the most a chunk has.
        """
        self.rows_scanned += rows
        self._chunks += 1
        if not self._notifier.enabled:
            return
        data = {
            "data_collections": state.names(),
            "current_collection_in_progress": state.collections[0].name,
            "maximum_key": ",".join(value or "<null>" for value in state.maximum or []),
            "last_processed_key": ",".join(value or "<null>" for value in state.chunk_end or []),
        }
        if not self._brief:
            data |= {
                "chunk_index": str(self._chunks),
                "total_chunks": str(math.ceil(total_rows / chunk_rows)),
                "total_rows": str(total_rows),
            }
        self._tell(state, "IN_PROGRESS", data)

    def table_read(self, state: IncrementalState, status: str, total_rows: int) -> None:
        """The current table is done, or left out.

        Args:
            status: Debezium's: SUCCEEDED, EMPTY, NO_PRIMARY_KEY, UNKNOWN_SCHEMA or SQL_EXCEPTION.
        """
        data = {
            "data_collections": state.names(),
            "scanned_collection": state.collections[0].name,
            "total_rows_scanned": str(self.rows_scanned),
            "status": status,
        }
        if status == "SUCCEEDED" and not self._brief:
            data["total_rows"] = str(total_rows)
        self._tell(state, "TABLE_SCAN_COMPLETED", data)

    def aborted(self, state: IncrementalState, tables: list[str]) -> None:
        """Tables are left out from here on."""
        self._tell(state, "ABORTED", {"data_collections": ",".join(tables)})

    def completed(self, state: IncrementalState) -> None:
        """Every table was read."""
        self._tell(state, "COMPLETED", {})

    def _tell_tables(self, state: IncrementalState, type_: str) -> None:
        self._tell(state, type_, {"data_collections": state.names()})

    def _tell(self, state: IncrementalState, type_: str, data: dict[str, str]) -> None:
        self._notifier.tell(INCREMENTAL, type_, data, id_=state.correlation_id)
