"""What stands between a task and Kafka: its producer, its stored position, topics.

`tidings_connect.task.kafka_transport` is Kafka; another transport stands in for it in tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from tidings_connect.config.exactly_once import TransactionBoundary
from tidings_connect.data.records import Producer
from tidings_connect.data.subscription import SinkTransport
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.checkpoints import Checkpoints
from tidings_connect.task.supervision import Supervision
from tidings_connect.task.topics import TopicMaker

P = TypeVar("P")


@dataclass(frozen=True)
class Delivery(Generic[P]):
    """How a task wants its records and positions delivered."""

    encode: Callable[[P], Mapping[bytes, bytes]]
    """A position as it is stored: values by key of the offsets topic."""
    on_wait: Callable[[], None]
    """Called again and again in every wait; may raise to give up."""
    producer: Mapping[str, str] = field(default_factory=dict)
    """librdkafka's settings that the connector overrides."""
    boundary: TransactionBoundary = field(default_factory=TransactionBoundary)
    exactly_once_required: bool = False


class Transport(SinkTransport, Protocol):
    """What stands between a task and Kafka."""

    def open(self, delivery: Delivery[P]) -> tuple[Producer, Checkpoints[P]]:
        """The producer, and what stores positions. The task closes the checkpoints.

        Raises:
            OptionError: the worker cannot give what is asked for.
            BrokerError: the settings cannot be used.
        """
        ...

    def stored(self) -> Mapping[bytes, bytes]:
        """The positions that are stored, also those of other connectors, by key."""
        ...

    def topics(self) -> TopicMaker | None:
        """What creates topics; None where the worker does not."""
        ...


@dataclass(frozen=True, slots=True)
class TaskContext:
    """All that a task is given."""

    job: TaskJob
    supervision: Supervision
    transport: Transport
