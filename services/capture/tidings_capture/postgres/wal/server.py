"""Looks at one server's slots and WAL: what PostgreSQL 14 to 18 say, as `wal.forecast` has it.

Three cheap reads (views in shared memory, and a listing of ``pg_wal``) over one connection that is kept. ``pg_wal``'s
size needs ``pg_monitor``; without that right it is left out, once with a log line.
"""

import time
from dataclasses import replace
from typing import Final

from tidings_capture.postgres.client import Endpoint, Session
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.wal.forecast import ServerWal, SlotWal, rate_of, recent
from tidings_service import get_logger

_NO_PRIVILEGE: Final = "42501"
# Columns that older servers do not have are read out of the row's JSON: there they are NULL.
_SLOTS: Final = """
WITH here AS (
  SELECT CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
              ELSE pg_current_wal_lsn() END AS lsn)
SELECT pg_wal_lsn_diff(here.lsn, '0/0')::float8,
       s.slot_name::text, s.slot_type, coalesce(s.database, '')::text, coalesce(s.plugin, '')::text, s.active,
       pg_wal_lsn_diff(here.lsn, s.restart_lsn)::float8,
       pg_wal_lsn_diff(here.lsn, coalesce(s.confirmed_flush_lsn, s.restart_lsn))::float8,
       s.safe_wal_size::float8, s.wal_status, s.active_pid,
       pg_wal_lsn_diff(s.confirmed_flush_lsn, '0/0')::float8,
       extract(epoch FROM clock_timestamp() - (to_jsonb(s)->>'inactive_since')::timestamptz)::float8,
       age(s.catalog_xmin)::float8, to_jsonb(s)->>'invalidation_reason',
       t.total_bytes::float8, t.spill_bytes::float8, t.stream_bytes::float8
  FROM here LEFT JOIN pg_replication_slots s ON true
            LEFT JOIN pg_stat_replication_slots t ON t.slot_name = s.slot_name
 ORDER BY s.restart_lsn NULLS LAST, s.slot_name
"""
_KEEP_LIMIT: Final = """
SELECT CASE WHEN setting::bigint < 0 THEN -1 ELSE setting::bigint * 1048576 END::float8
  FROM pg_settings WHERE name = 'max_slot_wal_keep_size'
"""
_WAL_SIZE: Final = "SELECT sum(size)::float8 FROM pg_ls_waldir()"

_log = get_logger(__name__)


class ServerWatch:
    """Looks at one server, again and again; keeps its connection and what it saw over the last minutes."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._session: Session | None = None
        self._positions: list[tuple[float, float]] = []
        self._retained: dict[str, list[tuple[float, float]]] = {}
        self._inactive: dict[str, float] = {}
        self._may_list_wal = True
        self._told_down = False
        self.state = ServerWal(f"{endpoint.host}:{endpoint.port}")

    def look(self, volume_bytes: float | None = None) -> None:
        """Ask the server; one that does not answer is reported as down."""
        try:
            self.state = self.read(volume_bytes)
            self._told_down = False
        except PostgresError as error:
            if not self._told_down:
                _log.warning("WAL metrics are not available", server=self.state.server, reason=str(error))
            self._told_down = True
            self.state = replace(self.state, up=False)
            self.close()

    def read(self, volume_bytes: float | None = None) -> ServerWal:
        """Ask the server.

        Raises:
            PostgresError: it does not answer, or refuses.
        """
        if self._session is None:
            self._session = Session(self.endpoint)
        session = self._session
        rows = session.rows(_SLOTS)
        now, position = time.monotonic(), float(rows[0][0] or 0.0)
        self._positions = [*recent(self._positions, now), (now, position)]
        slots = tuple(self._slot(row, now) for row in rows if row[1] is not None)
        names = {slot.name for slot in slots}
        self._retained = {name: seen for name, seen in self._retained.items() if name in names}
        self._inactive = {name: since for name, since in self._inactive.items() if name in names}
        return ServerWal(
            server=self.state.server,
            slots=slots,
            wal_bytes=position,
            rate=rate_of(self._positions),
            size_bytes=self._size(session),
            keep_limit_bytes=float(session.value(_KEEP_LIMIT)),
            volume_bytes=volume_bytes,
            version=session.server_version,
            up=True,
        )

    def close(self) -> None:
        """Let go of the server."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _slot(self, row: tuple[object, ...], now: float) -> SlotWal:
        slot = SlotWal(*row[1:15], None if row[15] is None else tuple(row[15:18]))  # type: ignore[call-arg,arg-type]  # as selected
        seen = recent(self._retained.get(slot.name, []), now)
        if slot.retained_bytes is not None:
            seen.append((now, slot.retained_bytes))
        self._retained[slot.name] = seen
        inactive = None
        if slot.active:
            self._inactive.pop(slot.name, None)
        else:
            # Before PostgreSQL 17 the server does not know: since we first saw it so.
            since = self._inactive.setdefault(slot.name, now)
            inactive = slot.inactive_seconds if slot.inactive_seconds is not None else now - since
        return replace(slot, growth=rate_of(seen), inactive_seconds=inactive)

    def _size(self, session: Session) -> float | None:
        if not self._may_list_wal:
            return None
        try:
            return float(session.value(_WAL_SIZE))
        except PostgresError as error:
            if error.sqlstate != _NO_PRIVILEGE:
                raise
            self._may_list_wal = False
            _log.warning(
                "pg_wal's size is not available",
                server=self.state.server,
                reason="database.user lacks pg_monitor",
                hint=f"GRANT pg_monitor TO {self.endpoint.user}",
            )
            return None
