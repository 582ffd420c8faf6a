"""Which batches a sink task is offered as columns."""

from collections.abc import Iterator, Sequence

from tidings_connect.data.columns import MOST_BYTES
from tidings_connect.data.subscription import Consumed
from tidings_connect.task.sink.passes import Passes
from tidings_connect.task.sink.records import Records
from tidings_connect.task.sink.task import SinkTask


class ColumnOffers:
    """The offers to one task."""

    def __init__(self, task: SinkTask, records: Records) -> None:
        self._task, self._records = task, records
        self._passes = Passes()
        """Parts that are not offered, behind those that were not taken."""

    def parts(self, read: Sequence[Consumed]) -> Iterator[Sequence[Consumed]]:
        """Records in their order, in parts that are small enough to be decoded at once; none where the task takes no columns."""
        if not read or not self._task.takes_columns:
            return
        size = sum(len(record.value) for record in read if record.value is not None)
        each = -(-len(read) // (1 + size // MOST_BYTES))
        for start in range(0, len(read), each):
            yield read[start : start + each]

    def take(self, part: Sequence[Consumed]) -> bool:
        """Offer a part; whether the task has it.

        Raises:
            RetriableError: its system is busy.
        """
        if self._passes.left:
            self._passes.passed()
            return False
        batch = self._records.columns(part, self._task.reads)
        if batch is None:
            return False
        self._passes.in_vain()  # unless the task takes it
        if not self._task.put_columns(batch):
            return False
        self._passes.done()
        return True
