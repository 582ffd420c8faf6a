"""Kafka Connect's config and status topics, as Kafka Connect 4.3 and we write them."""

import json
from typing import Any

import pytest

from tidings_connect.storage.records import (
    PAUSED,
    STARTED,
    STOPPED,
    ConfigStore,
    FencingState,
    Status,
    StatusStore,
)


class Topic:
    """Takes what is written and hands it to the store, as the topic's tail does."""

    def __init__(self, make: Any) -> None:
        self.records = {}
        self.keys = []
        self.store = make(self)

    def put_and_wait(self, topic: str, key: Any, value: Any) -> None:
        assert topic == "t"
        self.keys.append(key.decode())
        if value is None:
            self.records.pop(key, None)
        else:
            self.records[key] = value
        self.store.apply(key, value)

    def put(self, topic: str, key: Any, value: Any, on_stored: Any) -> None:
        self.put_and_wait(topic, key, value)
        on_stored()

    def poll(self) -> None:
        pass


def configs() -> Any:
    return Topic(lambda topic: ConfigStore(topic, "t"))


def replayed(topic: Topic) -> Any:
    """A store of another worker, which reads the topic."""
    other = ConfigStore(topic, "t")
    for key, value in topic.records.items():
        other.apply(key, value)
    return other.connectors


def test_what_is_written_is_read_back() -> None:
    topic = configs()
    topic.store.put_connector("a", {"x": "1"})
    topic.store.put_connector("b", {"x": "2"}, STOPPED)
    topic.store.put_target_state("a", PAUSED)
    found = replayed(topic)
    assert found == topic.store.connectors
    assert (found["a"].target_state, found["b"].target_state) == (PAUSED, STOPPED)
    topic.store.delete_connector("b")
    assert replayed(topic).keys() == topic.store.connectors.keys() == {"a"}


def test_a_stopped_connector_has_no_tasks_and_gets_them_back() -> None:
    topic = configs()
    topic.store.put_connector("a", {"x": "1"})
    topic.store.put_target_state("a", STOPPED)
    assert json.loads(topic.records[b"target-state-a"]) == {"state": "PAUSED", "state.v2": "STOPPED"}
    assert topic.store.connectors["a"].tasks == 0
    topic.store.put_connector("a", {"x": "2"})
    assert topic.store.connectors["a"].tasks == 0
    topic.keys.clear()
    topic.store.put_target_state("a", STARTED)
    assert topic.keys == ["target-state-a", "task-a-0", "commit-a"]
    assert topic.store.connectors["a"].tasks == 1
    assert json.loads(topic.records[b"task-a-0"])["properties"]["x"] == "2"


def test_after_a_record_that_may_still_come_everything_is_written() -> None:
    """A stop that was half written, and comes late: the connector that is started after it has its task nevertheless."""
    topic = configs()
    topic.store.put_connector("a", {"x": "1"})
    put = topic.put_and_wait
    late = []

    def lose(_topic: Any, key: Any, value: Any) -> None:
        late.append((key, value))
        if key == b"commit-a":
            raise TimeoutError

    topic.put_and_wait = lose
    with pytest.raises(TimeoutError):
        topic.store.put_target_state("a", STOPPED)
    assert topic.store.in_doubt
    topic.put_and_wait = put
    for key, value in late:
        topic.records[key] = value  # in the topic, and not heard yet
    topic.store.put_target_state("a", STARTED)
    assert not topic.store.in_doubt
    found = replayed(topic)["a"]
    assert (found.target_state, found.tasks) == (STARTED, 1)


def test_the_same_configuration_again_is_a_new_revision() -> None:
    topic = configs()
    revisions = []
    for _ in range(2):
        topic.store.put_connector("a", {"x": "1"})
        revisions.append(topic.store.connectors["a"].revision)
    topic.store.put_target_state("a", PAUSED)
    assert revisions[0] < revisions[1] == topic.store.connectors["a"].revision


def test_whether_former_tasks_are_fenced_is_said_by_the_order_of_records() -> None:
    """As in Kafka Connect: a ``tasks-fencing`` record counts until a configuration comes after it."""
    topic = configs()
    topic.store.put_connector("a", {"x": "1"})
    assert topic.store.connectors["a"].fencing == FencingState(None, done=False)
    topic.store.put_fenced("a", 3)
    assert json.loads(topic.records[b"tasks-fencing-a"]) == {"task-count": 3}
    assert topic.store.connectors["a"].fencing == replayed(topic)["a"].fencing == FencingState(3, done=True)
    topic.store.put_target_state("a", STOPPED)
    topic.store.put_target_state("a", STARTED)
    assert topic.store.connectors["a"].fencing.done, "it has the same tasks again"
    topic.store.delete_connector("a")
    topic.store.put_connector("a", {"x": "1"})
    assert topic.store.connectors["a"].fencing == FencingState(3, done=False)


def test_records_of_other_kinds_are_left_alone() -> None:
    store = ConfigStore(None, "t")
    for key, value in [
        (b"session-key", b'{"key":"x"}'),
        (b"connector-a", b'{"properties":{"x":"1","y":null}}'),
        (b"task-a-0", b'{"properties":{"x":"1"}}'),
        (b"commit-a", b'{"tasks":1}'),
        (b"tasks-fencing-a", b'{"tasks":1}'),
        (b"restart-connector-a", b'{"include-tasks":true,"only-failed":false}'),
        (b"logger-cluster-x", b'{"level":"INFO"}'),
        (b"connector-b", b"no json"),
        (b"connector-c", b'["properties"]'),
        (b"target-state-a", b'{"state":"ELSEWHERE"}'),
        (b"\xff", b"{}"),
    ]:
        store.apply(key, value)
    assert store.connectors.keys() == {"a"}
    assert store.connectors["a"].config == {"x": "1", "y": ""}
    assert (store.connectors["a"].target_state, store.connectors["a"].tasks) == (STARTED, 1)


def test_statuses_are_read_as_they_are_written() -> None:
    topic = Topic(lambda topic: StatusStore(topic, "t", "host:1", lambda error: None))
    topic.store.put_task("a", 0, "FAILED", "why", 7, "1.0")
    assert topic.store.task("a", 0) == Status("FAILED", "host:1", "why", 7)
    assert topic.store.connector("a") is None
    topic.store.put_task("a", 11, "RUNNING", None, 7, "1.0")
    topic.store.put_task("a-1", 0, "RUNNING", None, 7, "1.0")
    topic.store.delete("a")
    assert topic.store.task("a", 0) is topic.store.task("a", 11) is None
    assert topic.store.task("a-1", 0) is not None, "another connector's"
    topic.store.apply(b"status-task-a-0", b"[]")
    assert topic.store.task("a", 0) is None
