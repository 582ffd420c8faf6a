"""MySQL's connector keeps the contract of every source connector, on a worker in memory."""

from collections.abc import Iterator
from typing import Any

import pytest
from mysql_parts import MySqlDatabase

from tidings_capture.mysql.connector import MySqlConnector
from tidings_connect.testing.contract import Case, SourceContract
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.mysql import MySqlServer


class TestMySql(SourceContract):
    @pytest.fixture
    def case(self, mysql: MySqlServer, unique_name: str) -> Iterator[Case]:
        database = MySqlDatabase(mysql, unique_name)
        database.run("CREATE TABLE things (number INT PRIMARY KEY AUTO_INCREMENT)")

        def produce(count: int) -> None:
            for _ in range(count):
                database.run("INSERT INTO things VALUES (NULL)")

        def numbers(worker: MemoryWorker) -> list[int]:
            values: list[dict[str, Any]] = worker.values(f"{unique_name}.{unique_name}.things")
            return [value["after"]["number"] for value in values]

        yield Case(
            MySqlConnector(),
            {
                "database.hostname": "127.0.0.1",
                "database.port": str(mysql.port),
                "database.user": "admin",
                "database.password": mysql.password,
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
