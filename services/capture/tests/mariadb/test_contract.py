"""MariaDB's connector keeps the contract of every source connector, on a worker in memory."""

from collections.abc import Iterator
from typing import Any

import pytest
from mariadb_parts import Database

from tidings_capture.mysql.connector import MariaDbConnector
from tidings_connect.testing.contract import Case, SourceContract
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.mariadb import MariaDbServer


class TestMariaDb(SourceContract):
    @pytest.fixture
    def case(self, mariadb: MariaDbServer, unique_name: str) -> Iterator[Case]:
        database = Database(mariadb, unique_name)
        database.run("CREATE TABLE things (number INT PRIMARY KEY AUTO_INCREMENT)")

        def produce(count: int) -> None:
            for _ in range(count):
                database.run("INSERT INTO things VALUES (NULL)")

        def numbers(worker: MemoryWorker) -> list[int]:
            values: list[dict[str, Any]] = worker.values(f"{unique_name}.{unique_name}.things")
            return [value["after"]["number"] for value in values]

        yield Case(
            MariaDbConnector(),
            {
                "database.hostname": "127.0.0.1",
                "database.port": str(mariadb.port),
                "database.user": "admin",
                "database.password": mariadb.password,
                "database.include.list": unique_name,
                "topic.prefix": unique_name,
                "schema.history.internal.store.only.captured.databases.ddl": "true",
            },
            produce,
            numbers,
            changed={"max.batch.size": "1"},
            wrong=("heartbeat.interval.ms", "often"),
        )
        database.close()
