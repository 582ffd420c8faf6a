"""What capture reads from a real broker."""

import threading

import pytest

from tidings_capture.errors import BrokerError
from tidings_capture.kafka import AcknowledgedProducer, TopicAdmin, read_compacted


def test_a_topic_that_is_just_being_created_is_waited_for(kafka_bootstrap: str, unique_name: str) -> None:
    settings = {"bootstrap.servers": kafka_bootstrap}

    def create() -> None:
        TopicAdmin(settings).ensure_topic(unique_name, partitions=2, replication_factor=1, config={})
        AcknowledgedProducer(settings).put_and_wait(unique_name, b"key", b"value")

    timer = threading.Timer(1.0, create)
    timer.start()
    found = read_compacted(settings, unique_name)
    timer.join()
    assert found in ({}, {b"key": b"value"})
    assert read_compacted(settings, unique_name) == {b"key": b"value"}


def test_a_topic_that_never_comes_is_named(kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings_capture.kafka._REQUEST_SECONDS", 0.5)
    with pytest.raises(BrokerError, match="no-such-topic"):
        read_compacted({"bootstrap.servers": kafka_bootstrap}, "no-such-topic")
