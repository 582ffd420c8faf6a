"""What the tests of MySQL's connector share; most is as of MariaDB's (`mariadb_parts`)."""

import time
from typing import Any, Final

from mariadb_parts import Database
from mariadb_worker import Collected
from mysql_versions import version_of, written_for

from tidings_capture.mysql.binlog.file_position import FilePosition
from tidings_capture.mysql.binlog.gtid_set import GtidSet
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.flavours.mysql import MYSQL
from tidings_capture.mysql.offset import Offset, read_offset
from tidings_capture.mysql.settings.config import read_config
from tidings_capture.mysql.streaming.stream import Stream
from tidings_envelope.headers.commit import HEADER as COMMIT

SEMI_SYNCHRONOUS: Final = (
    "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
    (
        "SET GLOBAL rpl_semi_sync_source_timeout = 60000, GLOBAL rpl_semi_sync_source_wait_no_replica = ON,"
        " GLOBAL rpl_semi_sync_source_enabled = ON"
    ),
)
"""From then on commits wait for a replica, a minute: the log has them, and who reads does not see them."""

ANSWERED: Final = "SET GLOBAL rpl_semi_sync_source_enabled = OFF"
"""Ends the wait."""


class MySqlDatabase(Database):
    """A database of a test's own."""

    version = (0, 0)
    """The server's, once it is known."""

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """The last one's rows."""
        if self.version == (0, 0):
            ((text,),) = super().run("SELECT VERSION()")
            self.version = version_of(text)
        return super().run(*(written_for(self.version, statement) for statement in statements))

    def position(self) -> LogPosition:  # type: ignore[override]
        """The end of the log, by GTIDs."""
        ((text,),) = self.run("SELECT @@global.gtid_executed")
        return GtidSet.read(text)

    def file_position(self) -> FilePosition:
        """The end of the log, by a byte of its last file."""
        ((file, position, *_),) = self.run("SHOW BINARY LOG STATUS")
        return FilePosition(file, int(position))

    def purge(self) -> None:
        """Remove all of the log but its newest file."""
        self.run("FLUSH BINARY LOGS")
        self.run(f"PURGE BINARY LOGS TO '{self.file_position().file}'")


def streamed(
    config: dict[str, str],
    start: LogPosition,
    end: LogPosition,
    *,
    direct: bool,
    kept: Any = None,
    numbers: list[int] | None = None,
) -> tuple[list[Any], int]:
    """All records between two places, and how often a new stream began in the midst of a transaction.

    Args:
        kept: what is stored of an offset, after each of which a new stream begins; None: one stream reads all.
        numbers: gets the number of each record's commit.
    """
    read = read_config(config, MYSQL)
    place = "" if start.has_ids else start.file  # type: ignore[attr-defined]
    offset = Offset(start, place, 0 if start.has_ids else start.position)  # type: ignore[attr-defined]
    output, halves, deadline = Collected(direct=direct), 0, time.monotonic() + 60
    while not offset.gtids.contains(end):
        stream = Stream(read, output, offset)  # type: ignore[arg-type]
        before = stored = kept(stream.offset().stored()) if kept else {}
        while not stream.offset().gtids.contains(end) and stored == before:
            assert time.monotonic() < deadline
            stream.read()
            stored = kept(stream.offset().stored()) if kept else {}
        offset = stream.offset()
        stream.close()
        if kept:
            halves += "event" in stored
            offset = read_offset(stored, MYSQL)
    if numbers is not None:
        numbers += [int(headers[COMMIT]) for headers in output.headers]
    return output.records, halves
