"""What a real capture tells of a real MySQL is in the lake as the database has it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
from lakelab.captured import Captured, Past, captured
from lakelab.capturing import JSON, Auditor

from tidings_envelope.commit_number import commit_position
from tidings_stack.mysql import MySqlServer
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

    from tidings_lakehouse.settings import WarehouseSettings

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(900)]


class Store:
    """A database with a table that changes much."""

    def __init__(self, server: MySqlServer, name: str) -> None:
        self.name, self._chance = name, random.Random(name)
        self.past = Past("id, n, text")
        self._connection = pymysql.connect(
            host="127.0.0.1", port=server.port, user="admin", password=server.password, autocommit=True
        )

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def create(self) -> None:
        self.sql(f"CREATE DATABASE {self.name}")
        self.sql(
            f"CREATE TABLE {self.name}.few (id INT PRIMARY KEY, n BIGINT UNSIGNED NOT NULL, text VARCHAR(9))"
        )
        self.sql(f"USE {self.name}")
        # By chance it may have no other when its snapshot is taken, and the lake then has no such table.
        self.sql("INSERT INTO few VALUES (998, 0, NULL)")

    def transactions(self, count: int) -> None:
        """Inserts, several updates of a row, deletes, changes of keys, rollbacks."""
        for _ in range(count):
            self.note()
            self.sql("START TRANSACTION")
            for _ in range(self._chance.choice((1, 2, 5))):
                key = self._chance.randrange(30)
                match self._chance.choice(("put", "put", "count", "count", "delete", "move")):
                    case "put":
                        self.sql("INSERT IGNORE INTO few VALUES (%s, 0, 'né')", key)
                    case "count":
                        self.sql("UPDATE few SET n = n + 1 WHERE id < %s", key)
                    case "delete":
                        self.sql("DELETE FROM few WHERE id = %s", key)
                    case _:
                        self.sql(
                            "UPDATE IGNORE few SET id = %s WHERE id = %s", self._chance.randrange(30), key
                        )
            self.sql("ROLLBACK" if self._chance.random() < 0.1 else "COMMIT")

    def note(self) -> None:
        """Remember what the table holds now."""
        self.past.note(self._now(), self.sql(f"SELECT {self.past.columns} FROM few"))

    def _now(self) -> int:
        """A position between the last commit and the next, as long as the clock does not go back."""
        ((micros,),) = self.sql("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
        return commit_position(micros)

    def end(self, key: int) -> int:
        """Insert a row; what its commit's position is greater than."""
        before = self._now()
        self.sql("INSERT INTO few VALUES (%s, 0, NULL)", key)
        return before


def settle(pipeline: Captured, store: Store, wanted: int) -> None:
    """The watermark passes a position, and then the table is the database's."""

    def has_passed() -> bool:
        pipeline.lake.drain()
        return (pipeline.watermark() or 0) > wanted

    wait_for("the watermark", has_passed, seconds=240)
    held = pipeline.lake.rows(f"SELECT id, n, text FROM technical.{store.name}_few ORDER BY id")
    assert held == store.sql("SELECT id, n, text FROM few ORDER BY id")


@pytest.mark.parametrize("converters", [pytest.param({}, id="avro"), pytest.param(JSON, id="json")])
def test_the_lake_is_what_the_database_is(
    converters: dict[str, str],
    lake: Lake,
    topics: Topics,
    mysql: MySqlServer,
    reader: WarehouseSettings,
    unique_name: str,
    tmp_path: Path,
) -> None:
    """And was, also when the connector starts anew, the job dies, a table is truncated or read again, and the server's clock goes back."""
    store, name = Store(mysql, unique_name), unique_name
    store.create()
    store.transactions(10)
    topics.create(f"{name}.transaction")
    own = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", **converters}
    with captured(mysql, name, lake, tmp_path, own) as worker:
        pipeline = Captured(name, lake, worker)
        settle(pipeline, store, 0)  # by the number that the worker stores: no END marker follows the snapshot
        store.past.forget()

        store.transactions(10)
        status, _ = worker.request("POST", f"/connectors/{name}/restart?includeTasks=true")
        assert status in (200, 202, 204)
        store.sql("TRUNCATE TABLE few")
        store.transactions(10)
        # A commit behind the last moment, whatever the last transaction did: those that follow are numbered behind it.
        store.sql("INSERT INTO few VALUES (1999, 0, NULL)")
        for _ in range(3):
            store.sql("START TRANSACTION")
            store.sql("UPDATE few SET n = n + 1")
            store.sql("SET SESSION original_commit_timestamp = 1000000")
            store.sql("COMMIT")
        read = pipeline.records(f"{name}.few")
        store.sql("INSERT INTO few VALUES (2000, 0, NULL)")
        wait_for("the stream", lambda: pipeline.records(f"{name}.few") > read)
        lake.drain_and_crash(f"log:technical.{name}_few_log")
        pipeline.read_again("few")
        settle(pipeline, store, store.end(2001))
    assert store.past.check(reader, name, f"technical.{name}_few") == 20
    assert lake.rows(f"SELECT count(*) FROM tidings.quarantine WHERE topic LIKE '{name}.%'") == [(0,)]


@pytest.mark.long
def test_audit_names_what_is_wrong_and_repair_mends_it(
    lake: Lake,
    topics: Topics,
    mysql: MySqlServer,
    unique_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside traffic on rows that are right."""
    store, name = Store(mysql, unique_name), unique_name
    store.create()
    store.sql("INSERT INTO few VALUES " + ", ".join(f"({key}, {key}, 'né')" for key in range(100, 130)))
    topics.create(f"{name}.transaction")
    own = {"connector.class": "io.debezium.connector.mysql.MySqlConnector", "read.only": "true"}
    with captured(mysql, name, lake, tmp_path, own) as worker:
        pipeline = Captured(name, lake, worker)
        settle(pipeline, store, 0)
        table = f"technical.{name}_few"

        def traffic() -> None:
            store.sql("UPDATE few SET n = n + 1 WHERE id = 120")  # random transactions may change nothing
            store.transactions(1)

        auditor = Auditor(
            lake,
            capsys,
            monkeypatch,
            database=mysql.url,
            source=name,
            worker=worker.url,
            meanwhile=traffic,
        )
        code, result = auditor.run("audit", table, "--range-rows", "10")
        assert (code, result["findings"], result["skipped"]) == (0, [], [])
        lake.session.sql(f"UPDATE {table} SET n = n + 1 WHERE id = 101")
        lake.session.sql(f"UPDATE {table} SET text = 'NÉ' WHERE id = 102")
        lake.session.sql(f"DELETE FROM {table} WHERE id = 103")
        lake.session.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE id = 104")
        lake.session.sql(f"INSERT INTO {table} SELECT 999, * EXCEPT (id) FROM {table} WHERE id = 105")
        planted = {
            *{("different", "101", "n"), ("different", "102", "text")},
            *{("missing", "103", ""), ("doubled", "104", ""), ("extra", "999", "")},
        }
        code, result = auditor.run("audit", table, "--range-rows", "10")
        found = {(one["kind"], one["key"]["id"], ",".join(one["columns"])) for one in result["findings"]}
        assert (code, result["undecided"], found) == (3, 0, planted)
        code, result = auditor.run("repair", table, "--range-rows", "10", "--apply")
        assert (code, result["mended"], result["left"], result["left_undecided"]) == (0, 5, [], 0)
        settle(pipeline, store, store.end(2001))
