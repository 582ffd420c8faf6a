"""Checkpoints of a task that writes exactly once: everything sent, and the position it stands for, in one transaction.

A crash leaves either both or none. So the steps from "sent" to "stored" are one step, and the rest holds as in
`postgres.checkpoints`: the slot is confirmed only up to what is stored.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tidings_connect.config.exactly_once import INTERVAL, TransactionBoundary
from tidings_connect.data.records import Producer
from tidings_connect.task.checkpoints import Checkpoints, P
from tidings_envelope.fault_points import reached

_POLL_SECONDS: Final = 0.05
"""With ``transaction.boundary=poll``: at least so long between two transactions, for the broker's sake."""
_LONGEST_SHARE: Final = 0.25
"""Of transaction.timeout.ms: how long a transaction waits for a better moment to end."""


class Transactions(Producer, Protocol):
    """A producer whose records are seen when they are committed (`TransactionalProducer`)."""

    timeout_seconds: float
    commits: int

    @property
    def dirty(self) -> bool: ...

    def open(self) -> None: ...

    def open_seconds(self, now: float) -> float: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class TransactionalCheckpoints(Checkpoints[P]):
    """Exactly once.

    Args:
        records: the producer, of records and of positions.
        interval_seconds: the longest time between two positions while records flow, where `boundary` does not say.
        verify: called once the producer has its transactional.id; raises where the task must not write.
    """

    def __init__(
        self,
        records: Transactions,
        topic: str,
        encode: Callable[[P], Mapping[bytes, bytes]],
        boundary: TransactionBoundary,
        *,
        interval_seconds: float,
        verify: Callable[[], None] = lambda: None,
    ) -> None:
        self._verify = verify
        self._longest = records.timeout_seconds * _LONGEST_SHARE
        self._drains = boundary.kind != INTERVAL
        if not self._drains and boundary.interval_seconds is not None:
            interval_seconds = boundary.interval_seconds
        super().__init__(topic, encode, interval_seconds=min(interval_seconds, self._longest))
        self._records = records

    @property
    def pending(self) -> bool:
        """Whether something was sent that is not committed yet."""
        return self._records.dirty

    def open(self) -> None:
        """Fence whoever worked on this connector before: what is stored now stays the last."""
        self._records.open()
        self._verify()

    def due(self, now: float, *, drained: bool = False, exact: bool = True) -> bool:
        since = now - self._last
        if not exact:
            return self._records.open_seconds(now) >= self._longest  # rather a marker twice than no end
        return since >= self._interval or (
            drained and self._drains and since >= _POLL_SECONDS and self._records.dirty
        )

    def relieve(self, now: float) -> None:
        """Of a table that takes longer than a transaction may, what was sent is committed without a position: an
        interrupted snapshot repeats it. A table that takes less is seen as a whole or not at all."""
        if self._records.open_seconds(now) >= self._longest:
            self._records.commit()

    def take(self, position: P) -> None:
        """Commit everything sent, with its position.

        Raises:
            FencedError: another worker runs this connector.
        """
        self._last = time.monotonic()
        position = self.sign(position)
        entries = self._entries
        if position != self.stored:
            entries = self._encode(position)
            self._records.send(self._topic, [(key, value, None) for key, value in self._changed(entries)])
        elif not self._records.dirty:
            return
        reached("offset.written")
        self._records.commit()
        self.transactions = self._records.commits
        self.stored, self._entries = position, entries
        reached("offset.stored")

    def take_and_wait(self, position: P) -> None:
        self.take(position)

    def poll(self) -> None:
        self._records.poll()

    def close(self) -> None:
        """Abort what is not committed."""
        self._records.close()
