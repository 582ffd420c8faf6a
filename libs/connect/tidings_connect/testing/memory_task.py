"""A task of the worker in memory: in a thread, with the real loop, between topics that are dictionaries."""

import os
import threading
from collections.abc import Mapping
from typing import Final

from tidings_connect.connector import Connector
from tidings_connect.data.subscription import Assignments, Subscribe
from tidings_connect.task.channel import Command, Report, TaskJob
from tidings_connect.task.checkpoints import AcknowledgedCheckpoints, Checkpoints, P
from tidings_connect.task.exactly_once import TransactionalCheckpoints
from tidings_connect.task.transport import Delivery, TaskContext
from tidings_connect.testing.memory_group import MemorySubscription
from tidings_connect.testing.memory_kafka import (
    OFFSETS,
    MemoryKafka,
    MemoryOffsets,
    MemoryProducer,
    MemoryTopicMaker,
    MemoryTransactions,
)

DEADLINE_SECONDS: Final = 60.0


class _Transport:
    def __init__(self, kafka: MemoryKafka, transactional_id: str | None) -> None:
        self._kafka, self._id = kafka, transactional_id
        self.subscription: MemorySubscription | None = None
        self.producer: MemoryProducer | None = None

    def open(self, delivery: Delivery[P]) -> tuple[MemoryProducer, Checkpoints[P]]:
        if self._id is not None:
            self.producer = transactions = MemoryTransactions(self._kafka, self._id)
            return transactions, TransactionalCheckpoints(
                transactions, OFFSETS, delivery.encode, delivery.boundary, interval_seconds=0.02
            )
        self.producer = producer = MemoryProducer(self._kafka)
        return producer, AcknowledgedCheckpoints(
            producer,
            MemoryOffsets(self._kafka),
            OFFSETS,
            delivery.encode,
            interval_seconds=0.02,
            on_wait=delivery.on_wait,
        )

    def subscribe(self, wanted: Subscribe, assignments: Assignments) -> MemorySubscription:
        self.subscription = MemorySubscription(self._kafka.inputs, wanted, assignments)
        return self.subscription

    def letters(self, topic: str, replication_factor: int, settings: Mapping[str, str]) -> MemoryProducer:  # noqa: ARG002
        return MemoryProducer(self._kafka)

    def stored(self) -> Mapping[bytes, bytes]:
        return dict(self._kafka.offsets)

    def topics(self) -> MemoryTopicMaker:
        return MemoryTopicMaker(self._kafka)


class _Supervision:
    def __init__(self) -> None:
        self.descriptor, self._wake = os.pipe()
        self._stop = threading.Event()
        self._commands: list[Command] = []
        self.last = Report(state="starting")

    def stop_requested(self) -> bool:
        return self._stop.is_set()

    def commands(self) -> list[Command]:
        found, self._commands = self._commands, []
        return found

    def command(self, command: Command) -> None:
        self._commands.append(command)
        os.write(self._wake, b"x")

    def report(self, report: Report) -> None:
        self.last = report

    def stop(self) -> None:
        self._stop.set()
        os.write(self._wake, b"x")

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._wake)


class MemoryTask:
    """One task in a thread, which `start` starts: whoever watches for its thread has to know it before."""

    def __init__(self, connector: Connector, job: TaskJob, kafka: MemoryKafka) -> None:
        self._connector, self._job = connector, job
        self.config, self.number = job.config, job.task
        self.transport = _Transport(kafka, f"{job.connector}-{job.task}" if job.exactly_once else None)
        self.error: BaseException | None = None
        self.supervision = _Supervision()
        self.thread = threading.Thread(target=self._run, name=f"task {job.task}")

    def start(self) -> None:
        """Begin to work, once."""
        self.thread.start()

    @property
    def ended(self) -> bool:
        """Whether it does nothing any more, though its thread may not have returned yet."""
        return self.error is not None or not self.thread.is_alive()

    @property
    def running(self) -> bool:
        return self.supervision.last.state in {"streaming", "idle"}

    def _run(self) -> None:
        try:
            self._connector.run_task(TaskContext(self._job, self.supervision, self.transport))
        except BaseException as error:  # noqa: BLE001 - kept for whoever asks for the state
            self.error = error
            if self.transport.subscription is not None:
                self.transport.subscription.leave()

    def end(self) -> None:
        self.supervision.stop()
        self.thread.join(DEADLINE_SECONDS)
        assert not self.thread.is_alive(), "the task does not stop"
        self.supervision.close()
