"""What the tests of the MongoDB sink share: a sink on a worker in memory, and what its database holds."""

from typing import Any, Self

import pytest
from bson import CodecOptions
from bson.codec_options import DatetimeConversion
from pymongo import MongoClient
from pymongo.database import Database
from sink_targets import Sink

from tidings_connect.testing.memory_worker import MemoryWorker

SINK = "com.mongodb.kafka.connect.sink."
POSITIONS = "tidings_sink_positions"
CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_MS
)


def id_strategy(name: str) -> str:
    """The class of an id strategy."""
    return f"{SINK}processor.id.strategy.{name}Strategy"


def write_strategy(name: str) -> str:
    """The class of a write model strategy."""
    return f"{SINK}writemodel.strategy.{name}Strategy"


POSTGRES = f"{SINK}cdc.debezium.rdbms.postgres.PostgresHandler"
BY_KEY = {"document.id.strategy": id_strategy("FullKey"), "delete.on.null.values": "true"}
TOLERANT = {
    "errors.tolerance": "all",
    "errors.log.enable": "true",
    "errors.deadletterqueue.topic.name": "letters",
}
LETTERS = TOLERANT | {"errors.deadletterqueue.context.headers.enable": "true"}
ONE_BY_ONE = {"consumer.override.max.poll.records": "1"}
PARTIAL = {
    "document.id.strategy.partial.{side}.projection.type": "AllowList",
    "document.id.strategy.partial.{side}.projection.list": "id",
}
UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
both_servers = pytest.mark.parametrize("documents", ["mongo", "ferretdb"], indirect=True)
"""Runs a test on FerretDB, too: its answers to requests that fail in part are unlike others. It has no indexes that let documents
expire, takes documents of any size, and does not name the index of a duplicate."""


class Documents(Sink):
    """A running sink, its topic, and its database: both have the name that is given."""

    def __init__(self, worker: MemoryWorker, url: str, name: str) -> None:
        retries = {"errors.retry.delay.initial.ms": "20", "errors.retry.delay.max.ms": "100"}
        super().__init__(worker, {"connection.uri": url, "database": name, **retries})
        self.topic = name
        self.client: MongoClient[dict[str, Any]] = MongoClient(url, document_class=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.drop_database(self.topic)
        self.client.close()

    @property
    def database(self) -> Database[dict[str, Any]]:
        """The sink's database."""
        return self.client.get_database(self.topic, codec_options=CODEC)

    def run(self, **more: str) -> None:
        """Start it on its topic; underscores of names are dots."""
        self.start(self.topic, **more)

    def put(self, key: Any, value: Any, *, partition: int = 0, headers: Any = ()) -> None:
        """A record of its topic, as JSON."""
        self.send(self.topic, key, value, partition=partition, headers=headers)

    def raw(self, collection: str = "") -> list[dict[str, Any]]:
        """All documents with their positions, by ``_id``'s text."""
        found = list(self.database[collection or self.topic].find())
        return sorted(found, key=lambda document: str(document["_id"]))

    def found(self, collection: str = "") -> list[dict[str, Any]]:
        """All documents without their positions."""
        return [{k: v for k, v in each.items() if k != "_tidings"} for each in self.raw(collection)]

    def letters(self) -> list[bytes | None]:
        """The values of the dead letters."""
        return [value for _, value, _ in self.worker.kafka.topics.get("letters", [])]

    def reasons(self) -> list[str]:
        """What the dead letters say was wrong."""
        name = "__connect.errors.exception.message"
        return [
            dict(headers or [])[name].decode()
            for _, _, headers in self.worker.kafka.topics.get("letters", [])
        ]

    def failure(self) -> BaseException:
        """Wait for the task's failure."""
        try:
            self.worker.wait_for(lambda: False, "a failure")
        except AssertionError:
            if self.worker.error is None:
                raise
        assert self.worker.error is not None
        return self.worker.error

    def replay(self) -> None:
        """Have everything come again."""
        self.worker.stop()
        self.worker.reset_offsets()
        self.worker.resume()
        self.wait()
