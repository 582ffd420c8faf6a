"""Records as they are handed to a producer."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

Header: TypeAlias = tuple[str, bytes]
Record: TypeAlias = tuple[bytes | None, bytes | None, list[Header] | None]
"""An encoded record: key, value (None: a tombstone) and headers."""


class Producer(Protocol):
    """Where a task's records go. They only count as delivered once `flush` has returned True."""

    def send(self, topic: str, records: Sequence[Record]) -> None:
        """Queue records; waits while the queue is full."""
        ...

    def send_one(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        partition: int | None,
        timestamp: int | None,
    ) -> None:
        """Queue one record, which may say its partition and its time (milliseconds since the Unix epoch)."""
        ...

    def poll(self) -> None:
        """Serve acknowledgements without waiting."""
        ...

    def hurry(self, now: float) -> bool:
        """Send what is queued, as the source pauses; whether records wait for a later call."""
        ...

    def flush(self, seconds: float) -> bool:
        """Wait until all that was sent is acknowledged; False when `seconds` were not enough."""
        ...

    def outstanding(self) -> int:
        """Records that are queued or sent, but not yet acknowledged."""
        ...
