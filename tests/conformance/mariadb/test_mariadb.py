"""MariaDB's connector beside Debezium's on the same server and log: every record of one script, with random rows.

Masked: the connectors' clocks and run id, and for rows of snapshots their time, as two snapshots are taken at two moments. What
Debezium is known to get wrong (docs/mariadb.md) is left out of the rows.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from binlog.kinds import kinds, kinds_table
from binlog.sides import ALONE, OURS, Sides, configured, differences, shown
from confluent_kafka import Consumer, TopicPartition
from mariadb_parts import Database
from side_by_side import Side, rest

from tidings_capture.mysql.connector import MariaDbConnector
from tidings_capture.mysql.schemas.ddl import definitions
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.connect import ConnectServer
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.waiting import wait_for

DEFINITIONS = (
    (
        "CREATE TABLE t1 (a int(11) NOT NULL, b int(10) unsigned NOT NULL DEFAULT 7, c varchar(3) CHARACTER SET latin1,"
        " d decimal(5,2) DEFAULT NULL, PRIMARY KEY (a))"
    ),
    "create table t2 like t1",
    "create table t3 as select * from nokey",
    "alter table t1 add column e double, add index (c)",
    "ALTER TABLE t1 RENAME TO t4",
    "rename table t4 to t5, t2 to t6",
    "CREATE INDEX ix ON t5 (d)",
    "DROP INDEX ix ON t5",
    "TRUNCATE t5",
    "DROP TABLE t5, t6",
    "DROP TABLE IF EXISTS nothere",
    "CREATE VIEW v AS SELECT * FROM nokey",
    "DROP VIEW v",
    "CREATE USER {name}@'%' IDENTIFIED BY 'x'",
    "GRANT SELECT ON {name}.* TO {name}@'%'",
    "DROP USER {name}@'%'",
    "CREATE TRIGGER tr BEFORE INSERT ON nokey FOR EACH ROW SET NEW.a = 1",
    "DROP TRIGGER tr",
    "CREATE PROCEDURE p() SELECT 1",
    "DROP PROCEDURE p",
    "ANALYZE TABLE nokey",
    "CREATE EVENT ev ON SCHEDULE EVERY 1 DAY DO SELECT 1",
    "DROP EVENT ev",
    "ALTER DATABASE {name} CHARACTER SET latin1",
    "CREATE TABLE t8 (a varchar(5) DEFAULT NULL)",
    "FLUSH TABLES",
    "/* c1 */ ALTER TABLE /* c2 */ nokey ADD COLUMN z int(11) DEFAULT NULL",
    "ALTER TABLE pair MODIFY c bigint(20) NOT NULL DEFAULT 5, DROP PRIMARY KEY, ADD UNIQUE KEY (c)",
    "ALTER TABLE uniq CONVERT TO CHARACTER SET latin1",
    "SET STATEMENT lock_wait_timeout=10 FOR ALTER TABLE t8 ADD COLUMN q int(11) DEFAULT NULL",
    "DROP TABLE t3",
)
"""With the widths that the server gives numbers: Debezium tells them as the statement does, and this connector as the server."""
TABLES = (
    "CREATE TABLE nokey (a INT, b VARCHAR(10))",
    "CREATE TABLE uniq (a INT NOT NULL, b VARCHAR(10) NOT NULL, c INT, UNIQUE KEY (b, a))",
    "CREATE TABLE swapped (a INT PRIMARY KEY, b VARCHAR(10))",
    "CREATE TABLE pair (b INT, a VARCHAR(10), c INT, PRIMARY KEY (a, b))",
    (
        "CREATE TABLE defaults (id INT PRIMARY KEY, ti TINYINT NOT NULL DEFAULT 5, bi BIGINT UNSIGNED NOT NULL DEFAULT"
        " 18446744073709551615, d DECIMAL(10,2) NOT NULL DEFAULT 1.1, b5 BIT(5) NOT NULL DEFAULT b'101', dt DATETIME(6) NOT NULL"
        " DEFAULT '2020-01-02 03:04:05.123456', ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ts3 TIMESTAMP(3) NOT NULL DEFAULT"
        " '2020-01-02 03:04:05.678', e ENUM('a','b') NOT NULL DEFAULT 'b', s SET('x','y') NOT NULL DEFAULT 'x,y', js JSON DEFAULT '{}',"
        " ex INT DEFAULT (1+2), gen INT AS (ti * 2) STORED, vir INT AS (ti * 3) VIRTUAL)"
    ),
)
ROWS = (
    "INSERT INTO nokey VALUES (1, 'a'), (2, NULL)",
    "INSERT INTO uniq VALUES (1, 'a', 1)",
    "INSERT INTO pair VALUES (1, 'a', 1)",
    "INSERT INTO swapped VALUES (1, 'a')",
    "INSERT INTO defaults (id) VALUES (1)",
)
CHANGES = (
    "INSERT INTO defaults (id) VALUES (2)",
    "INSERT INTO defaults (id, ts3) VALUES (3, '2020-01-02 03:04:05.6')",
    "UPDATE defaults SET ti = 6 WHERE id = 1",
    "UPDATE nokey SET b = 'z' WHERE a = 1",
    "UPDATE pair SET b = 2",
    "UPDATE uniq SET a = 9",
    "DELETE FROM pair",
    "BEGIN",
    "INSERT INTO nokey VALUES (5, 'a'), (6, 'b')",
    "SAVEPOINT s",
    "INSERT INTO nokey VALUES (9, 'gone')",
    "ROLLBACK TO s",
    "INSERT INTO pair VALUES (7, 'c', 7)",
    "UPDATE nokey SET b = 'm' WHERE a > 4",
    "COMMIT",
    "ALTER TABLE pair ADD COLUMN d INT",
    "INSERT INTO pair VALUES (8, 'd', 1, 2)",
    "TRUNCATE TABLE pair",
    "truncate nokey",
    "INSERT INTO nokey VALUES (7, 'new')",
    "DELETE FROM uniq",
    "XA START 'x'",
    "INSERT INTO swapped VALUES (2, 'xa')",
    "XA END 'x'",
    "XA COMMIT 'x' ONE PHASE",
    "CREATE TABLE _new LIKE swapped",
    "ALTER TABLE _new ADD COLUMN y INT FIRST",
    "INSERT INTO _new (a, b) SELECT a, b FROM swapped",
    "RENAME TABLE swapped TO _old, _new TO swapped",
    "UPDATE swapped SET y = 1",
    "INSERT INTO swapped VALUES (1, 3, 'swapped')",
    "DROP TABLE _old",
    "INSERT INTO uniq VALUES (1, 'end', 1)",
)


@pytest.fixture
def database(mariadb: MariaDbServer, unique_name: str) -> Iterator[Database]:
    made = Database(mariadb, unique_name)
    made.run("SET SESSION sql_mode = ''", *TABLES)
    made.run(kinds_table())
    yield made
    made.close()


def history(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The records of a schema history, without their clocks; where a snapshot began is its own."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "history", "enable.partition.eof": True})
    found = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(30)) is not None and not message.error():
            assert message.key() is None
            record = json.loads(message.value() or b"")
            del record["ts_ms"], record["position"]["ts_sec"]
            if "snapshot" in record["position"]:
                record["position"] = {"snapshot": record["position"]["snapshot"]}
            found.append(record)
    finally:
        consumer.close()
    return found


def test_each_record_is_debeziums(
    database: Database, mariadb: MariaDbServer, plugins: ConnectServer, kafka_bootstrap: str, unique_name: str
) -> None:
    chance = random.Random(4)
    for statement in (*ROWS, *(kinds(chance) for _ in range(6))):
        database.run(statement)
    config = configured(
        mariadb, kafka_bootstrap, unique_name, include_query="true", skipped_operations="none"
    )
    side = Side(plugins.url, unique_name, kafka_bootstrap)
    topics = [
        f"{unique_name}.{unique_name}.{table}"
        for table in ("nokey", "uniq", "pair", "swapped", "defaults", "kinds")
    ]
    with MemoryWorker(MariaDbConnector(), unique_name) as worker, side.deleted_at_last():
        side.create(config)
        worker.put({**config, **OURS})
        sides = Sides(side, worker)
        sides.await_both(topics[1], 1, 120)
        for statement in (*(kinds(chance) for _ in range(30)), *CHANGES):
            database.run(statement)
        sides.await_both(topics[1], 7, 120)
        for topic in topics:
            count = len(worker.kafka.topics[topic])
            sides.await_both(topic, count)
        differing = sides.differences(topics)
    assert not differing, "\n".join(differing[:20])


def test_the_topic_of_schema_changes_is_debeziums(
    database: Database, mariadb: MariaDbServer, plugins: ConnectServer, kafka_bootstrap: str, unique_name: str
) -> None:
    config = configured(mariadb, kafka_bootstrap, unique_name) | ALONE
    side = Side(plugins.url, unique_name, kafka_bootstrap)
    with MemoryWorker(MariaDbConnector(), unique_name) as worker, side.deleted_at_last():
        side.create(config)
        worker.put({**config, **OURS, "schema.history.internal.kafka.topic": f"our-history-{unique_name}"})
        sides = Sides(side, worker)
        before = 1 + 3 + 2 * 6
        sides.await_both(unique_name, before, 120)
        wait_for("the end of both snapshots", lambda: bool(worker.offsets()), 60)
        told = before
        for statement in DEFINITIONS:
            database.run(statement.format(name=unique_name))
            told += len(definitions(statement, unique_name))
            wait_for(statement, lambda told=told: len(worker.kafka.topics[unique_name]) >= told, 60)
        sides.await_both(unique_name, told, 120)
        mine = list(worker.kafka.topics[unique_name])
    theirs_told = history(kafka_bootstrap, config["schema.history.internal.kafka.topic"])
    ours_told = history(kafka_bootstrap, f"our-history-{unique_name}")
    assert len(theirs_told) == len(ours_told)
    unlike = differences(theirs_told[:before], ours_told[:before], "history")
    assert not unlike, "\n".join(unlike[:40])
    for its, own in zip(
        theirs_told[before:], ours_told[before:], strict=True
    ):  # without tables: see `history.topic`
        unlike += differences({**its, "tableChanges": []}, own, its["ddl"])
    assert not unlike, "\n".join(unlike[:40])
    theirs = [shown(*record) for record in side.records[unique_name, 0]]
    ours = [shown(*record) for record in mine]
    ddl = [[value["payload"]["ddl"] for _, value, _ in records] for records in (theirs, ours)]
    assert ddl[0] == ddl[1]
    differing: list[str] = []
    for number, (its, own) in enumerate(zip(theirs, ours, strict=True)):
        differing += differences(its, own, f"{number} {own[1]['payload']['ddl'][:60]}")
    assert not differing, "\n".join(differing[:40])


def test_a_connector_without_a_history_moves_back_to_debezium(
    database: Database, mariadb: MariaDbServer, plugins: ConnectServer, kafka_bootstrap: str, unique_name: str
) -> None:
    database.run(
        "CREATE TABLE moved (id INT PRIMARY KEY, a VARCHAR(9) NOT NULL DEFAULT 'x')",
        "INSERT INTO moved VALUES (1, 'a')",
    )
    config = configured(mariadb, kafka_bootstrap, unique_name)
    topic = f"{unique_name}.{unique_name}.moved"
    with MemoryWorker(MariaDbConnector(), unique_name) as worker:
        worker.put({name: value for name, value in config.items() if not name.startswith("schema.history")})
        worker.wait_for(lambda: len(worker.kafka.topics.get(topic, ())) == 1, "the snapshot")
        database.run("ALTER TABLE moved ADD COLUMN b INT", "INSERT INTO moved VALUES (2, 'b', 2)")
        worker.wait_for(lambda: len(worker.kafka.topics[topic]) == 2, "the change")
        worker.stop()
        offsets = worker.offsets()
    database.run("INSERT INTO moved VALUES (3, 'c', 3)", "UPDATE moved SET b = 1 WHERE id = 1")
    side = Side(plugins.url, unique_name, kafka_bootstrap)
    connector = f"{plugins.url}/connectors/{unique_name}"
    back = {
        "name": unique_name,
        "initial_state": "STOPPED",
        "config": {**config, "snapshot.mode": "recovery"},
    }
    assert rest(f"{plugins.url}/connectors", "POST", back)[0] == 201
    wait_for("the offsets", lambda: rest(f"{connector}/offsets", "PATCH", {"offsets": offsets})[0] == 200, 60)
    assert rest(f"{connector}/resume", "PUT")[0] == 202

    def changed(count: int) -> bool:
        side.check()
        side.read()
        return len(side.records[topic, 0]) >= count

    wait_for("what was changed meanwhile", lambda: changed(2), 120)
    database.run("ALTER TABLE moved ADD COLUMN c INT", "INSERT INTO moved VALUES (4, 'd', 4, 4)")
    wait_for("what was changed then", lambda: changed(3), 120)
    side.delete()
    values = [json.loads(value or b"{}")["payload"] for _key, value, _headers in side.records[topic, 0]]
    assert [(value["op"], value["before"], value["after"]) for value in values] == [
        ("c", None, {"id": 3, "a": "c", "b": 3}),
        ("u", {"id": 1, "a": "a", "b": None}, {"id": 1, "a": "a", "b": 1}),
        ("c", None, {"id": 4, "a": "d", "b": 4, "c": 4}),
    ]
