"""Defines what a stage's work uses of its stage: a running process, or a directory of records in its place."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from tidings_service import Health
from tidings_translator.base.records import Output, Partition
from tidings_translator.kafka.offsets import PartitionOffsets
from tidings_translator.kafka.topics import Topics
from tidings_translator.kafka.transactions import Membership
from tidings_translator.ledger.ledger import Ledger


class Sink(Protocol):
    """Commits outputs, state and offsets together."""

    async def begin_life(self) -> None:
        """Fence predecessors and start; the first call counts."""

    def is_lost(self, generation: int, /) -> bool:
        """Whether work of a generation of the group was dropped: nothing of it may be added any more."""

    async def add(
        self,
        generation: int,
        offsets: Mapping[Partition, int],
        outputs: Iterable[Output] = (),
        /,
        *,
        state: Mapping[tuple[Partition, bytes], bytes | None] | None = None,
        on_commit: Callable[[], None] | None = None,
    ) -> bool:
        """Put outputs, changes of state and offsets into the next transaction; False when the generation was lost."""


class Offsets(Protocol):
    """Where the group and the logs are."""

    def partition_offsets(self, partitions: Iterable[Partition], /) -> dict[Partition, PartitionOffsets]:
        """The committed, the first and the last offset of each partition."""

    def ends(self, partitions: Iterable[Partition], /) -> dict[Partition, int]:
        """One past the last record of each partition."""


class Consumer(Protocol):
    """This process's place in its consumer group."""

    def membership(self) -> Membership:
        """The place in the group now; generation -1 while there is none."""

    def assignment(self) -> set[Partition]:
        """The partitions of this member."""

    def pause(self, partitions: Iterable[Partition], /) -> None:
        """Fetch nothing from these partitions until the next call; replaces what was paused before."""

    def subscribe(self, topics: Iterable[str], /) -> bool:
        """Also read these topics from their beginning; False if they all were read already."""

    def passed(self, generation: int, /) -> dict[Partition, int]:
        """For each partition an offset below which every record was handled in this generation of the group."""


class StageParts(Protocol):
    """The stage, as its work sees it."""

    @property
    def name(self) -> str:
        """The stage's name in metrics and logs."""

    @property
    def health(self) -> Health:
        """What /readyz shows."""

    @property
    def topics(self) -> Topics:
        """The topics that Kafka has."""

    @property
    def offsets(self) -> Offsets: ...

    @property
    def sink(self) -> Sink: ...

    @property
    def consumer(self) -> Consumer: ...

    @property
    def committed(self) -> dict[Partition, int]:
        """The next offset of each partition as of the last commit, for the lag metric."""

    def note_generation(self, ledger: Ledger, detail: str, *, ended: bool) -> None:
        """Show in health and metrics what this process's generation of the rules is doing."""

    def note_committed(self, offsets: dict[Partition, int], /) -> Callable[[], None]:
        """A callback for the sink that keeps `committed`."""
