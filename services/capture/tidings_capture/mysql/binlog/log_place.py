"""Where a reader of the log is, by the events that it reads: which transaction it is in, and behind which ones."""

from typing import Final

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.events import Event, GtidEvent
from tidings_capture.mysql.binlog.file_position import FilePosition
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.binlog.statements import Kind, kind_of

_ENDS: Final = frozenset({Kind.COMMIT, Kind.ROLLBACK, Kind.XA_COMMIT, Kind.XA_ROLLBACK})
_HEADS: Final = frozenset({log.FORMAT_DESCRIPTION, log.PREVIOUS_GTIDS})


class LogPlace:
    """Of one reader.

    Args:
        position: where it begins.
    """

    def __init__(self, position: LogPosition) -> None:
        self.complete = position
        """All before it was read to its end."""
        self.current: GtidEvent | None = None
        """What began the transaction that is being read."""
        self._file = position.file if isinstance(position, FilePosition) else ""

    def take(self, event: Event) -> bool:
        """An event was read; whether `complete` is another place for it.

        Raises:
            BinlogError: the event is malformed.
        """
        if event.type == log.GTID:
            self.current = log.read_gtid(event)
        elif self.current is None:
            return self._pass(event)
        elif _ends(event, self.current):
            self.complete = self.complete.ended(self.current.gtid, self._file, event.end_position)
            self.current = None
            return True
        return False

    def _pass(self, event: Event) -> bool:
        """What is in no transaction: the end of a file, and the head of the next one."""
        if event.type == log.ROTATE:
            rotate = log.read_rotate(event)
            self._file = rotate.file
            if event.timestamp:  # the first one of a stream is made up, and has none
                self.complete = self.complete.passed(rotate.file, rotate.position)
                return True
        elif event.type in _HEADS and event.end_position:
            self.complete = self.complete.passed(self._file, event.end_position)
            return True
        return False


def _ends(event: Event, current: GtidEvent) -> bool:
    if event.type in {log.QUERY, log.QUERY_COMPRESSED}:
        return current.standalone or kind_of(log.read_query(event).statement) in _ENDS
    return event.type in {log.XID, log.XA_PREPARE}
