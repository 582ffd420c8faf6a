"""What a task has taken and not merged: columns, as long as batches come so, else records.

Columns are of one schema of keys and one of values for each topic. They become records where some of them turn out to be another
task's, or records come behind them: what is merged is one or the other.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import chain

from tidings_connect.data.subscription import Consumed
from tidings_connect.task.sink import SinkRecord, TopicColumns, TopicPartition
from tidings_connect.transforms.record import Header
from tidings_sinks.jdbc.columns import KeptColumns, kept

Schemas = tuple[object, object]
"""Of keys and of values: the objects, which are the same for the same schema."""


@dataclass(frozen=True, slots=True)
class Part:
    """What came of a topic at once."""

    topic: str
    read: Sequence[Consumed]
    columns: KeptColumns
    headers: Sequence[Sequence[Header]]
    """See `TopicColumns.headers`."""

    @property
    def schemas(self) -> Schemas:
        """Of its records."""
        return self.columns.key_schema, self.columns.value_schema


def parts_of(batch: Sequence[TopicColumns]) -> list[Part] | None:
    """A batch, to be kept; None where it is not plain."""
    found = []
    for given in batch:
        columns = kept(given)
        if columns is None:
            return None
        found.append(Part(given.topic, given.records, columns, given.headers))
    return found


class Waiting:
    """What one task has.

    Args:
        read_again: see `SinkContext.read_again`.
    """

    def __init__(self, read_again: Callable[[Sequence[Consumed]], list[SinkRecord]]) -> None:
        self._read_again = read_again
        self._parts: list[Part] = []
        self._unread: list[Consumed] = []
        """Were columns; before all records."""
        self._records: list[SinkRecord] = []
        self.count = 0
        """Of records."""

    @property
    def parts(self) -> Sequence[Part]:
        """All that waits, as columns; none where it is not all columns."""
        return self._parts

    @property
    def has_records(self) -> bool:
        """Whether what waits is not columns."""
        return self.count > 0 and not self._parts

    def fits(self, parts: Sequence[Part]) -> bool:
        """Whether the records of each topic have the schemas of those that wait."""
        known = {part.topic: part.schemas for part in self._parts}
        return all(_is_same(known.get(part.topic, part.schemas), part.schemas) for part in parts)

    def add_columns(self, parts: Sequence[Part]) -> None:
        """These came, which `fits`."""
        self._parts += parts
        self.count += sum(len(part.read) for part in parts)

    def add(self, batch: Sequence[SinkRecord]) -> None:
        """Records came."""
        self._be_records()
        self._records += batch
        self.count += len(batch)

    def records(self) -> list[SinkRecord]:
        """All that waits, as records; one that cannot be read after all is reported, and missing."""
        self._be_records()
        if self._unread:
            self._records = [*self._read_again(self._unread), *self._records]
            self._unread = []
            self.count = len(self._records)
        return self._records

    def merged(self, count: int) -> None:
        """So many of the records are merged, from the first on."""
        del self._records[:count]
        self.count -= count

    def all_merged(self) -> None:
        """All that waited as columns is merged."""
        self._parts = []
        self.count = 0

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions are another's."""
        gone = set(partitions)
        if any(record[:2] in gone for part in self._parts for record in part.read):
            self._be_records()
        self._unread = [record for record in self._unread if record[:2] not in gone]
        self._records = [record for record in self._records if record.original not in gone]
        self.count = sum(len(part.read) for part in self._parts) + len(self._unread) + len(self._records)

    def _be_records(self) -> None:
        self._unread += chain.from_iterable(part.read for part in self._parts)
        self._parts = []


def _is_same(one: Schemas, other: Schemas) -> bool:
    return one[0] is other[0] and one[1] is other[1]
