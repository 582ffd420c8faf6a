"""A worker's state in Kafka, in Kafka Connect's record formats: connector configurations and statuses.

Config topic (`KafkaConfigBackingStore`): ``connector-<name>`` {"properties"}, ``task-<name>-<n>`` {"properties"},
``commit-<name>`` {"tasks"}, ``target-state-<name>`` {"state","state.v2"}. Status topic (`KafkaStatusBackingStore`):
``status-connector-<name>`` and ``status-task-<name>-<n>`` {"state","trace","worker_id",
"generation","version"}. A null value
deletes. The stores block on Kafka: call them off the event loop.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from tidings_capture.kafka import AcknowledgedProducer, read_compacted
from tidings_capture.options import CONNECTOR_CLASS, CONNECTOR_VERSION

STARTED: Final = "STARTED"
PAUSED: Final = "PAUSED"
STOPPED: Final = "STOPPED"
_TASK_CLASS: Final = "io.debezium.connector.postgresql.PostgresConnectorTask"


@dataclass(slots=True)
class StoredConnector:
    """One connector as the config topic holds it."""

    config: dict[str, str]
    target_state: str = STARTED
    tasks: int = 0


@dataclass(slots=True)
class ConfigStore:
    """The config topic; the worker is its only writer."""

    producer: AcknowledgedProducer
    topic: str
    connectors: dict[str, StoredConnector] = field(default_factory=dict)

    def load(self, settings: Mapping[str, Any]) -> None:
        """Read the topic to its end.

        Raises:
            BrokerError: it cannot be read.
        """
        self.connectors = parse_config_records(read_compacted(settings, self.topic))

    def put_connector(self, name: str, config: Mapping[str, str], target_state: str | None = None) -> None:
        """Store a connector, its task and, for a new one, its target state."""
        known = self.connectors.get(name)
        if target_state is not None:
            self.put_target_state(name, target_state)
        self._put(f"connector-{name}", {"properties": dict(config)})
        self._put(f"task-{name}-0", {"properties": {**config, "task.class": _TASK_CLASS}})
        self._put(f"commit-{name}", {"tasks": 1})
        state = target_state or (known.target_state if known is not None else STARTED)
        self.connectors[name] = StoredConnector(dict(config), state, 1)

    def put_target_state(self, name: str, state: str) -> None:
        """Store what a connector is to do; older workers know no STOPPED and take it for PAUSED."""
        self._put(f"target-state-{name}", {"state": PAUSED if state == STOPPED else state, "state.v2": state})
        if name in self.connectors:
            self.connectors[name].target_state = state

    def delete_connector(self, name: str) -> None:
        """Forget a connector; its offsets stay, as in Kafka Connect."""
        for key in (f"connector-{name}", f"target-state-{name}", f"commit-{name}", f"task-{name}-0"):
            self._put(key, None)
        self.connectors.pop(name, None)

    def _put(self, key: str, value: object | None) -> None:
        self.producer.put_and_wait(self.topic, key.encode(), None if value is None else orjson.dumps(value))


def parse_config_records(records: Mapping[bytes, bytes]) -> dict[str, StoredConnector]:
    """The connectors in a config topic, Kafka Connect's or ours; records of other kinds are left alone."""
    values = {key.decode(): orjson.loads(value) for key, value in records.items()}
    found: dict[str, StoredConnector] = {}
    for key, value in values.items():
        if not key.startswith("connector-") or not isinstance(value, dict):
            continue
        name = key.removeprefix("connector-")
        target = values.get(f"target-state-{name}") or {}
        found[name] = StoredConnector(
            config={k: "" if v is None else str(v) for k, v in value.get("properties", {}).items()},
            target_state=target.get("state.v2") or target.get("state") or STARTED,
            tasks=int((values.get(f"commit-{name}") or {}).get("tasks", 0)),
        )
    return found


def is_ours(config: Mapping[str, str]) -> bool:
    """Whether a stored connector is one that this worker can run."""
    known = config.get("connector.class", "")
    return known == CONNECTOR_CLASS or CONNECTOR_CLASS.endswith(f".{known}")


@dataclass(slots=True)
class StatusStore:
    """The status topic: written on every change of state; `on_error` hears of what could not be written."""

    producer: AcknowledgedProducer
    topic: str
    worker_id: str
    on_error: Callable[[Exception], None]

    def put_connector(self, name: str, state: str, trace: str | None, generation: int) -> None:
        self._put(f"status-connector-{name}", self._status(state, trace, generation))

    def put_task(self, name: str, task: int, state: str, trace: str | None, generation: int) -> None:
        self._put(f"status-task-{name}-{task}", self._status(state, trace, generation))

    def delete(self, name: str) -> None:
        self._put(f"status-task-{name}-0", None)
        self._put(f"status-connector-{name}", None)

    def _status(self, state: str, trace: str | None, generation: int) -> dict[str, object]:
        return {
            "state": state,
            "trace": trace,
            "worker_id": self.worker_id,
            "generation": generation,
            "version": CONNECTOR_VERSION,
        }

    def _put(self, key: str, value: object | None) -> None:
        data = None if value is None else orjson.dumps(value)
        try:
            self.producer.put(self.topic, key.encode(), data, lambda: None)
            self.producer.poll()
        except Exception as error:  # noqa: BLE001 - a status that cannot be told must not stop the work
            self.on_error(error)
