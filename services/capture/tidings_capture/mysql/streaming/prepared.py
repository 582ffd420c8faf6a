"""Distributed transactions (XA) that are prepared, and neither committed nor rolled back yet.

The log has their rows where they were prepared, and where they are committed only their name. So nothing is told of them when
they are prepared: they are noted with their GTID and the position before it, which are stored with the offset. When one is
committed, its events come from memory, or are read again from the log by a connection of its own: after a restart, where it
was large, or where it was prepared before the stream began. Of one that is not noted the log is searched from its beginning on.
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Final

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.events import Event, GtidEvent
from tidings_capture.mysql.binlog.log_place import LogPlace
from tidings_capture.mysql.binlog.position import LogPosition, TransactionId
from tidings_capture.mysql.binlog.second_reader import Events, events_behind
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import BinlogLostError, UnsupportedError
from tidings_capture.mysql.offset import Prepared as StoredPrepared
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_service import get_logger

_log = get_logger(__name__)
_KEPT: Final = log.ROWS.keys() | {log.TABLE_MAP, log.ANNOTATE_ROWS}
"""Events that say something of rows."""
_MOST_BYTES: Final = 16 << 20
"""Of events that are kept in memory."""
_MOST: Final = 10_000
"""Transactions at once: the offset has to be small enough for a record."""


@dataclass(slots=True)
class _Held:
    """A transaction that is prepared."""

    gtid: TransactionId
    before: LogPosition
    """Behind it the log goes on with this transaction, and those of other domains."""
    events: list[Event] | None = field(default_factory=list)
    """None: they have to be read again."""
    size: int = 0
    """Of the events, in bytes."""


class Prepared:
    """The prepared transactions of one stream.

    Args:
        known: those of the stored offset.
    """

    def __init__(self, config: MariaDbConfig, known: StoredPrepared) -> None:
        self._config = config
        self._held = {xid: _Held(gtid, before, None) for xid, (gtid, before) in known.items()}
        self._present: _Held | None = None

    @property
    def stored(self) -> dict[str, tuple[TransactionId, LogPosition]]:
        """What the offset has to know, by the transactions' ids."""
        return {xid: (held.gtid, held.before) for xid, held in self._held.items()}

    def begin(self, begun: GtidEvent, before: LogPosition) -> None:
        """The events come that prepare a transaction."""
        self._present = _Held(begun.gtid, before)

    def take(self, event: Event) -> None:
        """One of them."""
        held = self._present
        if held is None or held.events is None or event.type not in _KEPT:
            return
        held.events.append(event)
        held.size += event.size
        if held.size + sum(other.size for other in self._held.values()) > _MOST_BYTES:
            held.events, held.size = None, 0

    def end(self, xid: str) -> None:
        """It is prepared.

        Raises:
            UnsupportedError: there are too many.
        """
        assert self._present is not None
        self._held[xid], self._present = self._present, None
        if len(self._held) > _MOST:
            raise UnsupportedError(
                f"more than {_MOST} distributed transactions (XA) are prepared and not committed",
                hint="see XA RECOVER, and commit them or roll them back",
            )

    def forget(self, xid: str) -> None:
        """It is rolled back, or all of it is written."""
        self._held.pop(xid, None)

    def events(self, xid: str, committed: Event, gtid: TransactionId, before: LogPosition) -> Events:
        """The events of a transaction that is committed, as of that moment.

        Args:
            committed: what says so.
            gtid: of that event.
            before: the place before it.

        Raises:
            BinlogLostError: the log no longer has them.
            MariaDbError: the connection is lost.
        """
        held = self._held.get(xid)
        if held is None:
            held = yield from self._searched(xid, gtid, before)
            self._held[xid] = held
        events = self._read(held) if held.events is None else iter(held.events)
        for event in events:
            yield None if event is None else replace(event, timestamp=committed.timestamp)

    def _read(self, held: _Held) -> Events:
        """Its events, from the log."""
        inside = False
        for event in events_behind(self._config, held.before):
            if event is None:
                yield None
            elif event.type == log.GTID:
                if inside:
                    break
                inside = log.read_gtid(event).gtid == held.gtid
            elif inside and event.type == log.XA_PREPARE:
                return
            elif inside and event.type in _KEPT:
                yield event
        raise _lost(held.gtid)

    def _searched(self, xid: str, until: TransactionId, before: LogPosition) -> Generator[None, None, _Held]:
        """The last transaction of an id before a GTID."""
        _log.info(
            "the log is searched for a distributed transaction that was prepared before the stream began"
        )
        session = Session(self._config.endpoint)
        try:
            position = self._config.flavour.oldest(session, before).gtids
        finally:
            session.close()
        found, place = None, LogPlace(position)
        for event in events_behind(self._config, position):
            if event is None:
                yield None
                continue
            if event.type == log.GTID:
                begun = log.read_gtid(event)
                if begun.gtid == until:
                    break
                if begun.xid == xid:
                    found = _Held(begun.gtid, place.complete, None) if begun.prepares else None
            place.take(event)
        if found is None:
            raise _lost(until)
        return found


def _lost(gtid: TransactionId) -> BinlogLostError:
    return BinlogLostError(
        f"the log no longer has the rows of the distributed transaction (XA) that {gtid} prepares or commits: changes are lost",
        hint="take a new snapshot: delete the connector's offsets, and start it with snapshot.mode=initial",
    )
