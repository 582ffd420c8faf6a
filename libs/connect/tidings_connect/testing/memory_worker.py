"""A worker in memory: one connector, each task in a thread, topics and offsets in dictionaries. It needs no Kafka.

What the real worker does with processes, the group and the REST API is not here; the task, its loop, positions, transforms
and converters are the real ones.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Self

from tidings_connect.config.providers import ConfigProviders
from tidings_connect.config.tasks import tasks_max
from tidings_connect.config.validation import invalid_message, validate
from tidings_connect.connector import Connector
from tidings_connect.data.kept import KEPT
from tidings_connect.data.subscription import TopicPartition
from tidings_connect.errors import NotStoppedError, OptionError
from tidings_connect.task.channel import Command, TaskJob
from tidings_connect.testing.memory_kafka import OFFSETS, MemoryKafka
from tidings_connect.testing.memory_task import DEADLINE_SECONDS, MemoryTask
from tidings_envelope.fault_points import watched

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
CONVERTERS: Final = {
    "key.converter": _JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": _JSON,
    "value.converter.schemas.enable": "false",
}


class Crash(BaseException):
    """The task's process is killed: nothing of it catches this."""


class MemoryWorker:
    """Runs one connector.

    Args:
        connector: its class.
        name: the connector's.
        exactly_once: the tasks of a source write in transactions.
    """

    def __init__(self, connector: Connector, name: str = "toy", *, exactly_once: bool = False) -> None:
        self.kafka = MemoryKafka()
        self._exactly_once = exactly_once
        self.name = name
        self.flush_ms = 20
        """How often offsets are stored, in milliseconds; counts for tasks that start."""
        self._connector = connector
        self._config: dict[str, str] = {}
        self._target = "STOPPED"
        self._tasks: list[MemoryTask] = []
        self._lost: list[MemoryTask] = []
        self._former = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        for task in self._lost:
            task.end()

    @property
    def error(self) -> BaseException | None:
        """Why a task FAILED; the first of several."""
        return next((task.error for task in self._tasks if task.error is not None), None)

    @property
    def state(self) -> str:
        """Kafka Connect's word for how the tasks are; STOPPED and PAUSED are the connector's."""
        if self.error is not None:
            return "FAILED"
        if not self._tasks:
            return self._target
        return "RUNNING" if all(task.running for task in self._tasks) else "UNASSIGNED"

    @property
    def taken(self) -> int:
        """Records that the tasks have written, or a sink's have been given, as they said last."""
        return sum(sum(task.supervision.last.records.values()) for task in self._tasks)

    @property
    def partitions(self) -> int:
        """Partitions that a sink's tasks have which run, as they said last."""
        return sum(task.supervision.last.partitions for task in self._tasks if task.thread.is_alive())

    @property
    def findings(self) -> dict[str, int]:
        """What the first task found that its way of reading had missed."""
        return self._tasks[0].supervision.last.findings if self._tasks else {}

    @property
    def tasks(self) -> int:
        """How many run."""
        return sum(task.thread.is_alive() for task in self._tasks)

    def put(self, config: Mapping[str, str]) -> None:
        """Create the connector, or change its configuration: the task starts anew.

        Raises:
            OptionError: the configuration is wrong, as in the answer of ``PUT /connectors/{name}/config``.
        """
        full = {"connector.class": self._connector.class_name, **CONVERTERS, **config, "name": self.name}
        found = validate(full, ConfigProviders({}))
        if found.problems:
            raise OptionError(invalid_message(found.problems))
        self._end()
        self._config = full
        self.resume()

    def pause(self) -> None:
        """End the task; what was sent is stored before."""
        self._end()
        self._target = "PAUSED"

    def stop(self) -> None:
        """As `pause`; offsets may be changed then."""
        self._end()
        self._target = "STOPPED"

    def resume(self) -> None:
        """Start the tasks that do not run."""
        if self._tasks and not any(task.ended for task in self._tasks):
            return
        configs = self._connector.task_configs(self._config, tasks_max(self._config))
        former = self._tasks if len(self._tasks) == len(configs) else []
        if not former:
            self._end()
            self._fence(len(configs))
        self._target = "RUNNING"
        self._tasks = [
            former[number] if former and not former[number].ended else self._task(number, config)
            for number, config in enumerate(configs)
        ]
        for task in self._tasks:
            if task not in former:
                task.start()
        for task in former:
            if task not in self._tasks:
                task.end()

    def _task(self, number: int, config: dict[str, str]) -> MemoryTask:
        job = TaskJob(
            self.name, number, config, {}, {}, {}, {}, {}, OFFSETS, self.flush_ms, topic_creation=True,
            group=str(uuid.uuid4()), exactly_once=self._exactly_once,
        )  # fmt: skip
        return MemoryTask(self._connector, job, self.kafka)

    def tell(self, command: Command) -> None:
        """Hand a command to the tasks, as a companion or the REST API does."""
        for task in self._tasks:
            task.supervision.command(command)

    def deliver(self) -> None:
        """Let what the tasks have sent arrive, which a producer in memory does only when it is waited for; from a task's thread."""
        for task in self._tasks:
            if task.transport.producer is not None:
                task.transport.producer.flush(0)

    def restart(self) -> None:
        """End the task and start it again."""
        self._end()
        self.resume()

    def move(self, number: int) -> None:
        """Give a task to another worker while the others go on, as a rebalance does."""
        task = self._tasks[number]
        task.end()
        self._tasks[number] = self._task(number, task.config)
        self._tasks[number].start()

    @contextmanager
    def freeze_at(self, point: str, number: int) -> Iterator[threading.Event]:
        """Within the block, a task by number stands still when it has passed a fault point, and its worker with it: nobody
        ends it, and what is asked for happens without it. Set when it stands; it goes on at the end of the block, to its own
        end."""
        happened, thawed = threading.Event(), threading.Event()

        def watcher(passed: str) -> None:
            task = next((task for task in self._tasks if task.thread is threading.current_thread()), None)
            if passed == point and task is not None and task.number == number and not happened.is_set():
                self._tasks.remove(task)
                self._lost.append(task)
                happened.set()
                thawed.wait(DEADLINE_SECONDS)

        with watched(watcher):
            yield happened
            thawed.set()
            for task in self._lost:
                task.thread.join(DEADLINE_SECONDS)

    @property
    def lost_error(self) -> BaseException | None:
        """How the task that stood still has ended."""
        return self._lost[-1].error if self._lost else None

    def _fence(self, tasks: int) -> None:
        """As `herder.fencing`, when the number of tasks changes."""
        if self._exactly_once and (self._former, tasks) != (1, 1):
            for number in range(self._former):
                self.kafka.take_over(f"{self.name}-{number}")
        self._former = tasks

    @contextmanager
    def crash_at(
        self, point: str, skip: int = 0, when: Callable[[], bool] = lambda: True
    ) -> Iterator[threading.Event]:
        """Within the block, a task is killed once at a fault point; set when it was. It has ended when the block has.

        Args:
            skip: so many times the task passes the point first.
            when: it also passes the point where this is false; asked by the task's own thread.
        """

        killed: list[threading.Thread] = []

        def kill(happened: threading.Event) -> None:
            killed.append(threading.current_thread())
            happened.set()
            raise Crash(point)

        with self._once_at(point, kill, skip, when) as happened:
            yield happened
        for thread in killed:
            thread.join(DEADLINE_SECONDS)

    def stop_at(self, point: str, when: Callable[[], bool]) -> AbstractContextManager[threading.Event]:
        """As `crash_at`, but the tasks are asked to stop, which they do on their own; `stop` waits for that."""

        def ask(happened: threading.Event) -> None:
            happened.set()
            for task in self._tasks:
                task.supervision.stop()

        return self._once_at(point, ask, 0, when)

    @contextmanager
    def _once_at(
        self, point: str, act: Callable[[threading.Event], None], skip: int, when: Callable[[], bool]
    ) -> Iterator[threading.Event]:
        """`act` sets the event. Whether it was called is certain at the end of the block."""
        happened, over, left = threading.Event(), threading.Lock(), [skip]

        def watcher(passed: str) -> None:
            ours = (task.thread for task in self._tasks)
            if passed != point or happened.is_set() or threading.current_thread() not in ours or not when():
                return
            left[0] -= 1
            if left[0] < 0 and over.acquire(blocking=False):
                act(happened)

        with watched(watcher):
            yield happened
            if not over.acquire(blocking=False):
                happened.wait(DEADLINE_SECONDS)  # a task is just passing the point

    def offsets(self) -> list[dict[str, Any]]:
        """As ``GET /connectors/{name}/offsets`` has them."""
        if self._connector.kind == "sink":
            return [
                {
                    "partition": {"kafka_topic": at.topic, "kafka_partition": at.partition},
                    "offset": {"kafka_offset": offset},
                }
                for at, offset in sorted(self._committed.items())
            ]
        stored = [(json.loads(key), json.loads(value)) for key, value in self.kafka.offsets.items()]
        return [
            {"partition": key[1], "offset": offset}
            for key, offset in stored
            if key[0] == self.name and KEPT not in key[1]
        ]

    @property
    def _committed(self) -> dict[TopicPartition, int]:
        """How far the sink's group has come."""
        return self.kafka.inputs.offsets.setdefault(f"connect-{self.name}", {})

    def alter_offsets(self, offsets: Sequence[Mapping[str, Any]]) -> None:
        """Store offsets, as ``PATCH /connectors/{name}/offsets`` does.

        Raises:
            NotStoppedError: the connector is not stopped.
        """
        self._require_stopped()
        if self._connector.kind == "sink":
            places = [entry["partition"] for entry in offsets]
            found = {
                TopicPartition(place["kafka_topic"], place["kafka_partition"]): entry["offset"][
                    "kafka_offset"
                ]
                for place, entry in zip(places, offsets, strict=True)
            }
            self._connector.offsets_changed(self.name, self._config, found)
            self._committed.update(found)
            return
        for entry in offsets:
            key = json.dumps([self.name, entry["partition"]], separators=(",", ":")).encode()
            self.kafka.offsets[key] = json.dumps(entry["offset"]).encode()

    def reset_offsets(self) -> None:
        """Forget them.

        Raises:
            NotStoppedError: the connector is not stopped.
        """
        self._require_stopped()
        self._connector.offsets_changed(self.name, self._config, None)
        self.kafka.offsets.clear()
        self._committed.clear()

    def values(self, topic: str) -> list[Any]:
        """The values of a topic's records, JSON decoded; without tombstones."""
        records = list(self.kafka.topics.get(topic, []))
        return [json.loads(value) for _, value, _ in records if value is not None]

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something holds; a task that was killed on purpose (`Crash`) is no failure.

        Raises:
            AssertionError: it does not within a minute, or the task has failed; says why.
        """
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            if self.error is not None and not isinstance(self.error, Crash):
                raise AssertionError(f"{what}: the task failed") from self.error
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {DEADLINE_SECONDS:.0f} seconds")
            time.sleep(0.01)

    def _require_stopped(self) -> None:
        if self.state != "STOPPED":
            raise NotStoppedError(f"connector {self.name} has to be stopped first")

    def _end(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.end()
