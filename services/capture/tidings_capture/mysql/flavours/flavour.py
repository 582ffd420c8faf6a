"""What the connector of MariaDB and that of MySQL do differently."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tidings_capture.mysql.binlog.events import Event
from tidings_capture.mysql.binlog.gtid_sources import GtidSources
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.client import Endpoint, Request, Session
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.streaming.observers import Streamed

COM_BINLOG_DUMP: Final = 0x12
"""The command that asks for the log by a file and a position in it."""


class EventSource(Protocol):
    """Makes events of the packets of one stream."""

    def events(self, packet: bytes) -> Iterator[Event]:
        """The events of a packet without its first byte; errors are `BinlogError` and `UnsupportedError`."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment of a snapshot."""

    offset: Offset
    """Of the first connection."""
    is_common: bool
    """Whether the other connections see the same."""


class Flavour(Protocol):
    """One kind of server. What asks one raises `MariaDbError`."""

    name: str
    """In ``source.connector`` and in the names of schemas."""
    version: str
    """The release of Debezium whose records these are; stands in ``source.version``."""
    moment_needs_lock: bool
    """Whether tables have to be locked for a moment when a snapshot begins (``snapshot.locking.mode=minimal``)."""
    numbers_commits: bool
    """Whether its transactions get numbers of ours, since their own have no order that outlasts a failover."""
    writes_like_mysql: bool
    """Whether its log has MySQL's form where the two differ (`read_table_map`)."""

    def gtid(self, text: str) -> Any:
        """A transaction's id, from its text; raises ValueError."""
        ...

    def position(self, text: str) -> LogPosition:
        """A place, from its text; raises ValueError."""
        ...

    def stored_position(self, gtids: Any, file: str, position: int) -> LogPosition:
        """The place of an offset; raises ValueError where it names none."""
        ...

    def check_server(self, session: Session, *, has_history: bool) -> None:
        """See that a server writes what is needed; raises UnsupportedError."""
        ...

    def adopted(self, session: Session, position: LogPosition, sources: GtidSources) -> LogPosition:
        """A place as a server can have it, whatever it has of the sources that are left out."""
        ...

    def check_position(self, session: Session, position: LogPosition, where: str) -> None:
        """See that a server's log goes on from a place; raises BinlogLostError and its kinds."""
        ...

    def oldest(self, session: Session, like: LogPosition | None = None) -> Offset:
        """Where the log begins; as a place of the same kind as another one."""
        ...

    def now(self, session: Session) -> Offset:
        """Where the log is at the session's snapshot, or after its beginning."""
        ...

    def end(self, session: Session, like: LogPosition) -> LogPosition:
        """Where the log ends, as a place of the same kind: all that a reader sees lies before it."""
        ...

    def await_definitions(self, session: Session, names: Collection[tuple[str, str]]) -> None:
        """Wait until definitions of tables that the catalog shows lie before `end`."""
        ...

    def begin(
        self, first: Session, others: Sequence[Session], endpoint: Endpoint, *, may_lock: bool, locked: bool
    ) -> Moment:
        """Begin the transaction of a snapshot.

        Args:
            others: connections that are to see the same, if they can.
            endpoint: of one more connection, which locks tables.
            may_lock: whether all tables may be locked for a moment.
            locked: whether the tables that are read are locked already.
        """
        ...

    def check_commit_order(self, session: Session) -> None:
        """See that commits become visible in the log's order.

        Raises:
            MariaDbError: they need not.
        """
        ...

    def sees(self, session: Session, streamed: Streamed) -> bool:
        """Whether who reads now sees all that a stream has shown."""
        ...

    def events(self, position: LogPosition) -> EventSource:
        """What reads a stream from a place."""
        ...

    def request(
        self, position: LogPosition, server_id: int, *, annotations: bool, heartbeat_seconds: float
    ) -> Request:
        """What asks for the log from a place; arguments as of `BinlogStream`."""
        ...
