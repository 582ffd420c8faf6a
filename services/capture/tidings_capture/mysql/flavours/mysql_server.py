"""What a MySQL server must be for its changes to be read, and where its log is."""

import re
from typing import Final, NamedTuple

from tidings_capture.mysql.binlog.file_position import FilePosition, file_number
from tidings_capture.mysql.binlog.gtid_set import GtidSet
from tidings_capture.mysql.binlog.gtid_sources import GtidSources
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import (
    BinlogDivergedError,
    BinlogLostError,
    MariaDbError,
    OtherServerError,
    UnsupportedError,
)
from tidings_capture.mysql.server import check_metadata, check_variables, version_of
from tidings_service import get_logger

_log = get_logger(__name__)
_OLDEST: Final = (8, 0)
"""The first with ``binlog_row_metadata``."""
_STATUS_RENAMED: Final = (8, 2)
_NEEDED: Final = {
    "log_bin": (("1",), "start the server with log_bin"),
    "binlog_format": (("ROW",), "SET GLOBAL binlog_format=ROW; sessions that are open keep what they had"),
    "binlog_row_image": (
        ("FULL", "NOBLOB"),
        "SET GLOBAL binlog_row_image=FULL; sessions that are open keep what they had",
    ),
    "binlog_row_value_options": (
        ("", "PARTIAL_JSON"),
        "SET GLOBAL binlog_row_value_options=''; sessions that are open keep what they had",
    ),
    "gtid_mode": (("ON", "OFF"), "go on to gtid_mode=ON, which takes a step more"),
}
_OWNER: Final = re.compile(r"#\d+")
_SNAPSHOT: Final = "take a new snapshot: set snapshot.mode=when_needed"


class Status(NamedTuple):
    """Where the log is written."""

    file: str
    position: int
    executed: GtidSet
    """What can be seen by who reads, and perhaps more."""


def check_server(session: Session, *, has_history: bool) -> None:
    """See that a server writes what is needed; arguments and errors as of `tidings_capture.mysql.server.check_server`."""
    version = version_of(session)
    if "mariadb" in version.lower() or _number(version) < _OLDEST:
        raise UnsupportedError(
            f"the server is not a MySQL of version 8.0 or newer but {version}",
            hint="for MariaDB there is io.debezium.connector.mariadb.MariaDbConnector",
        )
    check_variables(session, _NEEDED)
    _check_values(session)
    check_metadata(session, has_history=has_history)


def _check_values(session: Session) -> None:
    """Of documents of which the log has only what has changed, it must have what was there before."""
    ((options, image),) = session.rows("SELECT @@global.binlog_row_value_options, @@global.binlog_row_image")
    if options and str(image).upper() != "FULL":
        raise UnsupportedError(
            f"the server's binlog_row_value_options is {options} and its binlog_row_image {image}, so that its log has neither what a"
            " JSON document was nor what it has become",
            hint="SET GLOBAL binlog_row_image=FULL, or SET GLOBAL binlog_row_value_options=''; sessions that are open keep what they had",
        )


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("-", maxsplit=1)[0].split(".")[:2])


def names_transactions(session: Session) -> bool:
    """Whether the server gives transactions GTIDs."""
    ((mode,),) = session.rows("SELECT @@global.gtid_mode")
    return bool(mode == "ON")


def executed(session: Session) -> GtidSet:
    """The transactions that are complete: who reads now sees them."""
    ((text,),) = session.rows("SELECT @@global.gtid_executed")
    return GtidSet.read(text or "")


def _being_committed(session: Session) -> GtidSet:
    """``gtid_owned``: as a set, each number with the threads that own it (``uuid:7#12``)."""
    ((text,),) = session.rows("SELECT @@global.gtid_owned")
    return GtidSet.read(_OWNER.sub("", text or ""))


def status(session: Session) -> Status:
    """Where the log is written now.

    Raises:
        MariaDbError: the user may lack the right REPLICATION CLIENT.
    """
    renamed = _number(version_of(session)) >= _STATUS_RENAMED
    rows = session.rows("SHOW BINARY LOG STATUS" if renamed else "SHOW MASTER STATUS")
    if not rows:
        raise MariaDbError("the server writes no binary log")
    file, position, _, _, gtids = rows[0]
    return Status(file, int(position), GtidSet.read(gtids or ""))


def adopted(session: Session, position: LogPosition, sources: GtidSources) -> LogPosition:
    """A place as this server can have it: of sources that are left out, what it has logged or purged, whatever was read.

    Raises:
        MariaDbError: it cannot be asked.
    """
    if not sources.choose or not isinstance(position, GtidSet) or not names_transactions(session):
        return position
    others = position.of(lambda server: not sources.have(server))
    gone = _not_logged(session, others)
    purged = _purged(session).of(lambda server: not sources.have(server))
    return position.without(gone).joined(purged)


def check_position(session: Session, position: LogPosition, where: str) -> None:
    """See that a server's log goes on from a place.

    Args:
        where: the server, for messages.

    Raises:
        BinlogLostError: what follows the place was purged.
        OtherServerError: the server has never logged it, and will not.
        BinlogDivergedError: it has others in its place.
        MariaDbError: it is a replica that has not come so far; or it cannot be asked.
        UnsupportedError: the place names transactions, and the server none.
    """
    if isinstance(position, FilePosition):
        _check_file(session, position, where)
    elif isinstance(position, GtidSet) and not position.is_start:
        _check_set(session, position, where)


def _check_set(session: Session, position: GtidSet, where: str) -> None:
    if not names_transactions(session):
        raise UnsupportedError(
            f"{where} has gtid_mode=OFF, and the stored position names transactions by GTIDs",
            hint="set gtid_mode=ON, or take a new snapshot",
        )
    missing = _not_logged(session, position)
    if not missing.is_start:
        raise _missing(session, missing, executed(session).without(position), position, where)
    lost = _purged(session).without(position)
    if not lost.is_start:
        raise BinlogLostError(
            f"{where} has purged transactions of its binary log before they were read ({lost}): changes are lost",
            hint=_SNAPSHOT,
        )


def _not_logged(session: Session, position: GtidSet) -> GtidSet:
    missing = position.without(executed(session))
    if missing.is_start:
        return missing
    # What is being committed is in the log before it is complete, and complete before it is owned no more.
    return missing.without(_being_committed(session)).without(executed(session))


def _purged(session: Session) -> GtidSet:
    ((text,),) = session.rows("SELECT @@global.gtid_purged")
    return GtidSet.read(text or "")


def _missing(
    session: Session, missing: GtidSet, others: GtidSet, position: GtidSet, where: str
) -> BinlogLostError | MariaDbError:
    if _replicates(session):
        return MariaDbError(
            f"{where} is a replica that has not yet reached {missing}, which was read from another server",
            hint="it is asked again; see SHOW REPLICA STATUS there",
        )
    if others.is_start or not any(source in position.without(missing).ids for source in position.ids):
        return OtherServerError(
            f"{where} has never logged {missing}, which was read: it is another server, was built anew, or was promoted"
            " without the last transactions of the server before it",
            hint=f"point database.hostname at a server that has it, or {_SNAPSHOT}",
        )
    return BinlogDivergedError(
        f"{where} has not logged {missing}, which was read, and others ({others}): it was promoted without the last"
        " transactions of the server before it, or both were written",
        hint=f"the topics hold what this server does not: {_SNAPSHOT}, or point database.hostname at a server that has it",
    )


def _replicates(session: Session) -> bool:
    renamed = _number(version_of(session)) >= _STATUS_RENAMED
    statement = "SHOW REPLICA STATUS" if renamed else "SHOW SLAVE STATUS"
    columns = sorted(session.columns(statement))
    return bool(columns) and any("Yes" in row for row in session.rows(statement))


def _check_file(session: Session, position: FilePosition, where: str) -> None:
    sizes = {row[0]: int(row[1]) for row in session.rows("SHOW BINARY LOGS")}
    if position.file in sizes and position.position <= sizes[position.file]:
        return
    if position.file in sizes or not sizes or min(map(file_number, sizes)) > file_number(position.file):
        raise (OtherServerError if position.file in sizes else BinlogLostError)(
            f"the binary log of {where} does not hold {position}: "
            + ("it is another server, or was built anew" if position.file in sizes else "it was purged"),
            hint=_SNAPSHOT,
        )
    raise OtherServerError(
        f"the binary log of {where} ends before {position}: it is another server, or was built anew",
        hint=_SNAPSHOT,
    )
