"""Watermarks of an incremental snapshot's chunks: rows of the signal table, or positions in the WAL."""

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from tidings_capture.cdc.incremental.state import Collection
from tidings_capture.cdc.signals.options import SignalOptions
from tidings_capture.postgres.server.chunk_query import literal
from tidings_capture.postgres.server.database import PostgresDatabase
from tidings_capture.postgres.server.setup import server_lsn
from tidings_capture.postgres.sql_text import quote
from tidings_capture.postgres.streaming.streamed import StreamedTransactions

_OPEN: Final = "snapshot-window-open"
_CLOSE: Final = "snapshot-window-close"
_PAUSE_SECONDS: Final = 0.01
_LOOKS: Final = 50
"""So often the stream stands still for readers; then it goes on, and they are asked again."""
_WAITING: Final = """
SELECT backend_xid::text FROM pg_stat_activity
 WHERE backend_xid IS NOT NULL AND (wait_event = 'SyncRep' OR backend_xid::text = %s)
"""
"""The transactions that have committed, and that others see when a standby has them, too; and a given one, if it has not ended.
What a session waits for is shown to its own user and to those that may read all statistics, its transaction to everybody."""


class PostgresWatermarks:
    """Sets the watermarks around the reading of a chunk, as `incremental` says.

    Args:
        confirm: stores the stream's position, and tells the server.
        breathe: called while it waits.
    """

    def __init__(
        self,
        options: SignalOptions,
        database: PostgresDatabase,
        confirm: Callable[[], None],
        breathe: Callable[[], None],
    ) -> None:
        self._options = options
        self._database = database
        self._confirm = confirm
        self._breathe = breathe
        self._chunk_id = self._opened_at = ""
        self._about = Collection("")
        self._streamed: StreamedTransactions | None = None
        self._before: list[int] = []

    def open(self, chunk_id: str, collection: Collection) -> None:
        """The low watermark, before a chunk of a table is read."""
        # Kept for the close: the snapshot may have come to the next table by then.
        self._chunk_id, self._about, self._opened_at = chunk_id, collection, _now()
        if not self._options.read_only:
            self._write(f"{chunk_id}-open", _OPEN, {"openWindowTimestamp": self._opened_at})

    def close(self) -> int | None:
        """The high watermark; the LSN that the stream must have reached, None where a row shows it."""
        if self._options.read_only:
            return server_lsn(self._database.session)
        if self._options.close_by_delete:
            opened = literal(f"{self._chunk_id}-open")
            self._database.session.execute(f"DELETE FROM {self._table()} WHERE id = {opened}")  # noqa: S608
        else:
            times = {"openWindowTimestamp": self._opened_at, "closeWindowTimestamp": _now()}
            self._write(f"{self._chunk_id}-close", _CLOSE, times)
        return None

    def wait_for_visibility(self, streamed: StreamedTransactions) -> bool:
        """Wait a moment until a new snapshot shows all these transactions, which the stream has shown; whether it does."""
        if streamed is not self._streamed:
            self._streamed, self._before = streamed, self._unseen_before(streamed)
        for look in range(_LOOKS):
            if self._are_visible(chain(self._before, streamed.recent)):
                self._before = []
                return True
            if look == 1:
                self._confirm()  # the standby that a commit waits for may be this very stream
            self._breathe()
            time.sleep(_PAUSE_SECONDS)
        return False

    def _are_visible(self, transactions: Iterable[int]) -> bool:
        """Whether a new snapshot shows these transactions (ids of 32 bits)."""
        text = str(self._database.session.value("SELECT pg_current_snapshot()::text"))
        _, upper, running = text.split(":")
        hidden = {int(xid) & 0xFFFFFFFF for xid in running.split(",") if xid}
        first_unknown = int(upper)
        return not any(
            xid in hidden or 0 <= (xid - first_unknown) & 0xFFFFFFFF < 1 << 31 for xid in transactions
        )

    def _unseen_before(self, streamed: StreamedTransactions) -> list[int]:
        """The transactions that were streamed before this stream began, as far as others may not see them yet."""
        last = streamed.last_before
        named = None if last is None else str(last & 0xFFFFFFFF)
        return [int(xid) for (xid,) in self._database.session.rows(_WAITING, (named,))]

    def _write(self, id_: str, type_: str, times: dict[str, str]) -> None:
        about = self._about
        data = {**times, **({"correlationId": about.correlation_id} if about.correlation_id else {})}
        data["dataCollectionId"] = about.name
        text = ", ".join(f'"{name}": {_json(value)}' for name, value in data.items())
        values = ", ".join(literal(value) for value in (id_, type_, f"{{{text}}}"))
        self._database.session.execute(f"INSERT INTO {self._table()} VALUES ({values})")  # noqa: S608

    def _table(self) -> str:
        assert self._options.table is not None
        return ".".join(quote(part) for part in self._options.table)


def _json(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
