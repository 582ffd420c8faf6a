"""MySQL's connector beside Debezium's on the same server and log: every record of a snapshot and of a script of all types.

Masked: as in the comparison of MariaDB's connector, and our headers `tidings.as.of` and `tidings.commit`. What is known to differ (docs/mysql.md) is not in the script:
TRUNCATE, swaps of names, CREATE TABLE ... SELECT, definitions in quick succession, negative times within JSON, quotes in defaults.
"""

import json
from collections.abc import Iterator

import pytest
from binlog.sides import ALONE, OURS, Sides, configured
from binlog.values import KINDS, ROWS
from mysql_parts import MySqlDatabase
from side_by_side import Side, rest

from tidings_capture.mysql.connector import MySqlConnector
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.connect import ConnectServer
from tidings_stack.mysql import MySqlServer
from tidings_stack.waiting import wait_for

LOGGED_ROWS = (
    "INSERT INTO kinds (js, at) SELECT JSON_ARRAY(CAST('1.10' AS DECIMAL(9,2)), CAST('12:00:00.5' AS TIME(1)), x'ff'), at FROM kinds LIMIT 1",
)
TABLES = (
    "CREATE TABLE pair (b INT, a VARCHAR(10), c INT, PRIMARY KEY (a, b))",
    "CREATE TABLE nokey (a INT, b VARCHAR(10))",
    KINDS,
)
CHANGES = (
    "INSERT INTO pair VALUES (1, 'a', 1), (2, 'b', 2)",
    "UPDATE pair SET c = 5",
    "UPDATE pair SET b = b + 10",
    "BEGIN",
    "INSERT INTO nokey VALUES (5, 'a'), (6, 'b')",
    "DELETE FROM pair WHERE a = 'a'",
    "COMMIT",
    "ALTER TABLE pair ADD COLUMN d INT DEFAULT 4 FIRST, ALGORITHM=INSTANT",
    "UPDATE pair SET c = 6",
    "INSERT INTO nokey VALUES (9, 'end')",
)
ENDED = 2 * 10
"""Records of the topic of transactions: one begins and ends for each statement, but the two that stand between BEGIN and COMMIT."""


@pytest.fixture
def database(mysql: MySqlServer, unique_name: str) -> Iterator[MySqlDatabase]:
    made = MySqlDatabase(mysql, unique_name)
    made.run("SET SESSION sql_mode = ''", *TABLES)
    yield made
    made.close()


def configured_for(mysql: MySqlServer, bootstrap: str, name: str, **options: str) -> dict[str, str]:
    """The server is not this test's alone."""
    return configured(mysql, bootstrap, name, MySqlConnector.class_name, **options) | ALONE


def test_each_record_is_debeziums(
    database: MySqlDatabase,
    mysql: MySqlServer,
    plugins: ConnectServer,
    kafka_bootstrap: str,
    unique_name: str,
) -> None:
    database.run(*ROWS)
    config = configured_for(
        mysql, kafka_bootstrap, unique_name, skipped_operations="none", provide_transaction_metadata="true"
    )
    side = Side(plugins.url, unique_name, kafka_bootstrap)
    topics = [unique_name, f"{unique_name}.transaction"]
    topics += [f"{unique_name}.{unique_name}.{table}" for table in ("pair", "nokey", "kinds")]
    last, kinds = topics[3], topics[4]
    with MemoryWorker(MySqlConnector(), unique_name) as worker, side.deleted_at_last():
        side.create(config)
        worker.put({**config, **OURS})
        sides = Sides(side, worker)
        sides.await_both(kinds, len(ROWS), 120)
        wait_for("the end of both snapshots", lambda: bool(worker.offsets()), 60)
        database.run(*ROWS, *LOGGED_ROWS, *CHANGES)

        def ended() -> bool:
            """Whether both have told of the last transaction."""
            return all(records and b'"b":"end"' in (records[-1][1] or b"") for records in sides.records(last))

        wait_for("the last change", ended, 120)
        sides.await_both(topics[1], ENDED)
        differing = sides.differences(topics[::-1])
    assert not differing, "\n".join(differing[:50])


def test_a_connector_moves_here_and_back_by_its_offsets(
    database: MySqlDatabase,
    mysql: MySqlServer,
    plugins: ConnectServer,
    kafka_bootstrap: str,
    unique_name: str,
) -> None:
    """No snapshot is taken, no row is missing or comes again, and Debezium knows the column that came while it was away."""
    config = configured_for(mysql, kafka_bootstrap, unique_name)
    connector, topic = f"{plugins.url}/connectors/{unique_name}", f"{unique_name}.{unique_name}.moved"
    database.run(
        "CREATE TABLE moved (id INT PRIMARY KEY, a VARCHAR(9))", "INSERT INTO moved VALUES (1, 'there')"
    )
    side = Side(plugins.url, unique_name, kafka_bootstrap)

    def told(count: int) -> bool:
        side.check()
        side.read()
        return len(side.records[topic, 0]) >= count

    side.create(config)
    wait_for("the snapshot", lambda: told(1), 120)
    database.run("BEGIN", "INSERT INTO moved VALUES (2, 'there'), (3, 'there')", "COMMIT")
    wait_for("the log", lambda: told(3), 60)
    assert rest(f"{connector}/stop", "PUT")[0] == 204
    wait_for("Debezium's end", lambda: not rest(f"{connector}/status")[1]["tasks"], 60)
    offsets = rest(f"{connector}/offsets")[1]["offsets"]
    assert "gtids" in offsets[0]["offset"]
    database.run("UPDATE moved SET a = 'nobody' WHERE id = 1")
    with MemoryWorker(MySqlConnector(), unique_name) as worker:
        worker.stop()
        worker.alter_offsets(offsets)
        worker.put(
            {**config, "key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"}
        )
        worker.wait_for(lambda: len(worker.kafka.topics.get(topic, ())) >= 1, "the row of nobody's time")
        database.run(
            "ALTER TABLE moved ADD COLUMN b INT FIRST", "INSERT INTO moved (id, a, b) VALUES (4, 'here', 4)"
        )
        worker.wait_for(lambda: len(worker.kafka.topics[topic]) >= 2, "the log")
        worker.stop()
        ours, offsets = worker.values(topic), worker.offsets()
    database.run("DELETE FROM moved WHERE id = 2")
    wait_for("the offsets", lambda: rest(f"{connector}/offsets", "PATCH", {"offsets": offsets})[0] == 200, 60)
    assert rest(f"{connector}/resume", "PUT")[0] == 202
    wait_for("the row of nobody's time", lambda: told(4), 120)
    database.run("INSERT INTO moved (id, a, b) VALUES (5, 'there', 5)")
    wait_for("the log", lambda: told(6), 60)
    side.delete()
    theirs = [json.loads(value) if value else None for _, value, _ in side.records[topic, 0]]
    changes = [
        [value and (value["payload"]["op"], value["payload"]["after"]) for value in v] for v in (theirs, ours)
    ]
    assert changes[0][:3] == [
        ("r", {"id": 1, "a": "there"}),
        ("c", {"id": 2, "a": "there"}),
        ("c", {"id": 3, "a": "there"}),
    ]
    assert changes[1] == [("u", {"id": 1, "a": "nobody"}), ("c", {"b": 4, "id": 4, "a": "here"})]
    assert changes[0][3:] == [("d", None), None, ("c", {"b": 5, "id": 5, "a": "there"})]
