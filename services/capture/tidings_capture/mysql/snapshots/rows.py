"""What becomes of the rows that a snapshot reads, one moment's or an incremental one's."""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from tidings_capture.mysql.binlog.cells import Cells
from tidings_capture.mysql.encoding.change_encoder import SnapshotEncoder
from tidings_capture.mysql.encoding.records import Place, TablePlan
from tidings_capture.mysql.schemas.catalog import Table
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Record
from tidings_connect.task.output import Output
from tidings_connect.transforms.record import Header, SourceRecord
from tidings_envelope import semantic
from tidings_envelope.headers.as_of import HEADER as AS_OF


class EncodedRecord(NamedTuple):
    """A row's record that needs no converter any more."""

    topic: str
    record: Record


Written = SourceRecord | EncodedRecord


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
        self._encoder = None if direct is None else SnapshotEncoder(plan, direct)

    def tick(self) -> None:
        """The connector's own time is read anew for the next row."""
        if self._encoder is not None:
            self._encoder.tick()

    def write(self, cells: Cells, mark: str) -> list[Written]:
        """A row's records; `mark` is what ``source.snapshot`` says of it."""
        self._place.snapshot = mark
        if self._encoder is not None and (record := self._encoder.record(cells, self._place)) is not None:
            return [EncodedRecord(self._encoder.topic, record)]
        return [*self.plan.read(cells, self._place)]

    def key(self, cells: Cells) -> bytes | None:
        """The key of a row that is written without records between; None for others."""
        return None if self._encoder is None else self._encoder.key(cells)


def write_records(output: Output, records: Iterable[Written]) -> None:
    """Queue records, in order."""
    for topic, some in groupby(records, lambda one: one.topic if isinstance(one, EncodedRecord) else None):
        if topic is not None:
            output.write_encoded(topic, [one.record for one in some if isinstance(one, EncodedRecord)])
        else:
            for one in some:
                assert isinstance(one, SourceRecord)
                output.write(one, trusted=True)
