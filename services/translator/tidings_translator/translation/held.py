"""Keeps held aggregates: what failed, and the change sets that wait for a person, in order and in bounded memory.

Each change set that waits is an entry of its own in the state's changelog, so that adding one costs one record. Its key
begins with ``\\0held\\0`` and the offset in twenty digits, so that sorting restores the order.
"""

from collections import deque
from typing import NamedTuple

import msgspec

from tidings_domain.aggregate.state import FORMAT
from tidings_domain.routing.record_sizes import MAX_VALUE_BYTES
from tidings_translator.base.errors import StopError
from tidings_translator.base.records import Partition
from tidings_translator.translation.publishing import BatchResult

PREFIX = b"\0held\0"
_OFFSET_DIGITS = 20

Failed = tuple[str | None, str | None]
"""What failed: a rule and, where only one event of it could not be published, that event's id; no rule for rows."""
ROWS: Failed = (None, None)


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """A change set that waits, as it is stored; `failed` only with the first of its aggregate."""

    format: int
    ts_us: int
    change_set: bytes
    failed: tuple[Failed, ...] = ()
    shadow: bool = False


class Waiting(NamedTuple):
    """A change set that waits.

    Attributes:
        offset: its record's.
        value: its bytes.
        ts_us: its commit time, microseconds since 1970.
        shadow: it came while the generation did not publish, so that its events are not to be published either.
    """

    offset: int
    value: bytes
    ts_us: int
    shadow: bool = False


class Held:
    """An aggregate that waits: its change sets, of which the first has failed, and what of it failed."""

    def __init__(self, aggregate: str, first: Waiting, failed: tuple[Failed, ...]) -> None:
        self.aggregate = aggregate
        self.waiting = deque([first])
        self.failed = failed

    @property
    def offset(self) -> int:
        """Of the change set that failed."""
        return self.waiting[0].offset

    @property
    def since_us(self) -> int:
        """Commit time of the change set that failed, microseconds since 1970."""
        return self.waiting[0].ts_us


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Entry)


class HeldAggregates(dict[bytes, Held]):
    """The held aggregates of one partition, by key.

    Args:
        partition: of the change sets; for messages.
        changelog: where entries go.
        max_bytes: as many bytes of change sets may wait.
    """

    def __init__(self, partition: Partition, changelog: Partition, max_bytes: int) -> None:
        super().__init__()
        self._partition = partition
        self._changelog = changelog
        self._max_bytes = max_bytes
        self._bytes = 0

    @property
    def share(self) -> float:
        """Bytes that wait, by what may wait."""
        return self._bytes / self._max_bytes

    def load(self, stored_key: bytes, stored: bytes) -> None:
        """Take in an entry of the changelog; they come by offset."""
        digits = stored_key[len(PREFIX) : len(PREFIX) + _OFFSET_DIGITS]
        key = stored_key[len(PREFIX) + _OFFSET_DIGITS + 1 :]
        entry = _decoder.decode(stored)
        self._append(key, Waiting(int(digits), entry.change_set, entry.ts_us, entry.shadow), entry.failed)

    def add(self, key: bytes, waiting: Waiting, result: BatchResult, failed: tuple[Failed, ...] = ()) -> None:
        """Hold an aggregate by what has failed, or let a further change set of it wait.

        Raises:
            StopError: too much waits.
        """
        size = len(waiting.value)
        if self._bytes + size > self._max_bytes or size > MAX_VALUE_BYTES:
            raise StopError(
                f"held aggregates of {self._partition} have {self._bytes} bytes of change sets waiting, and {size} more at"
                f" offset {waiting.offset} are too many",
                hint="it starts with a larger TIDINGS_MAX_HELD_BYTES; then see `tidings-translator dead-letters list`",
            )
        self._append(key, waiting, failed)
        entry = _Entry(FORMAT, waiting.ts_us, waiting.value, failed, waiting.shadow)
        result.state[self._changelog, _stored_key(key, waiting.offset)] = _encoder.encode(entry)

    def _append(self, key: bytes, waiting: Waiting, failed: tuple[Failed, ...]) -> None:
        held = self.get(key)
        if held is None:
            aggregate = key.partition(b"/")[0].decode(errors="replace")
            self[key] = Held(aggregate, waiting, failed)
        else:
            held.waiting.append(waiting)
        self._bytes += len(waiting.value)

    def next_of(self, key: bytes, held: Held, result: BatchResult) -> Waiting:
        """The change set that has waited longest; it waits no more."""
        waiting = held.waiting.popleft()
        self._bytes -= len(waiting.value)
        result.state[self._changelog, _stored_key(key, waiting.offset)] = None
        return waiting


def _stored_key(key: bytes, offset: int) -> bytes:
    return PREFIX + b"%020d\0" % offset + key
