"""The HTTP sink keeps the contract of sinks, with a record a request and with several."""

import pytest
from webhook_parts import Receiver

from tidings_connect.testing.sink_contract import SinkCase, SinkContract
from tidings_sinks.http.connector import HttpSink


class TestRequests(SinkContract):
    more = {"tidings.http.max.in.flight": "3"}  # noqa: RUF012 - pytest's class is made once a test

    @pytest.fixture
    def case(self, receiver: Receiver) -> SinkCase:
        return SinkCase(
            connector=HttpSink(),
            config={"http.url": receiver.url, "http.authorization.type": "none", **self.more},
            numbers=receiver.numbers,
            changed={"http.timeout": "20"},
            wrong=("http.authorization.type", "basic"),
        )


class TestBatches(TestRequests):
    more = {"batching.enabled": "true", "batch.max.size": "3"}  # noqa: RUF012
