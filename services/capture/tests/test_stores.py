"""Kafka Connect's config topic, as Kafka Connect 4.3 and we write it."""

import json

from tidings_capture.stores import PAUSED, STARTED, STOPPED, ConfigStore, parse_config_records


class Recorder:
    def __init__(self):
        self.records = {}

    def put_and_wait(self, topic, key, value):
        assert topic == "configs"
        if value is None:
            self.records.pop(key, None)
        else:
            self.records[key] = value


def test_what_is_written_is_read_back():
    recorder = Recorder()
    store = ConfigStore(recorder, "configs")
    store.put_connector("a", {"x": "1"})
    store.put_connector("b", {"x": "2"}, STOPPED)
    store.put_target_state("a", PAUSED)
    found = parse_config_records(recorder.records)
    assert found == store.connectors
    assert (found["a"].target_state, found["b"].target_state) == (PAUSED, STOPPED)
    store.delete_connector("b")
    assert parse_config_records(recorder.records).keys() == {"a"}


def test_stopped_is_paused_for_older_workers():
    recorder = Recorder()
    ConfigStore(recorder, "configs").put_target_state("a", STOPPED)
    assert json.loads(recorder.records[b"target-state-a"]) == {"state": "PAUSED", "state.v2": "STOPPED"}


def test_records_of_other_kinds_are_left_alone():
    found = parse_config_records(
        {
            b"session-key": b'{"key":"x"}',
            b"connector-a": b'{"properties":{"x":"1","y":null}}',
            b"task-a-0": b'{"properties":{"x":"1"}}',
            b"commit-a": b'{"tasks":1}',
            b"tasks-fencing-a": b'{"tasks":1}',
        }
    )
    assert found["a"].config == {"x": "1", "y": ""}
    assert (found["a"].target_state, found["a"].tasks) == (STARTED, 1)
