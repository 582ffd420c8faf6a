"""Defines what a stage fetches and produces, without any Kafka client's types."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

Headers: TypeAlias = list[tuple[str, bytes]]

NO_PARTITION = -1
"""Let the key choose the partition, as Java's default partitioner does (murmur2)."""


class Partition(NamedTuple):
    """A topic's partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class FetchedRecord(Protocol):
    """A record as the consumer delivers it. An empty value is a tombstone."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class Output(NamedTuple):
    """A record to produce within the running Kafka transaction."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None
    partition: int = NO_PARTITION


class Batch(NamedTuple):
    """Consecutive records of one partition, fetched in one generation of the consumer group."""

    partition: Partition
    generation: int
    records: Sequence[FetchedRecord]
