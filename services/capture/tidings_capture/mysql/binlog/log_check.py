"""Whether a server's binary log can go on from a position: asked before the stream is opened.

The server is not asked alone. One whose log has no transaction of a domain takes any position in it, so that a server that was
built anew would be read from its beginning in silence; and its words for the others are one error (1236).

What a server has logged is ``gtid_binlog_state``: the last transaction of each server in each domain.
"""

from collections.abc import Callable, Iterable

from tidings_capture.mysql.binlog.gtid import Gtid, GtidPosition, read_gtids
from tidings_capture.mysql.binlog.gtid_sources import GtidSources
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import BinlogDivergedError, MariaDbError, OtherServerError
from tidings_service import get_logger

_log = get_logger(__name__)
_SNAPSHOT = "take a new snapshot: set snapshot.mode=when_needed"


def adopted(
    session: Session, position: GtidPosition, sources: GtidSources, oldest: Callable[[], GtidPosition]
) -> GtidPosition:
    """A place as this server can have it: a domain all of whose sources are left out is read from where the server's log begins,
    unless it has logged what was read of it.

    A domain with a source that counts stays as it is: a place in it names the last transaction only, whosever it is.

    Args:
        oldest: where the log begins.

    Raises:
        MariaDbError: the server cannot be asked.
    """
    if not sources.choose:
        return position
    ((text,),) = session.rows("SELECT @@global.gtid_binlog_state")
    logged = read_gtids(text or "")
    counted = {gtid.domain for gtid in (*logged, *position.last) if sources.have(gtid.origin)}
    others = [gtid for gtid in logged if gtid.domain not in counted]
    kept = [
        gtid
        for gtid in position.last
        if gtid.domain in counted
        or any((one.domain, one.server) == gtid[:2] and one.sequence >= gtid.sequence for one in others)
    ]
    unread = {gtid.domain for gtid in others} - {gtid.domain for gtid in kept}
    begins = oldest().last if unread else []
    return GtidPosition([*kept, *(gtid for gtid in begins if gtid.domain in unread)])


def check_position(session: Session, position: GtidPosition, where: str) -> None:
    """See that a server has logged what was read last.

    Args:
        where: the server, for messages.

    Raises:
        OtherServerError: it has not, and will not.
        BinlogDivergedError: it has others in their place.
        MariaDbError: it is a replica that has not come so far; or it cannot be asked.
    """
    if not position.last:
        return
    ((text,),) = session.rows("SELECT @@global.gtid_binlog_state")
    logged = read_gtids(text or "")
    known = [gtid for gtid in position.last if any(one.domain == gtid.domain for one in logged)]
    for gtid in known:
        _check(session, gtid, logged, where)
    missing = [gtid for gtid in position.last if gtid not in known]
    if missing and not known:
        raise _behind(session, missing[0], logged, where)
    if missing:  # as after FLUSH BINARY LOGS DELETE_DOMAIN_ID
        _log.warning(
            "the server's log has nothing of a replication domain that was read",
            domains=[gtid.domain for gtid in missing],
        )


def _check(session: Session, gtid: Gtid, logged: Iterable[Gtid], where: str) -> None:
    of_domain = [one for one in logged if one.domain == gtid.domain]
    if any(one.server == gtid.server and one.sequence >= gtid.sequence for one in of_domain):
        return
    if any(one.sequence >= gtid.sequence for one in of_domain):
        last = ", ".join(map(str, of_domain))
        raise BinlogDivergedError(
            f"{where} has logged others in place of {gtid}, which was read (its log ends with {last}): it was promoted"
            " without the last transactions of the server before it, or both were written",
            hint=f"the topics hold what this server does not: {_SNAPSHOT}, or point database.hostname at a server that has it",
        )
    raise _behind(session, gtid, of_domain, where)


def _behind(
    session: Session, gtid: Gtid, logged: Iterable[Gtid], where: str
) -> OtherServerError | MariaDbError:
    last = ", ".join(map(str, logged)) or "nothing"
    ((_, running),) = session.rows("SHOW GLOBAL STATUS LIKE 'Slaves_running'") or [("", "0")]
    if int(running):
        return MariaDbError(
            f"{where} is a replica that has not yet reached {gtid}, which was read from another server; its log ends with {last}",
            hint="it is asked again; see SHOW ALL SLAVES STATUS there",
        )
    return OtherServerError(
        f"{where} has never logged {gtid}, which was read; its log ends with {last}: it is another server, was built anew, or"
        " was promoted without the last transactions of the server before it",
        hint=f"point database.hostname at a server that has it, or {_SNAPSHOT}",
    )
