"""Watermarks of an incremental snapshot's chunks: rows of the signal table, or positions in the binary log."""

import json
from datetime import UTC, datetime
from typing import Final

from tidings_capture.cdc.incremental.state import Collection
from tidings_capture.cdc.signals.options import SignalOptions
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.encoding.selected import quoted
from tidings_capture.mysql.flavours.flavour import Flavour
from tidings_capture.mysql.incremental.errors import asking
from tidings_capture.mysql.incremental.session import ChunkSession
from tidings_capture.mysql.streaming.observers import Streamed
from tidings_capture.mysql.streaming.visibility import wait_until_seen

_OPEN: Final = "snapshot-window-open"
_CLOSE: Final = "snapshot-window-close"


class MariaDbWatermarks:
    """Sets the watermarks around the reading of a chunk, as `cdc.incremental.snapshot` says."""

    def __init__(self, options: SignalOptions, session: ChunkSession, flavour: Flavour) -> None:
        self._options = options
        self._flavour = flavour
        self._like = flavour.position("")
        self._session = session
        self._chunk_id = self._opened_at = ""

    def open(self, chunk_id: str, collection: Collection) -> None:  # noqa: ARG002 - Debezium 3.5 does not say which
        """The low watermark, before a chunk of a table is read."""
        self._chunk_id, self._opened_at = chunk_id, _now()
        if not self._options.read_only:
            self._write(f"{chunk_id}-open", _OPEN, {"openWindowTimestamp": self._opened_at})

    def close(self) -> LogPosition | None:
        """The high watermark; the position that the stream must have reached, None where a row shows it."""
        if self._options.read_only:
            with asking("the end of the binary log"):
                end: LogPosition = self._flavour.end(self._session.get(), self._like)
            return end
        if self._options.close_by_delete:
            with asking("the signal table"):
                self._session.get().rows(
                    f"DELETE FROM {self._table()} WHERE id = %s",  # noqa: S608 - a name that is quoted
                    (f"{self._chunk_id}-open",),
                )
        else:
            times = {"openWindowTimestamp": self._opened_at, "closeWindowTimestamp": _now()}
            self._write(f"{self._chunk_id}-close", _CLOSE, times)
        return None

    def wait_for_visibility(self, streamed: Streamed) -> bool:
        """See `Watermarks`.

        Where the server names no transactions it cannot be asked for them. Then the row that `open` writes stands for them: the log
        has it behind all that was streamed, and commits become visible in the log's order.
        """
        session = self._session.get()
        if not streamed.gtids.has_ids and not self._options.read_only:
            self._flavour.check_commit_order(session)
            return True
        return wait_until_seen(session, self._flavour, streamed)

    def _write(self, id_: str, type_: str, times: dict[str, str]) -> None:
        with asking("the signal table"):
            self._session.get().rows(
                f"INSERT INTO {self._table()} VALUES (%s, %s, %s)",  # noqa: S608 - a name that is quoted
                (id_, type_, json.dumps(times)),
            )

    def _table(self) -> str:
        assert self._options.table is not None
        return ".".join(quoted(part) for part in self._options.table)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
