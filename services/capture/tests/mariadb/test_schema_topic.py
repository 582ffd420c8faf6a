"""The topic of schema changes where Debezium is no measure: restarts, statements that are read late, what is not told."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mariadb_parts import Database, connector_options

from tidings_capture.mysql.connector import MariaDbConnector
from tidings_capture.mysql.schemas.structure import structure
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.mariadb import MariaDbServer

Config = dict[str, str]
STORE = "schema.history.internal.store.only.captured"


@pytest.fixture
def config(mariadb: MariaDbServer, unique_name: str) -> Config:
    return connector_options(mariadb, unique_name) | {
        "include.schema.changes": "true",
        f"{STORE}.databases.ddl": "true",
    }


@contextmanager
def running(config: Config) -> Iterator[MemoryWorker]:
    with MemoryWorker(MariaDbConnector(), "c") as worker:
        worker.put(config)
        yield worker


def told(worker: MemoryWorker, snapshot: str = "false") -> list[dict[str, Any]]:
    values = [json.loads(value) for _key, value, _headers in list(worker.kafka.topics.get("p", []))]
    return [value for value in values if value["source"]["snapshot"] == snapshot]


def columns(value: dict[str, Any]) -> list[str] | None:
    (change,) = value["tableChanges"]
    return None if change["table"] is None else [column["name"] for column in change["table"]["columns"]]


@pytest.mark.parametrize("mode", ["initial", "no_data"])
def test_the_structure_is_told_before_rows(database: Database, config: Config, mode: str) -> None:
    database.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "CREATE TABLE u (id INT)")
    with running({**config, "snapshot.mode": mode, "table.include.list": f"{database.name}.t"}) as worker:
        worker.wait_for(
            lambda: any("snapshot" not in position["offset"] for position in worker.offsets()), "the snapshot"
        )
        found = told(worker, "true") + told(worker, "last")
        rows = len(worker.kafka.topics.get(f"p.{database.name}.t", []))
    first = [value["ddl"].split("(")[0].split("`")[0].strip() for value in found]
    assert first == [
        "SET character_set_server=utf8mb4, collation_server=utf8mb4_general_ci",
        *["DROP TABLE IF EXISTS"] * 2,
        "DROP DATABASE IF EXISTS",
        "CREATE DATABASE",
        "USE",
        *["CREATE TABLE"] * 2,
    ]
    assert [columns(value) for value in found[-2:]] == [["id"], ["id"]]
    assert rows == (mode == "initial")


def test_only_captured_tables_are_told_where_asked_for(database: Database, config: Config) -> None:
    database.run("CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)")
    own = {f"{STORE}.tables.ddl": "true", "table.include.list": rf"{database.name}\.t"}
    with running({**config, **own}) as worker:
        worker.wait_for(lambda: bool(worker.offsets()), "the snapshot")
        database.run(
            "ALTER TABLE u ADD x INT", "CREATE DATABASE z_" + database.name, "ALTER TABLE t ADD y INT"
        )
        worker.wait_for(lambda: bool(told(worker)), "the definition")
        names = {value["source"]["table"] for value in told(worker, "true") + told(worker, "last")}
        found = told(worker)
    assert names == {None, "t"}
    assert [(value["ddl"], columns(value)) for value in found] == [("ALTER TABLE t ADD y INT", ["id", "y"])]


def test_a_table_that_was_altered_again_is_told_without_its_columns(
    database: Database, config: Config
) -> None:
    database.run("CREATE TABLE t (id INT)")
    with running({**config, "snapshot.mode": "no_data"}) as worker:
        worker.wait_for(lambda: any("snapshot" not in p["offset"] for p in worker.offsets()), "the start")
        worker.stop()
        database.run("ALTER TABLE t ADD a INT", "DO SLEEP(3)", "ALTER TABLE t ADD b INT")
        worker.resume()
        worker.wait_for(lambda: len(told(worker)) == 2, "both definitions")
        found = told(worker)
    assert [columns(value) for value in found] == [None, ["id", "a", "b"]]


def test_definitions_with_rows_are_told_once(database: Database, config: Config) -> None:
    database.run("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1), (2), (3)")
    with running({**config, "max.batch.size": "1"}) as worker:
        worker.wait_for(lambda: any("snapshot" not in p["offset"] for p in worker.offsets()), "the snapshot")
        topic = f"p.{database.name}.u"
        database.run("CREATE TABLE u AS SELECT * FROM t", "DROP TABLE t")
        worker.wait_for(lambda: len(worker.kafka.topics.get(topic, [])) >= 1, "a row")
        worker.stop()
        worker.resume()
        worker.wait_for(lambda: len(told(worker)) >= 2, "the last definition")
        found, rows = told(worker), len(worker.kafka.topics[topic])
    assert [value["tableChanges"][0]["type"] for value in found] == ["CREATE", "DROP"]
    assert rows == 3


def test_a_sequence_is_a_table_like_others(database: Database, config: Config) -> None:
    database.run("CREATE TABLE t (id INT)")
    with running({**config, "snapshot.mode": "no_data"}) as worker:
        worker.wait_for(lambda: any("snapshot" not in p["offset"] for p in worker.offsets()), "the start")
        database.run("CREATE SEQUENCE sq", "SELECT NEXTVAL(sq)", "INSERT INTO t VALUES (1)")
        worker.wait_for(lambda: bool(worker.kafka.topics.get(f"p.{database.name}.t")), "the row")
        found, changes = told(worker), worker.values(f"p.{database.name}.sq")
    assert [value["ddl"] for value in found] == ["CREATE SEQUENCE sq"]
    assert [value["after"]["next_not_cached_value"] for value in changes] == [1001]


def test_no_password_is_told(database: Database, config: Config) -> None:
    user = f"{database.name}@'%'"
    with running({**config, "snapshot.mode": "no_data"}) as worker:
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        database.run(
            f"CREATE USER {user} IDENTIFIED BY 'swordfish'",
            f"SET PASSWORD FOR {user} = PASSWORD('swordfish')",
            f"GRANT SELECT ON {database.name}.* TO {user} IDENTIFIED BY 'swordfish'",
            "CREATE OR REPLACE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h', PASSWORD 'swordfish')",
            "DROP SERVER s",
            f"DROP USER {user}",
            "CREATE TABLE t (id INT)",
        )
        worker.wait_for(lambda: bool(told(worker)), "the definition")
        found = told(worker)
    assert [value["ddl"] for value in found] == ["CREATE TABLE t (id INT)"]


def test_a_table_is_described(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id BIGINT UNSIGNED AUTO_INCREMENT, n INT(5) UNSIGNED ZEROFILL DEFAULT 7, d DECIMAL(9,3) DEFAULT (1+2),"
        " b BIT(3) DEFAULT b'101', c CHAR(3) CHARACTER SET latin1 DEFAULT 'x''y', s SET('a','b') COMMENT 'it''s', at DATETIME(3)"
        " DEFAULT CURRENT_TIMESTAMP(3), u UUID, g POINT, PRIMARY KEY (id)) COMMENT 'things'"
    )
    found = structure(database.session, database.name, "t", comments=True)
    assert found is not None
    described = found[1]
    assert (described["primaryKeyColumnNames"], described["defaultCharsetName"], described["comment"]) == (
        ["id"], "utf8mb4", "things",
    )  # fmt: skip
    names = ("typeName", "jdbcType", "length", "scale", "charsetName", "defaultValueExpression", "comment")
    assert {column["name"]: tuple(column[name] for name in names) for column in described["columns"]} == {
        "id": ("BIGINT UNSIGNED", -5, 20, None, None, None, None),
        "n": ("INT UNSIGNED ZEROFILL", 4, 5, None, None, "00007", None),
        "d": ("DECIMAL", 3, 9, 3, None, None, None),
        "b": ("BIT", -7, 3, None, None, "101", None),
        "c": ("CHAR", 1, 3, None, "latin1", "x''y", None),
        "s": ("SET", 1, 3, None, "utf8mb4", None, "it's"),
        "at": ("DATETIME", 93, 3, None, None, "1970-01-01 00:00:00", None),
        "u": ("UUID", 1111, None, None, None, None, None),
        "g": ("POINT", 1111, None, None, None, None, None),
    }
    (identity,) = [column for column in described["columns"] if column["name"] == "id"]
    assert (identity["autoIncremented"], identity["generated"], identity["optional"]) == (True, True, False)
    silent = structure(database.session, database.name, "t", comments=False)
    assert silent is not None
    assert {silent[1]["comment"], *(column["comment"] for column in silent[1]["columns"])} == {None}
