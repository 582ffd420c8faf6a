"""A worker's state in Kafka, in Kafka Connect's record formats: connector configurations and statuses.

Config topic (`KafkaConfigBackingStore`): ``connector-<name>`` {"properties"}, ``task-<name>-<n>`` {"properties"},
``commit-<name>`` {"tasks"}, ``tasks-fencing-<name>`` {"task-count"}, ``target-state-<name>`` {"state","state.v2"}. Status topic (`KafkaStatusBackingStore`):
``status-connector-<name>`` and ``status-task-<name>-<n>`` {"state","trace","worker_id",
"generation","version"}. A null value
deletes. The stores block on Kafka: call them off the event loop.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import orjson

from tidings_connect.config.plugins import connector_of
from tidings_connect.config.tasks import task_class_of, task_configs_of
from tidings_connect.errors import ConnectError
from tidings_envelope.fault_points import reached

STARTED: Final = "STARTED"
PAUSED: Final = "PAUSED"
STOPPED: Final = "STOPPED"
INITIAL_STATES: Final = {"RUNNING": STARTED, "PAUSED": PAUSED, "STOPPED": STOPPED}
"""Target states by what ``initial_state`` of a new connector calls them."""


@dataclass(frozen=True, slots=True)
class FencingState:
    """Whether tasks of a former configuration can still write, as far as the config topic says."""

    tasks: int | None = None
    """How many transactional ids were in use when a ``tasks-fencing-<name>`` record was last written; None: there is none."""
    done: bool = False
    """No configuration came after that record."""

    def needs_round(self, tasks: int) -> bool:
        """Whether transactional ids have to be taken over before `tasks` tasks may start: one that follows one fences it by
        itself."""
        return not self.done and self.tasks is not None and not self.follows_one(tasks)

    def follows_one(self, tasks: int) -> bool:
        """Whether `tasks` tasks are one that follows one, or the first there is."""
        return tasks == 1 and self.tasks in {None, 1}


@dataclass(slots=True)
class StoredConnector:
    """One connector as the config topic holds it."""

    config: dict[str, str]
    target_state: str = STARTED
    tasks: int = 0
    """How many its last ``commit-<name>`` record says."""
    revision: int = 0
    """Changes with each record of its configuration, also one that says the same again; counts in this process."""
    task_configs: Sequence[dict[str, str]] = ()
    """What its tasks are given when it runs, made of `config`."""
    digest: str = ""
    """Of the record of its configuration, to compare it with another one."""
    fencing: FencingState = FencingState()

    @property
    def tasks_now(self) -> int:
        """How many it has in its target state."""
        return tasks_in(self.target_state, self.tasks, len(self.task_configs))

    @property
    def is_ours(self) -> bool:
        """Whether its class is one that this worker has."""
        return is_ours(self.config)


class Writer(Protocol):
    """Writes a record and waits until it is stored."""

    def put_and_wait(self, topic: str, key: bytes, value: bytes | None) -> None: ...


@dataclass(slots=True)
class ConfigStore:
    """The config topic. Only the leader writes; `apply` hears what was written."""

    producer: Writer
    topic: str
    connectors: dict[str, StoredConnector] = field(default_factory=dict)
    on_log_level: Callable[[str, str], None] = lambda _namespace, _level: None
    """Hears of log levels for all workers; those from before a worker's start are not for it."""
    in_doubt: bool = False
    """The last record was not acknowledged: it may be stored, or still come, before the next one is."""
    _values: dict[str, Any] = field(default_factory=dict)
    _revisions: dict[str, int] = field(default_factory=dict)
    _digests: dict[str, str] = field(default_factory=dict)
    _fencing: dict[str, FencingState] = field(default_factory=dict)

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take note of a record; one that cannot be understood is left alone, as Kafka Connect does."""
        try:
            name, parsed = key.decode(), None if value is None else orjson.loads(value)
        except ValueError:  # both decoders' errors
            return
        if parsed is None:
            self._values.pop(name, None)
        else:
            self._values[name] = parsed
        if name.startswith(_LOG_LEVEL) and isinstance(parsed, dict):
            self.on_log_level(name.removeprefix(_LOG_LEVEL), str(parsed.get("level")))
        kind = next((prefix for prefix in _CONNECTOR_KEYS if name.startswith(prefix)), None)
        if kind is None:
            return
        connector = name.removeprefix(kind)
        if kind == "connector-":
            self._revisions[connector] = self._revisions.get(connector, 0) + 1
            self._digests[connector] = config_digest(value or b"")
            self._fencing[connector] = replace(self._fencing.get(connector, FencingState()), done=False)
        elif kind == _FENCING:
            count = _dict(parsed).get("task-count")
            if isinstance(count, int):
                self._fencing[connector] = FencingState(count, done=True)
        found = _stored(connector, self._values)
        if found is None:
            self.connectors.pop(connector, None)
        else:
            found.revision = self._revisions.get(connector, 0)
            found.digest = self._digests.get(connector, "")
            found.fencing = self._fencing.get(connector, FencingState())
            self.connectors[connector] = found

    def put_connector(self, name: str, config: Mapping[str, str], target_state: str | None = None) -> None:
        """Store a connector, its task and, for a new one, its target state."""
        known = self.connectors.get(name)
        if target_state is not None:
            self._put_state(name, target_state)
        self._put(f"connector-{name}", {"properties": dict(config)})
        reached("config.connector")
        state = target_state or (known.target_state if known is not None else STARTED)
        self._put_tasks(name, config, state, 0 if known is None else known.tasks)

    def put_target_state(self, name: str, state: str) -> None:
        """Store what a connector is to do; a stopped one has no tasks, and gets its own again when it is to run."""
        known, in_doubt = self.connectors.get(name), self.in_doubt
        self._put_state(name, state)
        if known is not None and (
            in_doubt or tasks_in(state, known.tasks, len(known.task_configs)) != known.tasks
        ):
            self._put_tasks(name, known.config, state, known.tasks)

    def delete_connector(self, name: str) -> None:
        """Forget a connector; its offsets stay, as in Kafka Connect, and so do its tasks' records."""
        for key in (f"connector-{name}", f"target-state-{name}"):
            self._put(key, None)

    def put_fenced(self, name: str, tasks: int) -> None:
        """Store that no former task of a connector can write any more, and how many it has from now on."""
        self._put(f"{_FENCING}{name}", {"task-count": tasks})

    def put_log_level(self, namespace: str, level: str) -> None:
        """Tell all workers a log level."""
        self._put(f"{_LOG_LEVEL}{namespace}", {"level": level})

    def _put_state(self, name: str, state: str) -> None:
        # Workers before Kafka 3.5 know no STOPPED and take it for PAUSED.
        self._put(f"target-state-{name}", {"state": PAUSED if state == STOPPED else state, "state.v2": state})

    def _put_tasks(self, name: str, config: Mapping[str, str], state: str, known: int) -> None:
        configs = task_configs_of(config)
        tasks = tasks_in(state, known, len(configs))
        for number, given in enumerate(configs[:tasks]):
            properties = {**given, "task.class": task_class_of(config)}
            self._put(f"task-{name}-{number}", {"properties": properties})
        reached("config.task")
        self._put(f"commit-{name}", {"tasks": tasks})

    def _put(self, key: str, value: object | None) -> None:
        self.in_doubt = True
        self.producer.put_and_wait(self.topic, key.encode(), None if value is None else orjson.dumps(value))
        self.in_doubt = False


_LOG_LEVEL: Final = "logger-cluster-"
_FENCING: Final = "tasks-fencing-"
_CONNECTOR_KEYS: Final = ("connector-", "target-state-", "commit-", _FENCING)


def tasks_in(state: str, tasks: int, wanted: int) -> int:
    """How many tasks a connector has in a target state, when it had `tasks` and is to have `wanted` when it runs: as in
    Kafka Connect a connector that is paused from the start has none until it runs."""
    return wanted if state == STARTED else 0 if state == STOPPED else min(tasks, wanted)


def config_digest(record: bytes) -> str:
    """Of a configuration's record as it is in the topic."""
    return hashlib.sha256(record).hexdigest()


def _stored(name: str, values: Mapping[str, Any]) -> StoredConnector | None:
    value = values.get(f"connector-{name}")
    properties = value.get("properties") if isinstance(value, dict) else None
    if not isinstance(properties, dict):
        return None
    target = _dict(values.get(f"target-state-{name}"))
    state = target.get("state.v2") or target.get("state")
    tasks = _dict(values.get(f"commit-{name}")).get("tasks", 0)
    config = {key: "" if item is None else str(item) for key, item in properties.items()}
    return StoredConnector(
        config=config,
        target_state=state if state in {STARTED, PAUSED, STOPPED} else STARTED,
        tasks=tasks if isinstance(tasks, int) else 0,
        task_configs=task_configs_of(config),
    )


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def is_ours(config: Mapping[str, str]) -> bool:
    """Whether a stored connector is one that this worker can run."""
    return connector_of(config) is not None


class StatusWriter(Writer, Protocol):
    """Also writes without waiting."""

    def put(self, topic: str, key: bytes, value: bytes | None, on_stored: Callable[[], None]) -> None: ...

    def poll(self) -> None: ...

    def flush(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Status:
    """A connector's or task's state as a worker wrote it."""

    state: str
    worker_id: str
    trace: str | None
    generation: int


@dataclass(slots=True)
class StatusStore:
    """The status topic: written on every change of state; `on_error` hears of what could not be written."""

    producer: StatusWriter
    topic: str
    worker_id: str
    on_error: Callable[[Exception], None]
    values: dict[bytes, bytes] = field(default_factory=dict)
    """Every record there is, by key."""

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take note of a record."""
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def connector(self, name: str) -> Status | None:
        """What was last said of a connector."""
        return self._read(f"status-connector-{name}")

    def task(self, name: str, task: int) -> Status | None:
        """What was last said of a task."""
        return self._read(f"status-task-{name}-{task}")

    def put_connector(self, name: str, state: str, trace: str | None, generation: int, version: str) -> None:
        """Say how a connector is, which is a release of its class."""
        self._put(f"status-connector-{name}", self._status(state, trace, generation, version))

    def put_task(
        self, name: str, task: int, state: str, trace: str | None, generation: int, version: str
    ) -> None:
        """Say how a task is."""
        self._put(f"status-task-{name}-{task}", self._status(state, trace, generation, version))

    def delete(self, name: str) -> None:
        """Forget a connector and all its tasks."""
        of_task = re.compile(rf"status-task-{re.escape(name)}-\d+".encode())
        tasks = {key.decode() for key in self.values if of_task.fullmatch(key)}
        for key in sorted(tasks | {f"status-task-{name}-0"}):
            self._put(key, None)
        self._put(f"status-connector-{name}", None)

    def delete_task(self, name: str, task: int) -> None:
        """Forget a task that a connector has no more."""
        self._put(f"status-task-{name}-{task}", None)

    def put_record(self, key: bytes, data: bytes | None) -> None:
        """Write a record of another kind (`herder.topics`) without waiting."""
        try:
            self.producer.put(self.topic, key, data, lambda: None)
            self.producer.poll()
        except Exception as error:  # noqa: BLE001 - a status that cannot be told must not stop the work
            self.on_error(error)

    def put_and_wait(self, key: bytes, value: bytes | None) -> None:
        """Write a record of the group's own.

        Raises:
            BrokerError: it was not acknowledged in time.
        """
        self.producer.put_and_wait(self.topic, key, value)

    def flush(self, seconds: float) -> None:
        """Wait until what was put is stored."""
        try:
            self.producer.flush(seconds)
        except ConnectError as error:
            self.on_error(error)

    def _read(self, key: str) -> Status | None:
        data = self.values.get(key.encode())
        try:
            value = _dict(None if data is None else orjson.loads(data))
            return Status(
                str(value["state"]), str(value["worker_id"]), value.get("trace"), int(value["generation"])
            )
        except (KeyError, TypeError, ValueError):
            return None

    def _status(self, state: str, trace: str | None, generation: int, version: str) -> dict[str, object]:
        return {
            "state": state,
            "trace": trace,
            "worker_id": self.worker_id,
            "generation": generation,
            "version": version,
        }

    def _put(self, key: str, value: object | None) -> None:
        self.put_record(key.encode(), None if value is None else orjson.dumps(value))
