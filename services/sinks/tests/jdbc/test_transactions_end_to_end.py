"""A database, real capture, Kafka, and a worker that is killed: readers of PostgreSQL and MariaDB see whole transactions alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from end_to_end import GROUP, capture_config, put_connectors, random_seed, stop_connectors
from sink_targets import ask_mariadb, connection_options, mariadb_options
from transfers import SOURCE, TARGET, Ask, Auditor, MySqlSession, Session, Transfers, rows

from tidings_stack.capture import CaptureWorkers, task_pids
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.mysql import MySqlServer
from tidings_stack.waiting import wait_for


@dataclass(frozen=True)
class Source:
    """A database whose transactions are told.

    Attributes:
        config: of its connector.
        tables: the part of its topics' names between the prefix and the table.
        open_session: opens a session that writes to it.
        ask: runs a statement.
    """

    config: dict[str, Any]
    tables: str
    open_session: Callable[[], AbstractContextManager[Session]]
    ask: Ask


@pytest.fixture(params=["postgresql", "mysql"])
def source(request: pytest.FixtureRequest, unique_name: str) -> Iterator[Source]:
    if request.param == "postgresql":
        url = request.getfixturevalue("pg_database")
        with psycopg.connect(url, autocommit=True) as connection:
            yield Source(
                capture_config(url, unique_name),
                "public",
                lambda: psycopg.connect(url, autocommit=True),
                lambda statement: ask_pg(connection, statement),
            )
    else:
        server = request.getfixturevalue("mysql")
        with mysql_database(server, unique_name) as found:
            yield found


@contextmanager
def mysql_database(server: MySqlServer, name: str) -> Iterator[Source]:
    """A database of a MySQL, which is dropped afterwards."""
    config = {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "tasks.max": "1",
        "topic.prefix": name,
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.password": server.password,
        "database.include.list": name,
        "include.schema.changes": "false",
    }

    def connect(database: str | None) -> pymysql.Connection[Any]:
        return pymysql.connect(
            host="127.0.0.1",
            port=server.port,
            user="admin",
            password=server.password,
            database=database,
            autocommit=True,
        )

    @contextmanager
    def session() -> Iterator[Session]:
        with closing(connect(name)) as connection:
            yield MySqlSession(connection)

    with ExitStack() as stack:
        asking = stack.enter_context(closing(connect(None)))

        def ask(statement: str) -> list[tuple[Any, ...]]:
            with asking.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())

        ask(f"CREATE DATABASE {name}")
        stack.callback(ask, f"DROP DATABASE {name}")
        ask(f"USE {name}")
        yield Source(config, name, session, ask)


def ask_pg(connection: psycopg.Connection[Any], statement: str) -> list[tuple[Any, ...]]:
    cursor = connection.execute(statement.encode())
    return cursor.fetchall() if cursor.description else []


@pytest.mark.timeout(400)
def test_readers_see_whole_transactions_while_workers_and_tasks_are_killed(
    request: pytest.FixtureRequest,
    source: Source,
    copy: str,
    mariadb: MariaDbServer,
    mariadb_database: str,
    kafka_bootstrap: str,
    unique_name: str,
    tmp_path: Path,
) -> None:
    seed = random_seed()
    for statement in SOURCE:
        source.ask(statement)
    readers = []
    for _ in range(2):
        readers.append(psycopg.connect(copy, autocommit=True))
        request.addfinalizer(readers[-1].close)

    def in_maria(statement: str) -> list[tuple[Any, ...]]:
        return ask_mariadb(mariadb, mariadb_database, statement)

    for statement in TARGET:
        ask_pg(readers[0], statement)
        in_maria(statement)
    topics = {
        "provide.transaction.metadata": "true",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.groups": "transactions",
        "topic.creation.transactions.include": ".*[.]transaction",
        "topic.creation.transactions.partitions": "1",
        "topic.creation.transactions.replication.factor": "1",
    }
    sink = {
        "connector.class": "JdbcSink",
        "topics.regex": f"{unique_name}[.]({source.tables}[.].*|transaction)",
        "tidings.transactions": "source",
        "tidings.transactions.topic": f"{unique_name}.transaction",
        "tidings.transactions.buffer.bytes": "400000",
        "collection.name.format": "${source.table}",
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "consumer.override.max.poll.records": "100",
    }
    connectors = {
        unique_name: source.config | topics,
        f"{unique_name}-pg": sink | connection_options(copy),
        f"{unique_name}-maria": sink | mariadb_options(mariadb, mariadb_database),
    }
    auditors = [Auditor(lambda statement: ask_pg(readers[1], statement)), Auditor(in_maria)]
    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers, auditors[0], auditors[1]:
        properties = workers.properties(unique_name, GROUP)
        worker = workers.start(properties)
        put_connectors(worker, connectors)
        for auditor in auditors:  # foreign keys hold between transactions, not between rows of a snapshot
            wait_for("the snapshot", lambda: auditor.looks or auditor.failed)  # noqa: B023 - called at once
        with Transfers(source.open_session, seed) as transfers:

            def more_looks(count: int) -> None:
                """Wait until both copies were looked at again, and have changed."""
                before, orders = [each.looks for each in auditors], in_maria("SELECT max(id) FROM orders")
                wait_for(
                    "the copies to go on",
                    lambda: all(each.looks >= was + count or each.broken or each.failed for each, was in zip(auditors, before, strict=True))
                    and in_maria("SELECT max(id) FROM orders") != orders,
                    120,
                )  # fmt: skip

            more_looks(20)
            for pid in task_pids(worker.process.pid):
                os.kill(pid, signal.SIGKILL)
            more_looks(20)
            worker.kill()
            worker = workers.start(properties)
            more_looks(20)
        assert transfers.failed is None
        truth = rows(source.ask)
        try:
            wait_for(
                "the copies to be the source",
                lambda: rows(lambda s: ask_pg(readers[0], s)) == truth == rows(in_maria),
                120,
            )
        except AssertionError:
            for name in connectors:
                print(worker.request("GET", f"/connectors/{name}/status"))
            raise
        print(transfers.transactions, "transactions,", [each.looks for each in auditors], "looks")
        assert [(each.broken, each.failed) for each in auditors] == [(None, None)] * 2
        stop_connectors(worker, connectors)
