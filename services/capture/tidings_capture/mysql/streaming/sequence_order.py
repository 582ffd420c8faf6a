"""Sees that MariaDB's sequence numbers ascend in the log: they are the order of commits downstream (`tidings_envelope.gtid`).

A server without ``gtid_strict_mode``, which is the default, logs any: those of a second primary, or of a session that has set
``gtid_seq_no``. MySQL's numbers order nothing; `commit_numbers` makes others.
"""

from tidings_capture.mysql.binlog.events import GtidEvent
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.errors import UnsupportedError
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_service import get_logger

_log = get_logger(__name__)


def check_goes_on(config: MariaDbConfig, before: LogPosition, now: LogPosition) -> None:
    """See that numbers go on behind those that were read, where the log does not and a new snapshot is taken.

    Args:
        before: what was read.
        now: where the snapshot is.

    Raises:
        UnsupportedError: they do not, and transactions are told: consumers would take those that follow for repeated ones until
            the numbers are beyond.
    """
    if config.flavour.numbers_commits or not config.transactions or now.contains(before):
        return
    raise UnsupportedError(
        f"a new snapshot cannot go on in the same topics: the server logs on behind {now}, and was read up to {before} before;"
        " consumers of transactions would take those that follow for repeated ones",
        hint="write one transaction with a greater number than was read (SET gtid_seq_no=<number> in its session, as a user with"
        " BINLOG REPLAY), or capture anew under another topic.prefix",
    )


class SequenceOrder:
    """Of one stream."""

    def __init__(self, config: MariaDbConfig) -> None:
        self._is_order = not config.flavour.numbers_commits
        self._is_needed = config.transactions
        self._warned = False

    def begin(self, begun: GtidEvent, before: LogPosition, file: str, end: int) -> None:
        """A transaction begins.

        Args:
            before: what was read before it.
            file: of the log, in which it begins.
            end: the byte behind that event; 0 where it is not told.

        Raises:
            UnsupportedError: its number is not beyond the last one of its replication domain, and transactions are told, which
                consumers order by it: this one would seem to be repeated, and be dropped.
        """
        if not self._is_order or not before.holds(begun.gtid):
            return
        if self._is_needed:
            raise UnsupportedError(
                f"transaction {begun.gtid}, which begins in {file} before byte {end}, follows {before}: sequence numbers go back,"
                " so that consumers of transactions would take it for a repeated one",
                hint="let gtid_strict_mode=ON on the server refuse such, and each primary have a gtid_domain_id of its own; then"
                " capture anew under another topic.prefix",
            )
        if not self._warned:
            _log.warning(
                "sequence numbers go back in the log: a connector that starts anew there may repeat or miss transactions",
                transaction=str(begun.gtid),
                before=str(before),
            )
            self._warned = True
