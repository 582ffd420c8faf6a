"""Records that a sink's task has and that are not durable yet, as they were read: for the dead letters of those that its system
refuses only then."""

from collections.abc import Iterable, Sequence

from tidings_connect.data.subscription import Consumed, TopicPartition
from tidings_connect.task.sink.task import SinkRecord


class KeptRecords:
    """Those of one task."""

    def __init__(self) -> None:
        self._records: dict[TopicPartition, dict[int, Consumed]] = {}
        self.size_bytes = 0
        """Of their keys and values, as they stand in Kafka."""

    def add(self, records: Iterable[tuple[TopicPartition, Consumed]]) -> None:
        """These were put: of each its partition, and itself."""
        kept = self._records
        for at, record in records:
            of_partition = kept.get(at)
            if of_partition is None:
                of_partition = kept[at] = {}
            of_partition[record.offset] = record
            self.size_bytes += _size_bytes(record)

    def add_read(self, read: Sequence[Consumed]) -> None:
        """The same of records that no transform has moved."""
        at: TopicPartition | None = None

        def placed(record: Consumed) -> tuple[TopicPartition, Consumed]:
            nonlocal at
            if at is None or record[:2] != at:
                at = TopicPartition(record.topic, record.partition)
            return at, record

        self.add(map(placed, read))

    def get(self, record: SinkRecord) -> Consumed | None:
        """What a record was read as."""
        return self._records.get(record.original, {}).get(record.offset)

    def forget_before(self, at: TopicPartition, offset: int) -> None:
        """Everything before an offset of a partition is durable."""
        kept = self._records.get(at)
        if not kept or next(iter(kept)) >= offset:
            return
        self.size_bytes -= sum(_size_bytes(record) for record in kept.values() if record.offset < offset)
        self._records[at] = {number: record for number, record in kept.items() if number >= offset}

    def forget(self, at: TopicPartition) -> None:
        """The partition is another task's."""
        for record in self._records.pop(at, {}).values():
            self.size_bytes -= _size_bytes(record)


def _size_bytes(record: Consumed) -> int:
    return len(record.key or b"") + len(record.value or b"")
