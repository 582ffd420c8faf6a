"""The rows of a snapshot: from lines of COPY to records with their markers.

Rows carry Debezium's markers (``source.snapshot``): last > first > last_in_data_collection >
first_in_data_collection > true; the marker of a row needs the row after it, so one row of a table is always held back.
With several readers the tables' rows mix, and "first" and "last" are the first and the last row that is sent.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.route import Route
from tidings_connect.data.records import Record
from tidings_envelope.headers.as_of import HEADER

_LINES_AT_ONCE: Final = 250
"""Lines that are converted before they are handed to Kafka's queue: with its schema a record may have 10 kB."""


@dataclass(frozen=True, slots=True)
class SnapshotPoint:
    """What the rows of a snapshot are as of."""

    snapshot: str
    """The exported snapshot's name."""
    lsn: int
    tx_id: int | None
    ts_us: int
    """When the snapshot was taken, microseconds since the Unix epoch; every row's ``source.ts_us``."""
    last_commit_lsn: int | None = None
    """The first part of ``source.sequence``, within the stream."""
    follows: bool = False
    """Something was sent before: each row says that it is as of `lsn`, up to which the stream was (`tidings_envelope.headers.as_of`)."""


class TableRows:
    """A table that is being read."""

    __slots__ = ("fresh", "held", "leads", "name", "route", "rows")

    def __init__(self, name: str, route: Route, *, leads: bool = False) -> None:
        self.name = name
        """``schema.table``"""
        self.route = route
        self.rows = 0
        """Rows that have been read."""
        self.held: bytes | None = None
        self.fresh = True
        self.leads = leads
        """Whether it is the snapshot's first table: when that is empty, no row is marked "first", as in Debezium."""


class SnapshotRows:
    """Gives every row its marker, one row late, and sends it. Several tables may be open at once.

    Args:
        send: queues records for a topic.
        on_sent: called with a table when all its rows have been sent.
    """

    def __init__(
        self,
        point: SnapshotPoint,
        send: Callable[[str, list[Record]], None],
        on_sent: Callable[[TableRows], None] = lambda _table: None,
    ) -> None:
        self._point = point
        self._send = send
        self._on_sent = on_sent
        self._context = EventContext()
        self._first = True
        self._as_of = (HEADER, b"%d" % point.lsn)
        self._ended: TableRows | None = None
        """The table that was read last: its last row is held back until another row comes, or none does."""
        self.rows = 0

    def take(self, table: TableRows, lines: list[bytes]) -> None:
        """Send the next rows of a table but the last, which is held back."""
        if not lines:
            return
        self._context.now_ns = time.time_ns()
        if self._ended is not None:
            self._send_ended(last=False)
        table.rows += len(lines)
        if table.held is None:
            table.held = lines[0]
            lines = lines[1:]
        if not lines:
            return
        self._release(table, last_in_table=False)
        self._mark("true")
        route, context, send = table.route, self._context, self._send
        plan, topic = route.plan, route.topic
        for start in range(0, len(lines) - 1, _LINES_AT_ONCE):
            records = plan.read_lines(lines[start : min(start + _LINES_AT_ONCE, len(lines) - 1)], context)
            send(topic, self._placed(records))
        self.rows += len(lines) - 1
        route.records += len(lines) - 1
        table.held = lines[-1]

    def end(self, table: TableRows) -> None:
        """The table has no more rows."""
        if table.held is None:
            self._first = self._first and not table.leads
            self._on_sent(table)
            return
        if self._ended is not None:
            self._send_ended(last=False)
        self._ended = table

    def finish(self) -> None:
        """The row held back is the snapshot's last."""
        if self._ended is not None:
            self._send_ended(last=True)

    def _send_ended(self, *, last: bool) -> None:
        table, self._ended = self._ended, None
        assert table is not None
        self._release(table, last_in_table=True, last=last)
        self._on_sent(table)

    def _release(self, table: TableRows, *, last_in_table: bool, last: bool = False) -> None:
        line, table.held = table.held, None
        assert line is not None
        if last:
            marker = "last"
        elif self._first:
            marker = "first"
        elif last_in_table:
            marker = "last_in_data_collection"
        elif table.fresh:
            marker = "first_in_data_collection"
        else:
            marker = "true"
        self._first = table.fresh = False
        self._mark(marker)
        route = table.route
        self._send(route.topic, self._placed(route.plan.read_lines([line], self._context)))
        self.rows += 1
        route.records += 1

    def _placed(self, records: list[Record]) -> list[Record]:
        if not self._point.follows:
            return records
        return [(key, value, [*(headers or ()), self._as_of]) for key, value, headers in records]

    def _mark(self, marker: str) -> None:
        point = self._point
        self._context.snapshot_row(marker, point.lsn, point.tx_id, point.ts_us, point.last_commit_lsn)
