"""What the tests of MariaDB's connector on a worker in memory share."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from mariadb_parts import Database

from tidings_capture.mysql.connector import MariaDbConnector, MySqlConnector
from tidings_connect.converters.encoding import JsonConverter
from tidings_connect.data.records import Record
from tidings_connect.testing.contract import Case
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.transforms.record import SourceRecord
from tidings_envelope.json_codec import JsonCodec

Config = dict[str, str]


CONNECTORS = {made.class_name: made for made in (MariaDbConnector, MySqlConnector)}


@contextmanager
def running(config: Config) -> Iterator[MemoryWorker]:
    """The connector of the configuration's class, on a worker in memory."""
    with MemoryWorker(CONNECTORS[config["connector.class"]](), "c") as worker:
        worker.put(config)
        yield worker


def contract_case(database: Database, config: Config) -> Case:
    """A case of the contract of source connectors, on a table of its own."""
    database.run("CREATE TABLE things (number INT PRIMARY KEY AUTO_INCREMENT)")

    def produce(count: int) -> None:
        for _ in range(count):
            database.run("INSERT INTO things VALUES (NULL)")

    def numbers(worker: MemoryWorker) -> list[int]:
        values: list[dict[str, Any]] = worker.values(topic(database, "things"))
        return [value["after"]["number"] for value in values]

    return Case(
        CONNECTORS[config["connector.class"]](),
        config,
        produce,
        numbers,
        changed={"max.batch.size": "1"},
        wrong=("heartbeat.interval.ms", "often"),
    )


def topic(database: Database, table: str) -> str:
    return f"p.{database.name}.{table}"


def records(worker: MemoryWorker, name: str) -> list[tuple[Any, Any, dict[str, bytes]]]:
    return [
        (key and json.loads(key), value and json.loads(value), dict(headers or ()))
        for key, value, headers in list(worker.kafka.topics.get(name, []))
    ]


def changes(worker: MemoryWorker, name: str) -> list[tuple[str | None, Any, Any]]:
    return [
        (v["op"], v["before"], v["after"]) if v else (None, None, None) for _k, v, _h in records(worker, name)
    ]


def failure(worker: MemoryWorker, code: str) -> BaseException:
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert worker.error is not None
    assert getattr(worker.error, "code", None) == code, worker.error
    return worker.error


class Collected:
    """What a stream writes to: each record's topic, key and value without the connector's clock.

    Args:
        direct: whether the stream may encode rows itself.
    """

    def __init__(self, *, direct: bool) -> None:
        self.records: list[Any] = []
        self.headers: list[dict[str, Any]] = []
        """Of each record."""
        converter = JsonConverter(JsonCodec(), schemas_enable=False)
        self.direct = (converter, converter) if direct else None

    def write(self, record: SourceRecord, *, trusted: bool = False) -> None:
        self.records.append((record.topic, record.key, told(record.value)))
        self.headers.append({header.key: header.value for header in record.headers})

    def write_encoded(self, topic: str, records: Sequence[Record]) -> None:
        assert self.direct
        self.records += [
            (topic, json.loads(k or b"null"), told(json.loads(v or b"null"))) for k, v, _ in records
        ]
        self.headers += [dict(headers or ()) for _, _, headers in records]


def told(value: Any) -> Any:
    """A value without the connector's clock."""
    return value and {n: v for n, v in value.items() if not n.startswith("ts_")}
