"""Headers whose names are not UTF-8, on a real broker: each is read, and no error is left to a later call."""

import os

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from odd_headers import Name, write_record

from tidings_envelope.headers.reading import UNREADABLE, read_headers

ODD = [
    (Name(b"plain"), b"1"),
    (Name(b"\xff\xfe"), b"odd"),
    (Name(b"none"), None),
    (Name(b"half\xff"), None),
    (Name(b"plain"), b"2"),
]
READ = [("plain", b"1"), (UNREADABLE, b"odd"), ("none", None), (UNREADABLE, None), ("plain", b"2")]


@pytest.mark.stack
def test_every_header_is_read_whatever_its_name(kafka_bootstrap: str, unique_name: str) -> None:
    count = 40  # CPython specialises a call after a few
    for number in range(count):
        write_record(kafka_bootstrap, unique_name, b"k", b"%d" % number, ODD if number % 3 else [("a", b"b")])
    consumer = Consumer({"bootstrap.servers": kafka_bootstrap, "group.id": unique_name})
    messages: list[Message] = []
    try:
        consumer.assign([TopicPartition(unique_name, 0, 0)])
        while len(messages) < count:
            found = consumer.consume(count - len(messages), 30)
            assert found
            messages += found
    finally:
        consumer.close()
    for number, message in enumerate(messages):
        assert list(read_headers(message)) == (READ if number % 3 else [("a", b"b")])
        assert os.fspath("no error is left") == "no error is left"
        assert message.headers() == (READ if number % 3 else [("a", b"b")]), "a second time"
