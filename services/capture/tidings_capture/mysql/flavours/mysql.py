"""MySQL: sets of transactions, or bytes of files where it names none; and no place of the log in a snapshot by itself."""

import secrets
import struct
import time
from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid4, uuid5

from tidings_capture.mysql.binlog.file_position import FileId, FilePosition
from tidings_capture.mysql.binlog.gtid_set import GtidSet, MySqlGtid, read_gtid
from tidings_capture.mysql.binlog.gtid_sources import GtidSources
from tidings_capture.mysql.binlog.mysql_events import MySqlEvents
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.client import Endpoint, Request, Session
from tidings_capture.mysql.encoding.selected import quoted
from tidings_capture.mysql.errors import MariaDbError, UnsupportedError
from tidings_capture.mysql.flavours.flavour import COM_BINLOG_DUMP, EventSource, Flavour, Moment
from tidings_capture.mysql.flavours.mysql_server import (
    adopted,
    check_position,
    check_server,
    executed,
    names_transactions,
    status,
)
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.streaming.observers import Streamed
from tidings_service import get_logger
from tidings_service.errors import Retry

_log = get_logger(__name__)
_COM_BINLOG_DUMP_GTID: Final = 0x1E
_BY_SET: Final = 4
"""The position is a set, and no file is named."""
_FIRST: Final = 4
"""Where the events of a file begin."""
_TRIES: Final = 50
_NO_TABLE: Final = 1146


class MySql:
    """See `Flavour`."""

    name: str = "mysql"
    version: str = "3.5.0.Final"
    moment_needs_lock: bool = True
    numbers_commits: bool = True
    writes_like_mysql: bool = True

    def gtid(self, text: str) -> MySqlGtid | FileId:
        try:
            return read_gtid(text)
        except ValueError:
            return FileId(*FilePosition.read(text))

    def position(self, text: str) -> LogPosition:
        try:
            return GtidSet.read(text)
        except ValueError:
            return FilePosition.read(text)

    def stored_position(self, gtids: Any, file: str, position: int) -> LogPosition:
        if gtids is None:
            if not file or position < _FIRST:
                raise ValueError("are missing, and no file and position of the log are there either")
            return FilePosition(file, position)
        if not isinstance(gtids, str):
            raise ValueError("are not a text")  # noqa: TRY004
        return GtidSet.read(gtids)

    def check_server(self, session: Session, *, has_history: bool) -> None:
        check_server(session, has_history=has_history)

    def adopted(self, session: Session, position: LogPosition, sources: GtidSources) -> LogPosition:
        return adopted(session, position, sources)

    def check_position(self, session: Session, position: LogPosition, where: str) -> None:
        check_position(session, position, where)

    def oldest(self, session: Session, like: LogPosition | None = None) -> Offset:
        (file, *_) = session.rows("SHOW BINARY LOGS")[0]
        if not (names_transactions(session) if like is None else like.has_ids):
            return Offset(FilePosition(file, _FIRST), file, _FIRST)
        ((purged,),) = session.rows("SELECT @@global.gtid_purged")
        return Offset(GtidSet.read(purged or ""), file, _FIRST)

    def now(self, session: Session) -> Offset:
        found = status(session)
        place: LogPosition = FilePosition(found.file, found.position)
        if names_transactions(session):
            place = found.executed
        # No later commit of this server is numbered below its clock, and none before it above.
        ((micros,),) = session.rows("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
        seconds = int(time.time())
        return Offset(place, found.file, found.position, seconds, in_snapshot=True, commit=int(micros))

    def end(self, session: Session, like: LogPosition) -> LogPosition:
        if like.has_ids:
            return executed(session)
        found = status(session)
        return FilePosition(found.file, found.position)

    def await_definitions(self, session: Session, names: Collection[tuple[str, str]]) -> None:
        """The catalog shows them before they are among the complete transactions; who reads a table waits for them."""
        for database, table in names:
            try:
                session.rows(f"SELECT 1 FROM {quoted(database)}.{quoted(table)} LIMIT 0")  # noqa: S608 - a name that is quoted
            except MariaDbError as error:
                if error.number != _NO_TABLE:
                    raise

    def begin(
        self,
        first: Session,
        others: Sequence[Session],
        endpoint: Endpoint,  # noqa: ARG002 - for a lock, see may_lock
        *,
        may_lock: bool,  # noqa: ARG002 - who may has done so
        locked: bool,
    ) -> Moment:
        if locked:
            return self._begin_locked(first, others)
        if others:
            _log.warning("tables are read one by one: without a lock no two connections see the same moment")
        first.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        offset = self.now(first)
        if not offset.gtids.has_ids:
            raise UnsupportedError(
                "without GTIDs and without a lock the server does not say which changes a snapshot has seen",
                hint="set snapshot.locking.mode=minimal, or gtid_mode=ON at the server",
            )
        for _ in range(_TRIES):
            # What is complete before is seen; what is being committed may be seen, and comes once more in the log.
            offset = self.now(first)
            first.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            if self.now(first).gtids == offset.gtids:
                break
        return Moment(offset, is_common=False)

    def _begin_locked(self, first: Session, others: Sequence[Session]) -> Moment:
        for session in (first, *others):
            session.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        offset = self.now(first)
        for session in (first, *others):
            session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        return Moment(offset, is_common=True)

    def check_commit_order(self, session: Session) -> None:
        ((is_ordered,),) = session.rows("SELECT @@global.binlog_order_commits")
        if is_ordered != "1":
            raise MariaDbError(
                "without GTIDs an incremental snapshot needs binlog_order_commits=ON: else nothing tells what a reader sees",
                hint="SET GLOBAL binlog_order_commits=ON, or gtid_mode=ON",
                retry=Retry.MANUAL,
            )

    def sees(self, session: Session, streamed: Streamed) -> bool:
        """A transaction is sent to replicas before it is complete, and then among those that are."""
        if not streamed.gtids.has_ids:
            raise MariaDbError(
                "a read-only incremental snapshot needs GTIDs: without them the server does not say what a reader sees (gtid_mode)",
                hint="set signal.data.collection and read.only=false, or gtid_mode=ON",
                retry=Retry.MANUAL,
            )
        complete: LogPosition = executed(session)
        return complete.contains(streamed.gtids)

    def events(self, position: LogPosition) -> EventSource:
        return MySqlEvents(position)

    def request(
        self,
        position: LogPosition,
        server_id: int,
        *,
        annotations: bool,  # noqa: ARG002 - they are sent with the rest
        heartbeat_seconds: float,
    ) -> Request:
        period = int(heartbeat_seconds * 1_000_000_000)
        # The server ends a stream of the same UUID that was left without a word; of number 0 it would not wait for more.
        number = server_id or secrets.randbelow(1 << 31) + 1
        replica = str(uuid5(NAMESPACE_URL, f"tidings:{server_id}") if server_id else uuid4())
        statements = (
            ("SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'", ()),
            (f"SET @master_heartbeat_period = {period}, @source_heartbeat_period = {period}", ()),
            ("SET @slave_uuid = %s, @replica_uuid = %s", (replica, replica)),
        )
        if isinstance(position, FilePosition):
            body = struct.pack("<IHI", position.position, 0, number) + position.file.encode()
            return Request(statements, COM_BINLOG_DUMP, body)
        assert isinstance(position, GtidSet)
        ids = position.encoded()
        body = struct.pack("<HIIQI", _BY_SET, number, 0, _FIRST, len(ids)) + ids
        return Request(statements, _COM_BINLOG_DUMP_GTID, body)


MYSQL: Final[Flavour] = MySql()
