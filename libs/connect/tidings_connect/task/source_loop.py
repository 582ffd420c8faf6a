"""The loop of a source task: poll, store positions, hear the worker, wait. What is read, and from where, is a `SourceTask`'s.

The order of `checkpoints` keeps a crash harmless; a task that says exactly where it is loses nothing and repeats nothing
that was stored.
"""

import select
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tidings_connect.config.exactly_once import REQUIRED, SUPPORT
from tidings_connect.config.task_options import (
    boundary_of,
    converters_of,
    producer_overrides,
    transforms_of,
)
from tidings_connect.connector import Connector, Kind
from tidings_connect.converters.encoding import make_converter
from tidings_connect.errors import BrokerError, OptionError
from tidings_connect.kafka.topic_bounds import TopicBounds
from tidings_connect.kafka.topic_creation import read_topic_creation
from tidings_connect.task.channel import SIGNAL, Report
from tidings_connect.task.output import Output
from tidings_connect.task.stored_positions import Partition, Position, StoredPositions
from tidings_connect.task.topics import TaskTopics
from tidings_connect.task.transport import Delivery, TaskContext
from tidings_connect.task.worker_link import StopRequested, WorkerLink
from tidings_connect.transforms.chain import make_chain
from tidings_envelope.fault_points import reached
from tidings_service import get_logger

_IDLE_SECONDS: Final = 0.25
_PENDING_SECONDS: Final = 0.02

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """What a task that reads changes says of them; counters count from its start. See `Report`."""

    transactions: int = 0
    events: int = 0
    last_commit_us: int = 0
    lag_seconds: float | None = None


class _Task(ABC):
    """What all tasks of sources have."""

    def figures(self) -> StreamFigures:
        """For the worker's metrics."""
        return StreamFigures()

    @abstractmethod
    def poll(self) -> bool:
        """Write what has arrived to the output, a batch of it at most; whether nothing more is there now."""

    def wait(self, seconds: float, descriptor: int) -> None:
        """Wait until there may be something to poll, or to hear.

        Args:
            descriptor: readable when the worker has something to say.
        """
        select.select([descriptor], [], [], seconds)

    def command(self, kind: str, body: str) -> None:
        """Do what a command asks for.

        Args:
            kind: ``signal``: it came over REST, and is JSON; else what the connector's companion calls it.
        """
        if kind == SIGNAL:
            _log.warning("this connector takes no signals", signal_bytes=len(body))

    def findings(self) -> Mapping[str, int]:
        """What it found that its way of reading had missed, or may miss, by kind; counts from its start. All kinds from the
        start, since an alert sees only what grows."""
        return {}

    def stop(self) -> None:  # noqa: B027 - most have nothing to close
        """Let go of the source."""


class SourceTask(_Task):
    """Reads one part of a source. One thread uses it; `poll` and `wait` are to return within a second."""

    @abstractmethod
    def start(self, stored: Position | None) -> None:
        """Begin after a position, or from the beginning (None).

        Raises:
            OffsetError: the position cannot be understood.
        """

    @abstractmethod
    def position(self) -> Position | None:
        """Where it is: after everything that it has written, and after nothing else; None: nowhere yet, and nothing was
        written."""

    def stored(self, position: Position) -> None:
        """Kafka has everything up to a position: the source may forget it."""


class PartitionedTask(_Task):
    """Reads several parts of a source, such as tables, each of which has a position. One thread uses it."""

    @abstractmethod
    def start(self, stored: StoredPositions) -> None:
        """Begin where each partition was.

        Raises:
            OffsetError: a position cannot be understood.
        """

    @abstractmethod
    def positions(self) -> Sequence[tuple[Partition, Position]]:
        """Where each partition is: after everything that was written of it. One without a position is left out."""

    def stored(self, positions: Sequence[tuple[Partition, Position]]) -> None:
        """Kafka has everything up to these positions."""


class _Single(PartitionedTask):
    """A task with one partition."""

    def __init__(self, task: SourceTask, partition: Partition) -> None:
        self._task = task
        self._partition = partition

    def start(self, stored: StoredPositions) -> None:
        self._task.start(stored.get(self._partition))

    def positions(self) -> Sequence[tuple[Partition, Position]]:
        position = self._task.position()
        return [] if position is None else [(self._partition, position)]

    def stored(self, positions: Sequence[tuple[Partition, Position]]) -> None:
        for _partition, position in positions:
            self._task.stored(position)

    def poll(self) -> bool:
        return self._task.poll()

    def wait(self, seconds: float, descriptor: int) -> None:
        self._task.wait(seconds, descriptor)

    def command(self, kind: str, body: str) -> None:
        self._task.command(kind, body)

    def findings(self) -> Mapping[str, int]:
        return self._task.findings()

    def stop(self) -> None:
        self._task.stop()

    def figures(self) -> StreamFigures:
        return self._task.figures()


class SourceConnector(Connector):
    """A connector whose tasks are `SourceTask`."""

    kind: ClassVar[Kind] = "source"

    def partition(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """What a configuration reads: the ``partition`` of Kafka Connect's REST API. The position is stored under it.

        A connector whose tasks are `PartitionedTask` has none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no partition")

    @abstractmethod
    def open_task(self, config: Mapping[str, str], output: Output) -> SourceTask | PartitionedTask:
        """A task, which has not started.

        Args:
            config: the connector's, with secrets in place of references to them.
            output: takes its records.
        """

    def run_task(self, context: TaskContext) -> None:
        """Run a task until it is to stop."""
        problems = self.problems(context.job.config)
        if problems:
            raise OptionError("; ".join(text for texts in problems.values() for text in texts))
        _Loop(context, self).run()


class _Loop:
    def __init__(self, context: TaskContext, connector: SourceConnector) -> None:
        self._context = context
        self._connector = context.job.connector
        self._state = "starting"
        self._link = WorkerLink(context.supervision, self._report)
        job, config = context.job, context.job.config
        converters = converters_of(config, job.converters)
        chain = transforms_of(config)
        topics = TaskTopics(
            context.transport.topics(),
            read_topic_creation(config),
            TopicBounds(job.internal_topics, job.connector, ""),
            self._link.listen,
        )
        self._topics = topics
        self._stored = StoredPositions(job.connector, {})
        self._producer, self._checkpoints = context.transport.open(
            Delivery[Sequence[tuple[Partition, Position]]](
                self._entries,
                self._link.listen,
                producer_overrides(config),
                boundary_of(config),
                config.get(SUPPORT, "").strip().lower() == REQUIRED,
            )
        )
        self._output = Output(
            self._producer,
            topics,
            (make_converter(converters, is_key=True), make_converter(converters, is_key=False)),
            make_chain(chain) if chain else None,
        )
        self._output.settle = lambda: self._checkpoints.take_and_wait(self._task.positions())
        self._output.exactly_once = job.exactly_once
        self._output.consumer = {**job.client, **job.consumer}
        task = connector.open_task(config, self._output)
        self._task = task if isinstance(task, PartitionedTask) else _Single(task, connector.partition(config))

    def run(self) -> None:
        self._link.report()
        try:
            self._work()
        except StopRequested:
            self._finish()
            _log.info("stopped", connector=self._connector)
        finally:
            self._task.stop()
            self._checkpoints.close()
            self._output.close()
            self._link.report()

    def _work(self) -> None:
        self._checkpoints.open()
        self._topics.find()
        self._stored = StoredPositions(self._connector, self._context.transport.stored())
        self._task.start(self._stored)
        told: Sequence[tuple[Partition, Position]] = self._stored.of(
            partition for partition, _position in self._task.positions()
        )
        if told:
            self._checkpoints.start_from(told)
        self._state = "streaming"
        while True:
            drained = self._task.poll()
            reached("batch.sent")
            self._checkpoints.poll()
            now = time.monotonic()
            if self._checkpoints.due(now, drained=drained):
                self._checkpoints.take(self._task.positions())
            if self._checkpoints.stored is not None and self._checkpoints.stored != told:
                told = self._checkpoints.stored
                self._task.stored(told)
                reached("slot.confirmed")
            for command in self._context.supervision.commands():
                self._task.command(command.kind, command.body)
            self._link.listen()
            if drained:
                self._producer.hurry(now)
                pending = self._producer.outstanding() or self._checkpoints.pending
                self._task.wait(
                    _PENDING_SECONDS if pending else _IDLE_SECONDS, self._context.supervision.descriptor
                )

    def _entries(self, positions: Sequence[tuple[Partition, Position]]) -> Mapping[bytes, bytes]:
        return self._stored.entries(positions)  # of what is known when it is asked

    def _finish(self) -> None:
        if self._state != "streaming":
            return
        self._link.ending()
        try:
            self._checkpoints.take_and_wait(self._task.positions())
            if self._checkpoints.stored is not None:
                self._task.stored(self._checkpoints.stored)
        except (BrokerError, StopRequested) as error:
            # The stored offset stays behind: the next start repeats what was not acknowledged.
            _log.warning("stopped without a last offset", connector=self._connector, reason=str(error))

    def _report(self) -> Report:
        stored = self._checkpoints.stored or ()
        figures = self._task.figures()
        return Report(
            transactions=figures.transactions,
            events=figures.events,
            last_commit_us=figures.last_commit_us,
            lag_seconds=figures.lag_seconds,
            state=self._state,
            position=dict(stored[0][1]) if len(stored) == 1 else {},
            records=dict(self._output.counts),
            connected=self._state == "streaming",
            outstanding=self._producer.outstanding(),
            kafka_transactions=self._checkpoints.transactions,
            findings=dict(self._task.findings()),
        )
