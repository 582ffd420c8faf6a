"""The transactions that a stream has told, by their ids: who reads tables beside it waits until they are visible."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StreamedTransactions:
    """Ids of transactions."""

    last_before: int | None
    """The last one of the position that the stream began at, of 32 or 64 bits; None: it names none."""

    recent: deque[int] = field(default_factory=lambda: deque(maxlen=1000))
    """The last thousand that the stream has begun; the lower 32 bits."""
