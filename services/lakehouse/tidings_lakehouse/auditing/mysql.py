"""MySQL, as an audit reads it.

The ``tx_id`` of a commit in the lake's log is its number (`tidings_envelope.commit_number`): the microsecond at which the server
wrote it to its log. The server tells that of the last transaction in its log; of those before, those are complete, and so
shown by a snapshot, that no session has a GTID in its hands for any more. What came between is taken for not shown: such a row has been
written anew. A replica writes its log at other times than its source, and is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tidings_envelope import commit_number
from tidings_lakehouse.auditing.binlog_columns import MySqlColumn
from tidings_lakehouse.auditing.binlog_server import BinlogServer
from tidings_lakehouse.auditing.source import Sees, T
from tidings_lakehouse.errors import AuditError

_LAST = (
    "SELECT CAST(MAX(UNIX_TIMESTAMP(last_transaction_timestamp)) * 1000000 AS SIGNED)"
    " FROM performance_schema.binary_log_transaction_compression_stats WHERE log_type = 'BINARY'"
)
"""Of each kind of compression, the table has the last transaction of the log, with its microsecond."""
_REPLICATES = "SELECT COUNT(*) FROM performance_schema.replication_connection_configuration"
_UNDER_WAY_SECONDS = 30
_POLL_SECONDS = 0.05


class MySqlServer(BinlogServer):
    """See `Server`."""

    column = MySqlColumn
    digest = "sha256"  # 9.7 has no MD5
    digits = "SHA2({}, 256)"

    @staticmethod
    def limit(seconds: float) -> str:
        """See `BinlogServer`."""
        return f"SET SESSION max_execution_time = {max(round(seconds * 1000), 1)}"

    def in_snapshot(self, table: str, look: Callable[[], T]) -> tuple[Sees, T, int]:  # noqa: ARG002 - it refuses to read a table that was altered
        """See `Server`."""
        self._check()
        complete = self._complete()
        self.read("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            last = self._last()
            found = look()
        finally:
            self.read("COMMIT")
        return lambda tx_id: tx_id <= complete, found, commit_number.commit_position(last)

    def _check(self) -> None:
        ((mode,),) = self.read("SELECT @@global.gtid_mode")
        if mode != "ON":
            raise AuditError(
                f"the database has gtid_mode={mode}, and does not say which commits are under way",
                hint="go on to gtid_mode=ON",
            )
        ((sources,),) = self.read(_REPLICATES)
        if int(sources):
            raise AuditError(
                "the database is a replica, whose log does not tell when its source has committed",
                hint="audit the source itself",
            )

    def _complete(self) -> int:
        """The number of a commit at or before which all are complete."""
        last, under_way = self._last(), self._under_way()
        deadline = time.monotonic() + _UNDER_WAY_SECONDS
        while under_way := under_way & self._under_way():
            if time.monotonic() > deadline:
                raise AuditError(
                    f"a commit has been under way in the database for {_UNDER_WAY_SECONDS} seconds:"
                    f" {', '.join(sorted(under_way)[:3])}",
                    hint="does a semi-synchronous replica not answer? Audit again when it is done",
                )
            time.sleep(_POLL_SECONDS)
        return last

    def _under_way(self) -> set[str]:
        """GTIDs that sessions have in their hands: ``uuid:7#31:8#32,uuid:...``."""
        ((owned,),) = self.read("SELECT @@global.gtid_owned")
        found: set[str] = set()
        for server in filter(None, (part.strip() for part in owned.split(","))):
            name, *numbers = server.split(":")
            found.update(f"{name}:{number.partition('#')[0]}" for number in numbers)
        return found

    def _last(self) -> int:
        ((last,),) = self.read(_LAST)
        if last is None:
            raise AuditError(
                "the database has logged no transaction since it was started, and does not say when the last one was",
                hint="audit behind the next commit of any table (a heartbeat.action.query makes one); it needs log_bin",
            )
        return int(last)
