"""The offsets of a real consumer group, while members of it are just leaving."""

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from tidings_connect.errors import BrokerError
from tidings_connect.kafka import group_offsets
from tidings_connect.kafka.group_offsets import GroupOffsets


@contextlib.contextmanager
def member(bootstrap: str, group: str, topic: str, *, leaves_after: float) -> Iterator[None]:
    """A member of a group, which has begun to read, and which leaves after so many seconds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([topic])
    deadline = time.monotonic() + 60
    while not consumer.assignment():
        assert time.monotonic() < deadline, "the group has given no partition in 60 seconds"
        consumer.poll(0.1)
    leaves = threading.Timer(leaves_after, consumer.close)
    leaves.start()
    try:
        yield
    finally:
        leaves.join()


def test_members_that_are_leaving_are_waited_for(
    kafka_bootstrap: str, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped sink's consumer has gone before the brokers know it."""
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for made in admin.create_topics([NewTopic(unique_name, 2, 1)]).values():
        made.result(60)
    group = GroupOffsets({"bootstrap.servers": kafka_bootstrap}, unique_name)
    first, second = ({"kafka_topic": unique_name, "kafka_partition": number} for number in range(2))
    with member(kafka_bootstrap, unique_name, unique_name, leaves_after=1):
        group.alter([(first, {"kafka_offset": 3}), (second, {"kafka_offset": 4})])
    with member(kafka_bootstrap, unique_name, unique_name, leaves_after=1):
        group.alter([(first, {"kafka_offset": 5}), (second, None)])  # which deletes the group
    assert group.read() == [(first, {"kafka_offset": 5})]
    with member(kafka_bootstrap, unique_name, unique_name, leaves_after=1):
        group.reset()
    assert group.read() == []
    monkeypatch.setattr(group_offsets, "_LEAVING_SECONDS", 0.5)
    with member(kafka_bootstrap, unique_name, unique_name, leaves_after=3):
        for offsets in (None, 6):
            with pytest.raises(BrokerError, match=f"{unique_name}.*(NON_EMPTY_GROUP|UNKNOWN_MEMBER_ID)"):
                group.reset() if offsets is None else group.alter([(first, {"kafka_offset": offsets})])
