"""MariaDB, as an audit reads it.

A consistent snapshot tells where the binary log stands at it, and so the last transaction that it shows: by its GTID's sequence
number, which is the ``tx_id`` of the lake's log, and by its position (`tidings_envelope.gtid`). A replica tells so with
``log_slave_updates``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings_envelope.gtid import Gtid, gtid_of
from tidings_lakehouse.auditing.binlog_columns import MariaDbColumn, literal
from tidings_lakehouse.auditing.binlog_server import BinlogServer
from tidings_lakehouse.auditing.source import Sees, T
from tidings_lakehouse.errors import AuditError

_NOTHING = Gtid(0, 0, 0)
"""Of a log without transactions."""


class MariaDbServer(BinlogServer):
    """See `Server`."""

    column = MariaDbColumn
    digest = "md5"
    digits = "MD5({})"

    @staticmethod
    def limit(seconds: float) -> str:
        """See `BinlogServer`."""
        return f"SET SESSION max_statement_time = {seconds:f}"

    def in_snapshot(self, table: str, look: Callable[[], T]) -> tuple[Sees, T, int]:  # noqa: ARG002 - it refuses to read a table that was altered
        """See `Server`."""
        self.read("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            status = {
                name.lower(): value for name, value in self.read("SHOW STATUS LIKE 'binlog_snapshot_%'")
            }
            found = look()
        finally:
            self.read("COMMIT")
        file, place = status.get("binlog_snapshot_file"), status.get("binlog_snapshot_position")
        gtids = (
            self.read(f"SELECT BINLOG_GTID_POS({literal(file)}, {int(place)})")[0][0]
            if file and place
            else None
        )
        if gtids is None:
            raise AuditError(
                "the database does not say which transactions a snapshot shows",
                hint="it needs its binary log (log_bin), a replica log_slave_updates=ON, too",
            )
        position = _position(gtids, self.domain)
        last = position.sequence
        return lambda tx_id: tx_id <= last, found, position.commit_position


def _position(text: str, domain: int | None) -> Gtid:
    """Rows that were written in another domain than the lake's are found to be missing there, as they are."""
    gtids = [gtid_of(one) for one in text.split(",") if one]
    if domain is not None:
        gtids = [one for one in gtids if one.domain == domain]
    domains = sorted({one.domain for one in gtids})
    if len(domains) > 1:
        numbers = ", ".join(map(str, domains))
        raise AuditError(
            f"the database has logged transactions of the replication domains {numbers}: their commits have"
            " no common order, and the lake has those of one",
            hint="FLUSH BINARY LOGS DELETE_DOMAIN_ID removes one that is not used any more",
        )
    return max(gtids, key=lambda one: one.sequence, default=_NOTHING)
