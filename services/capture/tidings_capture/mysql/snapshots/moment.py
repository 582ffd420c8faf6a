"""The moment of a snapshot, and where the log is at it: of one connection, or of several at the very same.

MariaDB cannot hand a transaction's view to another connection, as PostgreSQL can. But each transaction that is begun with a
consistent snapshot tells the position of the log that it sees (``binlog_snapshot_*``): where several tell the same one, nothing was
committed between them. On a server that commits all the time this may never be so; then commits are held up for as long as the
transactions take to begin, where the user may do that.

One kind of commit is before the position earlier than it can be seen: that of a distributed transaction (XA). On a server that has
such, all tables are locked before the transactions begin (`locks`).
"""

import time
from collections.abc import Sequence
from typing import Final

from tidings_capture.mysql.binlog.gtid import GtidPosition
from tidings_capture.mysql.client import Endpoint, Session
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.offset import Offset
from tidings_service import get_logger

_log = get_logger(__name__)
_TRIES: Final = 50
_LOCK_SECONDS: Final = 2
"""How long a lock on all tables is waited for, which holds up all others meanwhile."""
IDLE_SECONDS: Final = 120
"""Behind so long a silence the server gives a lock back by itself: whoever held it is gone, or stands still."""


def position_of(session: Session) -> Offset:
    """Where the log is at the session's snapshot.

    Raises:
        MariaDbError: the server does not say.
    """
    file, position = log_file_of(session)
    ((gtids,),) = session.rows("SELECT BINLOG_GTID_POS(%s, %s)", (file, position))
    if gtids is None:
        raise MariaDbError(f"the server knows no GTID of {file} at {position}")
    return Offset(GtidPosition.read(gtids), file, position, int(time.time()), in_snapshot=True)


def log_file_of(session: Session) -> tuple[str, int]:
    """The file of the log at the session's snapshot, and the position in it; errors as of `position_of`."""
    status = dict(session.rows("SHOW STATUS LIKE 'binlog_snapshot_%'"))
    values = {name.lower(): value for name, value in status.items()}
    file, position = values.get("binlog_snapshot_file"), values.get("binlog_snapshot_position")
    if not file or not position:
        raise MariaDbError("the server does not say where its log is at the snapshot (binlog_snapshot_file)")
    return file, int(position)


def begin_together(
    sessions: Sequence[Session], endpoint: Endpoint, *, may_lock: bool, tries: int = _TRIES
) -> bool:
    """Begin the transactions of some connections, at the same moment.

    Args:
        endpoint: of one more connection, which locks tables.
        may_lock: whether all tables may be locked for a moment.
        tries: how often it is tried without a lock.

    Returns:
        Whether a common moment was found; else a warning is logged.

    Raises:
        MariaDbError: a connection is lost, or cannot be made.
    """
    for session in sessions:
        session.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    if any(_begin(sessions) for _ in range(tries)) or (may_lock and _begin_locked(endpoint, sessions)):
        return True
    _log.warning(
        "tables are read one by one: the server commits all the time, and commits could not be held up for a moment"
    )
    return False


def commits_xa(session: Session) -> bool:
    """Whether distributed transactions have been committed since the server has started.

    Raises:
        MariaDbError: the server cannot be asked.
    """
    return any(int(count) for _, count in session.rows("SHOW GLOBAL STATUS LIKE 'Com_xa_commit'"))


def warn_of_xa() -> None:
    """A snapshot begins that may not see all that lies before it."""
    _log.warning(
        "a distributed transaction (XA) that is committed at this very moment may be missing: commits could not be held up"
    )


def _begin(sessions: Sequence[Session]) -> bool:
    """Begin a transaction in each; whether all see the same moment."""
    for session in sessions:
        session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    return len(sessions) == 1 or len({log_file_of(session) for session in sessions}) == 1


def _begin_locked(endpoint: Endpoint, sessions: Sequence[Session]) -> bool:
    """As `_begin`, while nobody may commit; False, where that cannot be had."""
    lock = Session(endpoint)
    try:
        lock.rows(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}, wait_timeout = {IDLE_SECONDS}")
        lock.rows("FLUSH TABLES WITH READ LOCK")
        return _begin(sessions)
    except MariaDbError as error:
        _log.info("no table could be locked for a moment", reason=str(error))
        return False
    finally:
        lock.close()
