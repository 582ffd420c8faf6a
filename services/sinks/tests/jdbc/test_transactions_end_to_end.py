"""PostgreSQL, real capture, Kafka, and a worker that is killed: readers of PostgreSQL and MariaDB see whole transactions alone."""

import os
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from end_to_end import GROUP, capture_config, put_connectors, random_seed, stop_connectors
from sink_targets import ask_mariadb, connection_options, mariadb_options
from transfers import SOURCE, TARGET, Auditor, Transfers, rows

from tidings_stack.capture import CaptureWorkers, task_pids
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.waiting import wait_for


@pytest.mark.timeout(400)
def test_readers_see_whole_transactions_while_workers_and_tasks_are_killed(
    request: pytest.FixtureRequest,
    pg_database: str,
    copy: str,
    mariadb: MariaDbServer,
    mariadb_database: str,
    kafka_bootstrap: str,
    unique_name: str,
    tmp_path: Path,
) -> None:
    seed = random_seed()
    with psycopg.connect(pg_database, autocommit=True) as connection:
        for statement in SOURCE:
            connection.execute(statement.encode())
    readers = []
    for url in (copy, copy, pg_database):
        readers.append(psycopg.connect(url, autocommit=True))
        request.addfinalizer(readers[-1].close)

    def ask_pg(connection: psycopg.Connection[Any], statement: str) -> list[tuple[Any, ...]]:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def in_maria(statement: str) -> list[tuple[Any, ...]]:
        return ask_mariadb(mariadb, mariadb_database, statement)

    for statement in TARGET:
        ask_pg(readers[0], statement)
        in_maria(statement)
    source = capture_config(
        pg_database,
        unique_name,
        **{
            "provide.transaction.metadata": "true",
            "topic.creation.default.partitions": "3",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.groups": "transactions",
            "topic.creation.transactions.include": ".*[.]transaction",
            "topic.creation.transactions.partitions": "1",
            "topic.creation.transactions.replication.factor": "1",
        },
    )
    sink = {
        "connector.class": "JdbcSink",
        "topics.regex": f"{unique_name}[.](public[.].*|transaction)",
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
        unique_name: source,
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
        with Transfers(pg_database, seed) as transfers:

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
        truth = rows(lambda statement: ask_pg(readers[2], statement))
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
