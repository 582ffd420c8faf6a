"""``binlog_row_value_options=PARTIAL_JSON``: the log has only what has changed in a document, and the topic has all of it."""

import json
from collections.abc import Iterator

import pytest
from mariadb_worker import CONNECTORS, Config, changes, running, topic
from mysql_parts import MySqlDatabase

from tidings_connect.errors import OptionError
from tidings_connect.testing.memory_worker import MemoryWorker

UPDATES = (
    "JSON_SET(j, '$.list[7].n', -1, '$.\"new name\"', JSON_OBJECT('ä', JSON_ARRAY(1, NULL)))",
    "JSON_REPLACE(j, '$.list[299].text', 'short', '$.deep.x', CAST('1.50' AS DECIMAL(5,2)))",
    "JSON_REMOVE(j, '$.list[0]', '$.\"new name\"')",
    "JSON_SET(JSON_REMOVE(j, '$.list[1]'), '$.deep.y', REPEAT('y', 3000))",
)


@pytest.fixture
def database(database: MySqlDatabase) -> Iterator[MySqlDatabase]:
    """Its server logs partial documents."""
    database.run(
        "SET GLOBAL binlog_row_value_options = PARTIAL_JSON",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON",
    )
    yield database
    database.run("SET GLOBAL binlog_row_value_options = ''")


@pytest.mark.parametrize("compression", ["OFF", "ON"])
def test_big_documents_are_whole_behind_changes_of_parts(
    database: MySqlDatabase, config: Config, compression: str
) -> None:
    document = {
        "list": [{"n": number, "text": "é" * (number + 300)} for number in range(300)],
        "deep": {"x": 1},
    }
    database.run(
        f"SET SESSION binlog_transaction_compression = {compression}",
        "CREATE TABLE t (id INT PRIMARY KEY, other JSON, j JSON, n INT, text TEXT)",
    )
    database.session.rows(
        "INSERT INTO t VALUES (1, NULL, %s, 0, REPEAT('t', 70000)), (2, '[1]', NULL, 0, NULL)",
        (json.dumps(document),),
    )
    with running(config) as worker:
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) == 2, "the snapshot")
        start = database.file_position()
        wanted = []
        for update in UPDATES:
            database.run(f"UPDATE t SET j = {update}, n = n + 1")
            wanted += database.run("SELECT n, j FROM t ORDER BY id")
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) == 2 + len(wanted), "the changes")
        found = changes(worker, topic(database, "t"))
    if compression == "OFF":
        kinds = [
            row[2] for row in database.run(f"SHOW BINLOG EVENTS IN '{start.file}' FROM {start.position}")
        ]
        assert kinds.count("Update_rows_partial") >= len(UPDATES)
    assert [(op, after["n"], after["j"] and json.loads(after["j"])) for op, _, after in found[2:]] == [
        ("u", int(n), text and json.loads(text)) for n, text in wanted
    ]
    first = [after for _, _, after in found[:2]]
    first[0]["j"] = json.dumps(json.loads(first[0]["j"]), ensure_ascii=False, separators=(",", ":"))
    states = [first, *([found[place][2], found[place + 1][2]] for place in range(2, len(found), 2))]
    assert [before for _, before, _ in found[2:]] == [row for state in states[:-1] for row in state]


def test_documents_of_which_nothing_is_told_but_changes_are_refused(
    database: MySqlDatabase, config: Config
) -> None:
    database.run("SET GLOBAL binlog_row_image = NOBLOB")
    try:
        with (
            MemoryWorker(CONNECTORS[config["connector.class"]](), "c") as worker,
            pytest.raises(OptionError, match="PARTIAL_JSON and its binlog_row_image NOBLOB"),
        ):
            worker.put(config)
    finally:
        database.run("SET GLOBAL binlog_row_image = FULL")
