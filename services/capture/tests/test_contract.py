"""PostgreSQL's connector keeps the contract of every source connector, on a worker in memory."""

from typing import Any

import psycopg
import pytest

from tidings_capture.postgres.connector import PostgresConnector
from tidings_connect.testing.contract import Case, SourceContract
from tidings_connect.testing.memory_worker import MemoryWorker


class TestPostgres(SourceContract):
    @pytest.fixture
    def case(self, connector_config: dict[str, str], pg_database: str, unique_name: str) -> Case:
        with psycopg.connect(pg_database, autocommit=True) as connection:
            connection.execute("CREATE TABLE things (number serial PRIMARY KEY)")

        def produce(count: int) -> None:
            with psycopg.connect(pg_database, autocommit=True) as connection:
                for _ in range(count):
                    connection.execute("INSERT INTO things DEFAULT VALUES")

        def numbers(worker: MemoryWorker) -> list[int]:
            values: list[dict[str, Any]] = worker.values(f"{unique_name}.public.things")
            return [value["after"]["number"] for value in values]

        return Case(
            PostgresConnector(),
            connector_config,
            produce,
            numbers,
            changed={"heartbeat.interval.ms": "1000"},
            wrong=("heartbeat.interval.ms", "often"),
        )
