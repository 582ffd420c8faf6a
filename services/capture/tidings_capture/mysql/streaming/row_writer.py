"""Writes the changes of an event of rows: to the output, and to who looks on."""

from tidings_capture.mysql.binlog.cells import Cells
from tidings_capture.mysql.binlog.row_code import RowsEvent
from tidings_capture.mysql.encoding.records import Numbers, Place, TablePlan
from tidings_capture.mysql.schemas.tables import Version
from tidings_capture.mysql.streaming.observers import Observers
from tidings_capture.mysql.streaming.progress import Progress
from tidings_connect.data.records import Record
from tidings_connect.task.output import Output


class RowWriter:
    """Of one stream, which moves `place` on."""

    def __init__(self, output: Output, observers: Observers, progress: Progress, place: Place) -> None:
        self._output = output
        self._observers = observers
        self._progress = progress
        self._place = place

    def encoded(self, plan: TablePlan, records: list[Record], rows: int) -> int:
        """Queue the records of an event of so many rows, and return these."""
        self._output.write_encoded(plan.topic, records)
        if (watch := self._observers.watches(plan.id)) is not None:
            watch.take_encoded(records)
        self._progress.rows += rows
        return rows

    def change(
        self, event: RowsEvent, row: int, cells: list[Cells], version: Version, numbers: Numbers | None
    ) -> None:
        """Write one change of an event, unless it was read before a restart."""
        self._progress.rows += 1
        passed = self._progress.is_passed(row)
        plan, op = version.plan, event.op
        before = None if event.op == "c" else cells[2 * row if event.op == "u" else row]
        after = None if event.op == "d" else cells[2 * row + 1 if event.op == "u" else row]
        if version.past is not None:
            before, after = version.past.now(before), version.past.now(after)
            if before is None and after is None:
                return
        records = plan.change(before, after, self._place, numbers)
        if (watch := self._observers.watches(plan.id)) is not None:
            watch.take(records)
        if passed:
            return
        for record in records:
            self._output.write(record, trusted=True)
        if self._observers.is_signals(plan.id):
            self._observers.signal(op, cells[row] if op != "u" else ())
