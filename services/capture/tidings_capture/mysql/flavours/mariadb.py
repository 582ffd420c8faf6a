"""MariaDB: transactions of domains, ``domain-server-sequence``, and the place of the log in every snapshot."""

import struct
from collections.abc import Collection, Sequence
from typing import Any, Final

from tidings_capture.mysql.binlog.events import EventReader
from tidings_capture.mysql.binlog.file_position import file_number
from tidings_capture.mysql.binlog.gtid import Gtid, GtidPosition, read_gtids
from tidings_capture.mysql.binlog.gtid_sources import GtidSources
from tidings_capture.mysql.binlog.log_check import adopted, check_position
from tidings_capture.mysql.client import Endpoint, Request, Session
from tidings_capture.mysql.flavours.flavour import COM_BINLOG_DUMP, EventSource, Flavour, Moment
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.server import check_server, oldest_position
from tidings_capture.mysql.snapshots.moment import (
    begin_together,
    commits_xa,
    log_file_of,
    position_of,
    warn_of_xa,
)
from tidings_capture.mysql.streaming.observers import Streamed

_SEND_ANNOTATIONS: Final = 2
_CAPABILITY: Final = 4
"""What MariaDB's own replicas say: GTIDs are understood, and events that are MariaDB's own."""


class MariaDb:
    """See `Flavour`."""

    name: str = "mariadb"
    version: str = "3.5.0.Final"
    moment_needs_lock: bool = False
    numbers_commits: bool = False
    writes_like_mysql: bool = False

    def gtid(self, text: str) -> Gtid:
        (found,) = read_gtids(text)
        return found

    def position(self, text: str) -> GtidPosition:
        return GtidPosition.read(text)

    def stored_position(self, gtids: Any, file: str, position: int) -> GtidPosition:  # noqa: ARG002 - it is not exact
        if not isinstance(gtids, str):
            raise ValueError("are missing: without GTIDs nothing can go on here")  # noqa: TRY004
        return GtidPosition.read(gtids)

    def check_server(self, session: Session, *, has_history: bool) -> None:
        check_server(session, has_history=has_history)

    def adopted(self, session: Session, position: Any, sources: GtidSources) -> GtidPosition:
        return adopted(session, position, sources, lambda: _oldest(session))

    def check_position(self, session: Session, position: Any, where: str) -> None:
        check_position(session, position, where)

    def oldest(self, session: Session, like: Any = None) -> Offset:  # noqa: ARG002 - there is one kind
        return oldest_position(session)

    def now(self, session: Session) -> Offset:
        return position_of(session)

    def end(self, session: Session, like: Any) -> GtidPosition:  # noqa: ARG002 - there is one kind
        ((text,),) = session.rows("SELECT @@global.gtid_binlog_pos")
        return GtidPosition.read(text or "")

    def await_definitions(self, session: Session, names: Collection[tuple[str, str]]) -> None:
        """They are in the log before the catalog shows them."""

    def begin(
        self,
        first: Session,
        others: Sequence[Session],
        endpoint: Endpoint,
        *,
        may_lock: bool,
        locked: bool,  # noqa: ARG002 - nobody commits then, and it begins at the first try
    ) -> Moment:
        if not may_lock and commits_xa(first):
            warn_of_xa()
        is_common = begin_together([first, *others], endpoint, may_lock=may_lock)
        return Moment(position_of(first), is_common)

    def check_commit_order(self, session: Session) -> None:
        """It is asked for transactions, which always have names."""

    def sees(self, session: Session, streamed: Streamed) -> bool:
        """The server says where its log was at a snapshot; of distributed transactions, too early: it lists them as prepared until
        they can be seen."""
        session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            if streamed.begin is None:  # of another server, perhaps: its files do not compare
                is_behind = position_of(session).gtids.contains(streamed.gtids)
            else:
                file, position = log_file_of(session)
                is_behind = (file_number(file), position) > (file_number(streamed.file), streamed.begin)
        finally:
            session.rows("COMMIT")
        return is_behind and (not streamed.distributed or _prepared(session).isdisjoint(streamed.distributed))

    def events(self, position: Any) -> EventSource:  # noqa: ARG002 - they say all by themselves
        return EventReader()

    def request(
        self, position: Any, server_id: int, *, annotations: bool, heartbeat_seconds: float
    ) -> Request:
        flags = _SEND_ANNOTATIONS if annotations else 0
        return Request(
            (
                ("SET @master_binlog_checksum = 'CRC32', @slave_gtid_strict_mode = 1", ()),
                (f"SET @mariadb_slave_capability = {_CAPABILITY}", ()),
                (f"SET @master_heartbeat_period = {int(heartbeat_seconds * 1_000_000_000)}", ()),
                ("SET @slave_connect_state = %s", (str(position),)),
            ),
            COM_BINLOG_DUMP,
            struct.pack("<IHI", 4, flags, server_id),
        )


def _oldest(session: Session) -> GtidPosition:
    position = oldest_position(session).gtids
    assert isinstance(position, GtidPosition)
    return position


def _prepared(session: Session) -> set[str]:
    """The ids of prepared transactions, as the log's reader has them."""
    found = set()
    for form, first, _, data in session.rows("XA RECOVER"):
        name = data.encode() if isinstance(data, str) else data
        found.add(f"{form}-{name[: int(first)].hex()}-{name[int(first) :].hex()}")
    return found


MARIADB: Final[Flavour] = MariaDb()
