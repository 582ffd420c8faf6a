"""With many tables a task asks servers about all of them at once: what is asked is counted, never timed."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from tidings_capture.postgres.build import build_task
from tidings_capture.postgres.client import Session
from tidings_capture.postgres.server import catalog
from tidings_capture.postgres.settings.config import read_connector_config
from tidings_capture.postgres.wire.messages import Relation, RelationColumn
from tidings_connect.task.channel import Command, Report, TaskJob
from tidings_connect.task.kafka_transport import KafkaTransport
from tidings_connect.task.transport import TaskContext
from tidings_stack.connect import connector_settings
from tidings_stack.postgres import create_database, drop_database

TABLES = 60
JSON = "org.apache.kafka.connect.json.JsonConverter"
TABLE = """
CREATE TABLE t{number} (id serial PRIMARY KEY, name text, amount numeric(10,2) DEFAULT 1.5, moods mood[] NOT NULL);
INSERT INTO t{number} (moods) VALUES ('{{sad}}')
"""


class Supervision:
    """Stops the run once it streams and has made so many records."""

    def __init__(self, records: int) -> None:
        self._wanted = records
        self._deadline = time.monotonic() + 90
        self.descriptor, self._other = os.pipe()
        self.last: Report | None = None

    def stop_requested(self) -> bool:
        return time.monotonic() > self._deadline or (
            self.last is not None
            and self.last.state == "streaming"
            and sum(self.last.records.values()) >= self._wanted
        )

    def report(self, report: Report) -> None:
        self.last = report

    def commands(self) -> list[Command]:
        return []

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._other)


@pytest.fixture
def database(pg_url: str, unique_name: str) -> Iterator[str]:
    url = create_database(pg_url, unique_name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
        for number in range(TABLES):
            connection.execute(TABLE.format(number=number))  # type: ignore[arg-type]  # ours
    yield url
    drop_database(pg_url, unique_name)


def test_what_was_read_ahead_is_for_transactions_that_had_ended(database: str, unique_name: str) -> None:
    own = {"topic.prefix": unique_name}
    config = read_connector_config(unique_name, connector_settings(database, **own), {}, "run")
    session = Session(config.endpoint)
    try:
        found = catalog.Catalog(session, config.columns)
        tables = {number: found.table_by_name("public", f"t{number}", "none") for number in range(3)}

        def relation(number: int) -> Relation:
            columns = tuple(
                RelationColumn(c.name, c.type_oid, c.typmod, c.key_position is not None)
                for c in tables[number].columns
            )
            return Relation(tables[number].oid, "public", f"t{number}", "d", columns)

        def altered(number: int) -> int:
            with psycopg.connect(database) as connection:
                connection.execute(f"ALTER TABLE t{number} ALTER COLUMN amount SET NOT NULL")  # type: ignore[arg-type]  # ours
                row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
            assert row is not None
            return int(row[0])

        def is_known_as_not_null(number: int, tx_id: int) -> bool:
            table = found.table_of_relation(relation(number), tx_id)
            return next(column.not_null for column in table.columns if column.name == "amount")

        before = altered(0)
        found.read_ahead([("public", "t0"), ("public", "t1"), ("public", "gone")], before)
        assert found.is_ahead(tables[0].oid, before)
        assert not found.is_ahead(tables[2].oid, before)
        assert is_known_as_not_null(0, before)
        assert not found.is_ahead(tables[0].oid, before), "a second relation tells of another change"
        assert not is_known_as_not_null(2, before)
        after = altered(1)
        assert not found.is_ahead(tables[1].oid, after)
        assert is_known_as_not_null(1, after)
    finally:
        session.close()


def test_servers_are_asked_about_all_tables_at_once(
    database: str,
    kafka_bootstrap: str,
    unique_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read_topic: Callable[[str], list[Any]],
) -> None:
    asked: Counter[str] = Counter()
    rows, create_topics = Session.rows, AdminClient.create_topics

    def counted_rows(self: Any, query: Any, *parameters: Any) -> Any:
        asked[query] += 1
        return rows(self, query, *parameters)

    def counted_topics(self: Any, topics: Any, **options: Any) -> Any:
        asked["create topics"] += 1
        asked["topics"] += len(topics)
        return create_topics(self, topics, **options)

    monkeypatch.setattr(Session, "rows", counted_rows)
    monkeypatch.setattr(AdminClient, "create_topics", counted_topics)

    own = {"topic.prefix": unique_name, "slot.name": unique_name, "publication.name": unique_name}
    own |= {"publication.autocreate.mode": "filtered", "topic.creation.default.partitions": "2"}
    own |= {"key.converter": JSON, "value.converter": JSON}
    settings = connector_settings(database, **own)
    client = {"bootstrap.servers": kafka_bootstrap}
    job = TaskJob(
        unique_name, 0, settings, {}, client, {}, {}, {}, "offsets", 100,
        topic_creation=True, offset_file=str(tmp_path / "offsets"),
    )  # fmt: skip

    def run(records: int) -> None:
        asked.clear()
        supervision = Supervision(records)
        context = TaskContext(job, supervision, KafkaTransport(job))
        build_task(context, read_connector_config(unique_name, settings, {}, "run")).run()
        assert supervision.last is not None
        assert sum(supervision.last.records.values()) == records
        supervision.close()

    run(TABLES)  # the snapshot
    assert asked["topics"] == TABLES
    assert asked["create topics"] == 2, "fifty at once"
    assert asked[catalog._COLUMNS] == asked[catalog._RELATIONS] == 1
    assert sum(asked.values()) - asked["topics"] < 60
    found = AdminClient(client).list_topics(timeout=10).topics
    assert {len(found[f"{unique_name}.public.t{number}"].partitions) for number in range(TABLES)} == {2}

    with psycopg.connect(database, autocommit=True) as connection:
        for number in range(TABLES):
            connection.execute(f"INSERT INTO t{number} (moods) VALUES ('{{glad}}')")  # type: ignore[arg-type]  # ours
        # Tables that have changed twice, before and after something was read of them at once.
        for number in (1, TABLES - 1):
            connection.execute(f"ALTER TABLE t{number} ADD COLUMN note text NOT NULL DEFAULT 'late'")  # type: ignore[arg-type]  # ours
            connection.execute(f"INSERT INTO t{number} (moods) VALUES ('{{sad}}')")  # type: ignore[arg-type]  # ours
    run(TABLES + 2)  # a restart: the first change of every table, each in a transaction of its own
    assert asked["create topics"] == 0
    assert asked[catalog._COLUMNS] < 15, "where the stream is behind, Relation messages are looked up at once"
    for number in (1, TABLES - 1):
        rows = [record.value["payload"]["after"] for record in read_topic(f"{unique_name}.public.t{number}")]
        assert [row.get("note") for row in sorted(rows, key=lambda row: row["id"])] == [None, None, "late"]
    assert asked[catalog._VISIBLE] <= 5, "transactions that had ended before the first look need none"
