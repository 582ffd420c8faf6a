"""What a server must be for its changes to be read."""

from collections.abc import Mapping, Sequence
from typing import Final

from tidings_capture.mysql.binlog.gtid import GtidPosition
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import UnsupportedError
from tidings_capture.mysql.history.options import HISTORY_SERVERS, HISTORY_TOPIC
from tidings_capture.mysql.offset import Offset
from tidings_service import get_logger

_log = get_logger(__name__)
_NEEDED: Final = {
    "log_bin": (("1",), "start the server with log_bin"),
    "binlog_format": (("ROW",), "SET GLOBAL binlog_format=ROW; sessions that are open keep what they had"),
    "binlog_row_image": (
        ("FULL", "FULL_NODUP", "NOBLOB"),
        "SET GLOBAL binlog_row_image=FULL; sessions that are open keep what they had",
    ),
}
_METADATA: Final = "binlog_row_metadata"
_FIRST: Final = 4
"""Where the events of a file begin."""
_OLDEST: Final = (10, 5)
"""The first with ``binlog_row_metadata``."""


def oldest_position(session: Session) -> Offset:
    """Where the server's log begins.

    Raises:
        MariaDbError: it cannot be asked.
    """
    (file, *_) = session.rows("SHOW BINARY LOGS")[0]
    ((gtids,),) = session.rows("SELECT BINLOG_GTID_POS(%s, %s)", (file, _FIRST))
    return Offset(GtidPosition.read(gtids or ""), file, _FIRST)


def names_columns(session: Session) -> bool:
    """Whether the log names the columns of tables now.

    Raises:
        MariaDbError: the server cannot be asked.
    """
    return _metadata(session) == "FULL"


def _metadata(session: Session) -> str:
    ((value,),) = session.rows(f"SELECT @@global.{_METADATA}")
    return str(value).upper()


def version_of(session: Session) -> str:
    """The server's version, as it says itself."""
    ((version,),) = session.rows("SELECT VERSION()")
    return str(version)


def check_server(session: Session, *, has_history: bool = False) -> None:
    """See that a server writes what is needed.

    Args:
        has_history: whether the connector keeps the columns of tables in a schema history, so that the log need not name them.

    Raises:
        UnsupportedError: it does not; says what to set.
        MariaDbError: it cannot be asked.
    """
    version = version_of(session)
    number = tuple(int(part) for part in version.split("-")[0].split(".")[:2])
    if "mariadb" not in version.lower() or number < _OLDEST:
        raise UnsupportedError(
            f"the server is not a MariaDB of version 10.5 or newer but {version}",
            hint="for MySQL there is io.debezium.connector.mysql.MySqlConnector",
        )
    check_variables(session, _NEEDED)
    check_metadata(session, has_history=has_history)


def check_variables(session: Session, needed: Mapping[str, tuple[Sequence[str], str]]) -> None:
    """See that variables have one of the values that they must have; errors as of `check_server`.

    Args:
        needed: values by the variable's name, and what to do else.
    """
    values = session.rows("SELECT " + ", ".join(f"@@global.{name}" for name in needed))[0]
    for (name, (wanted, hint)), value in zip(needed.items(), values, strict=True):
        if str(value).upper() not in wanted:
            raise UnsupportedError(
                f"the server's {name} is {value}, and must be {' or '.join(wanted)}", hint=hint
            )
        if value == "NOBLOB":
            _log.warning(
                "binlog_row_image is NOBLOB: the log does not tell texts and bytes that did not change, nor those that"
                " REPLACE has emptied"
            )


def check_metadata(session: Session, *, has_history: bool) -> None:
    """See that the log names columns where it must; arguments and errors as of `check_server`."""
    if not has_history and (value := _metadata(session)) != "FULL":
        raise UnsupportedError(
            f"the server's {_METADATA} is {value}, so that its log does not name the columns of tables",
            hint=f"SET GLOBAL {_METADATA}=FULL, or set {HISTORY_TOPIC} and {HISTORY_SERVERS}",
        )
