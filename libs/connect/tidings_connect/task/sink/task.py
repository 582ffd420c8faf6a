"""What a sink task is: it takes records from topics, decoded and transformed, for a system that is not Kafka."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tidings_connect.data.columns import StructColumn
from tidings_connect.data.subscription import Consumed, Reach, TopicPartition
from tidings_connect.errors import ConnectError
from tidings_connect.transforms.record import Header
from tidings_envelope.schema import ConnectSchema
from tidings_service import Retry


class RetriableError(ConnectError):
    """A sink's system is away, or busy: the same batch is put again after a pause, without end."""

    code = "sink_busy"
    default_retry = Retry.TIMED

    def __init__(
        self,
        message: str,
        *,
        after_seconds: float | None = None,
        hint: str | None = None,
        retry: Retry | None = None,
    ) -> None:
        """See `TidingsError`.

        Args:
            after_seconds: how long the pause is; None: as ``errors.retry.delay.*`` say.
        """
        super().__init__(message, hint=hint, retry=retry)
        self.after_seconds = after_seconds


class SlowError(RetriableError):
    """A sink's system takes records, but a put has not enough time for all of its batch: it is put again at once."""


class SinkRecord(NamedTuple):
    """Kafka Connect's ``SinkRecord``: a record after converters and transforms."""

    topic: str
    partition: int | None
    key_schema: ConnectSchema | None
    key: Any
    value_schema: ConnectSchema | None
    """None for values without a schema."""
    value: Any
    """None: a tombstone."""
    timestamp: int | None
    """Milliseconds since the Unix epoch."""
    headers: list[Header]
    offset: int
    original: TopicPartition
    """Where it stands, whatever transforms have made of `topic` and `partition`; `offset` is one of it."""


@dataclass(frozen=True, slots=True)
class TopicColumns:
    """The records of one topic: keys of one schema, and values of one schema or null. No transform has seen them."""

    records: Sequence[Consumed]
    """As they stand in the topic, each partition's in its order."""
    key_schema: ConnectSchema
    keys: StructColumn
    value_schema: ConnectSchema | None
    """None: all are tombstones."""
    values: StructColumn | None
    places: Sequence[int] | None
    """Of the records that have a value; None: all have one."""
    headers: Sequence[Sequence[Header]]
    """Of records one behind the other that have the same, once."""
    record: Callable[[int], SinkRecord]
    """One of them as `SinkTask.put` is given it, by its place. Raises ValueError: it cannot be read."""

    @property
    def topic(self) -> str:
        """Its name."""
        return self.records[0].topic


def _unread(_read: Sequence[Consumed]) -> list[SinkRecord]:
    raise NotImplementedError  # rather than that records are missing


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What the loop offers a sink task."""

    connector: str
    task: int
    report: Callable[[SinkRecord, Exception], None]
    """Says that a record cannot be written, for good: with ``errors.tolerance=all`` it becomes a dead letter, else the task
    fails."""
    settle: Callable[[], None] = lambda: None
    """Waits until all dead letters so far are stored. For a task that keeps offsets in its system: those may only be durable
    when the letters of what was left out before them are."""
    kept_bytes: Callable[[], int] = lambda: 0
    """How many bytes the records have that the loop keeps (`SinkTask.keeps_records`), as they stand in Kafka."""
    consumed: Callable[[SinkRecord], Consumed | None] = lambda _record: None
    """A record of the batch that is put just now, as it stands in its topic: for a task that keeps records beyond `put`."""
    report_kept: Callable[[Consumed, Exception], None] = lambda _consumed, _error: None
    """`report` of a record that was kept, by what `consumed` gave for it, so that its dead letter is whole."""
    reaches: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, Reach]] = lambda _partitions: {}
    """How far partitions of this task go, and how far they were read, of those where that is known."""
    read_again: Callable[[Sequence[Consumed]], list[SinkRecord]] = _unread
    """Makes records that the task was given as columns what `put` would have been given; one that cannot be read after all is reported
    and missing."""


class LeftOut(NamedTuple):
    """A record that a task is not given: it could not be read, or a transform has dropped it."""

    at: TopicPartition
    offset: int
    record: SinkRecord | None
    """As it was before the transforms; None where it could not be read."""

    @property
    def original(self) -> TopicPartition:
        """Where it stands, as of a `SinkRecord`."""
        return self.at


class SinkTask(ABC):
    """Writes records of some partitions to a system. One thread uses it; no call may take longer than
    ``max.poll.interval.ms``."""

    keeps_records: ClassVar[bool] = False
    """Whether it may say of a record that it cannot be written (`SinkContext.report`) after the put that brought it, up to the
    flush that makes it durable: the loop keeps what was read until then."""
    durable_at_put: ClassVar[bool] = False
    """Whether a put that returns has made its records durable in the system, so that none waits for the flush."""

    most_records: ClassVar[int] = 500
    """How many records a put has at most, where ``consumer.override.max.poll.records`` does not say; 500 are Kafka Connect's."""
    takes_columns: ClassVar[bool] = False
    """Whether batches that are plain enough are to be offered as columns first."""

    @property
    def reads(self) -> frozenset[str] | None:
        """The fields of Debezium's envelopes that it looks at, such as ``after`` and ``source.table``; a value may lack the others
        where no transform has seen it. None: all."""
        return None

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:  # noqa: ARG002
        """These partitions are this task's from now on.

        Returns:
            Where to begin, of those whose position stands in the system itself: the offset of the next record. The others
            begin where the group has come to.
        """
        return None

    @abstractmethod
    def put(self, batch: Sequence[SinkRecord]) -> None:
        """Take records; they need not be durable yet.

        Raises:
            RetriableError: the same batch is to come again.
        """

    def put_columns(self, batch: Sequence[TopicColumns]) -> bool:  # noqa: ARG002
        """Take a batch as columns, of a task that says `takes_columns`; as with `put`, it need not be durable yet.

        Returns:
            Whether it is taken. If not, nothing of it is, and the same batch comes next, by `put`.

        Raises:
            RetriableError: the batch is to come again, by `put`.
        """
        return False

    def left_out(self, records: Sequence[LeftOut]) -> None:  # noqa: B027 - most need not know
        """These were read and are not put; told before the `put` of what was read with them, and again where that is put
        again."""

    def paused(self) -> Collection[TopicPartition]:
        """The partitions of which nothing is to be read for now. Asked again and again; the membership goes on."""
        return ()

    def work(self) -> None:  # noqa: B027 - most do everything in `put` and `flush`
        """Do what has come due although no record came: called some four times a second while no batch waits.

        Raises:
            RetriableError: it is called again after a pause.
        """

    @abstractmethod
    def flush(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Make what was put durable, and say how far it is: only that is committed.

        Args:
            offsets: of each partition the offset after the last record that was put, or left out before it came here.

        Returns:
            The offset after the last record that is durable, for each partition; of those left out nothing is committed.

        Raises:
            RetriableError: nothing is committed now; it is asked again.
        """

    def wants_flush(self) -> bool:
        """Whether `flush` is to be called now and not only after ``offset.flush.interval.ms``; asked a few times a second."""
        return False

    def close(self, partitions: Collection[TopicPartition]) -> None:  # noqa: B027 - most keep nothing for a partition
        """These partitions are another's: forget what was put and is not durable."""

    def stop(self) -> None:  # noqa: B027 - most have nothing to close
        """Let go of the system."""
