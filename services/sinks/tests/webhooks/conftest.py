"""A receiver, and a sink on a worker in memory that sends to it."""

from collections.abc import Iterator

import pytest
from webhook_parts import Receiver, Webhooks

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_sinks.http.connector import HttpSink


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def webhooks(receiver: Receiver) -> Iterator[Webhooks]:
    with MemoryWorker(HttpSink(), "sink") as worker:
        yield Webhooks(worker, receiver)
