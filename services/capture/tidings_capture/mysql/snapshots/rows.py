"""What becomes of the rows that a snapshot reads, one moment's or an incremental one's."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tidings_capture.mysql.binlog.cells import Cells
from tidings_capture.mysql.encoding.change_encoder import SnapshotEncoder
from tidings_capture.mysql.encoding.records import Place, TablePlan
from tidings_capture.mysql.encoding.selected import sent
from tidings_capture.mysql.encoding.text_encoder import row_cells
from tidings_capture.mysql.schemas.catalog import Table
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Record
from tidings_connect.errors import RecordError
from tidings_connect.task.output import Output
from tidings_connect.transforms.record import Header, SourceRecord
from tidings_envelope import semantic
from tidings_envelope.headers.as_of import HEADER as AS_OF


class EncodedRecords(NamedTuple):
    """Records of rows that need no converter any more."""

    topic: str
    records: list[Record]


Written = SourceRecord | EncodedRecords


def count_of(written: Iterable[Written]) -> int:
    """How many records they are."""
    return sum(len(one.records) if isinstance(one, EncodedRecords) else 1 for one in written)


class TableWriter:
    """Writes the rows that are read of one table.

    With transaction metadata they say as of which commit they are, since ``source`` has no GTID in a snapshot.
    """

    def __init__(
        self,
        table: Table,
        config: MariaDbConfig,
        place: Place,
        direct: tuple[Converter, Converter] | None,
        as_of: int | None,
    ) -> None:
        self.plan = plan = TablePlan(table, config)
        if config.transactions and as_of is not None:
            plan.headers += (Header(AS_OF, semantic.STRING, str(as_of)),)
        self._place = place
        self._reads = [sent(column) for column in table.columns]
        self._encoder = None if direct is None else SnapshotEncoder(plan, direct)

    def tick(self) -> None:
        """The connector's own time is read anew for the next row."""
        if self._encoder is not None:
            self._encoder.tick()

    def write(self, cells: Cells, mark: str) -> list[Written]:
        """A row's records; `mark` is what ``source.snapshot`` says of it."""
        self._place.snapshot = mark
        if self._encoder is not None and (record := self._encoder.record(cells, self._place)) is not None:
            return [EncodedRecords(self._encoder.topic, [record])]
        return [*self.plan.read(cells, self._place)]

    def write_rows(self, rows: Sequence[bytes], mark: str) -> list[Written]:
        """The records of rows as the server writes them, of all of the table's columns; arguments as of `write`.

        Raises:
            RecordError: a cell is none of its column's type.
        """
        self._place.snapshot = mark
        written: list[Written] = []
        done = 0
        while done < len(rows):
            if self._encoder is not None:
                records = self._encoder.records(rows[done:] if done else rows, self._place)
                if records:
                    written.append(EncodedRecords(self._encoder.topic, records))
                    done += len(records)
            if done < len(rows):  # the plan writes it, or says what is wrong
                written += self.plan.read(self._cells(rows[done]), self._place)
                done += 1
        return written

    def _cells(self, row: bytes) -> Cells:
        found: list[Any] = []
        columns = self.plan.table.columns
        try:
            for value, read in zip(row_cells(row), self._reads, strict=True):
                found.append(None if value is None else read(value))
        except (ValueError, ArithmeticError, LookupError):
            # Without its cause, which may quote the value.
            column = columns[min(len(found), len(columns) - 1)]
            raise RecordError(
                f"column {column.name!r} of {self.plan.table.qualified} is of type {column.type}, and a row has another value",
                hint="see the table's statement of snapshot.select.statement.overrides, or of the signal",
            ) from None
        return tuple(found)

    def key(self, cells: Cells) -> bytes | None:
        """The key of a row that is written without records between; None for others."""
        return None if self._encoder is None else self._encoder.key(cells)


def write_records(output: Output, records: Iterable[Written]) -> None:
    """Queue records, in order."""
    for one in records:
        if isinstance(one, EncodedRecords):
            output.write_encoded(one.topic, one.records)
        else:
            output.write(one, trusted=True)
