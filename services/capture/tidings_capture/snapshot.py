"""The snapshot: every captured table as of one exported snapshot, by COPY.

`take_snapshot` reads in a REPEATABLE READ transaction on the snapshot that came with a new slot, so that the stream
from the slot's consistent position gives exactly what the snapshot does not hold. Rows carry Debezium's markers
(``source.snapshot``): last > first > last_in_data_collection > first_in_data_collection > true; the marker of a row
needs the row after it, so one row is always held back.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tidings_capture.event_context import EventContext
from tidings_capture.pgoutput_messages import Cells
from tidings_capture.plan import Record
from tidings_capture.postgres import Session, quote
from tidings_capture.relations import Table
from tidings_capture.routes import Route

_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_ESCAPES: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


@dataclass(frozen=True, slots=True)
class SnapshotPoint:
    """What the rows of a snapshot are as of."""

    snapshot: str
    """The exported snapshot's name."""
    lsn: int
    tx_id: int | None
    ts_us: int
    """When the snapshot was taken, microseconds since the Unix epoch; every row's ``source.ts_us``."""


def parse_copy_line(line: bytes) -> Cells:
    """The cells of a line of COPY's text format (PostgreSQL documentation, "COPY", "Text Format")."""
    cells: list[bytes] = line.rstrip(b"\n").split(b"\t")
    if b"\\" not in line:
        return list(cells)
    return [None if cell == b"\\N" else _unescape(cell) for cell in cells]


def _unescape(cell: bytes) -> bytes:
    if b"\\" not in cell:
        return cell
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match.group(1), match.group(1)), cell)


class SnapshotRows:
    """Gives every row its marker, one row late, and sends it.

    Args:
        send: queues records for a topic.
    """

    def __init__(self, point: SnapshotPoint, send: Callable[[str, list[Record]], None]) -> None:
        self._point = point
        self._send = send
        self._context = EventContext()
        self._held: tuple[Route, bytes] | None = None
        self._first = True
        self._first_in_table = False
        self.rows = 0

    def table(self, route: Route, batches: Iterator[list[bytes]]) -> int:
        """Send a table's rows but the last, which is held back; the number of rows."""
        rows = 0
        fresh = True
        for lines in batches:
            if not lines:
                continue
            self._context.now_ns = time.time_ns()
            if fresh:
                # The row held back was its table's last.
                self._release(last_in_table=True)
                self._first_in_table = True
                fresh = False
                rest, self._held = lines[1:], (route, lines[0])
            else:
                rest = lines
            rows += len(lines)
            self._rows(route, rest)
        return rows

    def finish(self) -> None:
        """The row held back is the snapshot's last."""
        self._release(last_in_table=True, last=True)

    def _rows(self, route: Route, lines: list[bytes]) -> None:
        if not lines:
            return
        self._release(last_in_table=False)
        self._mark("true")
        plan, context, send, topic = route.plan, self._context, self._send, route.topic
        for line in lines[:-1]:
            send(topic, plan.read(parse_copy_line(line), context))
        self.rows += len(lines) - 1
        route.records += len(lines) - 1
        self._held = (route, lines[-1])

    def _release(self, *, last_in_table: bool, last: bool = False) -> None:
        if self._held is None:
            return
        route, line = self._held
        self._held = None
        if last:
            marker = "last"
        elif self._first:
            marker = "first"
        elif last_in_table:
            marker = "last_in_data_collection"
        elif self._first_in_table:
            marker = "first_in_data_collection"
        else:
            marker = "true"
        self._first = self._first_in_table = False
        self._mark(marker)
        self._send(route.topic, route.plan.read(parse_copy_line(line), self._context))
        self.rows += 1
        route.records += 1

    def _mark(self, marker: str) -> None:
        point = self._point
        self._context.snapshot_row(marker, point.lsn, point.tx_id, point.ts_us)


def begin_snapshot(session: Session, point: SnapshotPoint) -> None:
    """Pin the session to the exported snapshot, until `end_snapshot`."""
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    session.execute(f"SET TRANSACTION SNAPSHOT '{point.snapshot}'")


def end_snapshot(session: Session) -> None:
    """Let go of the snapshot."""
    session.execute("COMMIT")


def copy_table(session: Session, table: Table) -> Iterator[list[bytes]]:
    """A table's rows as lines of COPY's text format, columns in the table's order."""
    columns = ", ".join(quote(column.name) for column in table.columns)
    name = f"{quote(table.schema)}.{quote(table.name)}"
    return session.copy_out(f"COPY (SELECT {columns} FROM {name}) TO STDOUT")  # noqa: S608 - quoted names
