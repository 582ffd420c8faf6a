"""MariaDB's signals and incremental snapshots on a worker in memory and a real server: which tables, keys and rows are read."""

import json
from typing import Any

import pytest
from mariadb_cases import KEYS, READ_ONLY, running
from mariadb_parts import Database
from mariadb_worker import Config

from tidings_envelope.headers.as_of import HEADER as AS_OF


@pytest.mark.parametrize(
    "more", [{}, {"incremental.snapshot.watermarking.strategy": "insert_delete"}, READ_ONLY]
)
def test_tables_are_read_in_chunks_by_key(database: Database, config: Config, more: Config) -> None:
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(9))",
        "INSERT INTO a SELECT seq, CONCAT('x', seq) FROM seq_1_to_7",
        "CREATE TABLE empty (id INT PRIMARY KEY)",
        "CREATE TABLE nokey (id INT)",
        "INSERT INTO nokey VALUES (2), (1)",
    )
    with running(config | more, database) as case:
        id_ = case.execute("a", "empty", "nokey", "nothere")
        case.wait_told("COMPLETED")
        assert case.read("a") == [1, 2, 3, 4, 5, 6, 7]
        rows = case.values("a")
        statuses = {
            n["additional_data"]["scanned_collection"].partition(".")[2]: n["additional_data"]["status"]
            for n in case.told("TABLE_SCAN_COMPLETED")
        }
        assert case.told("COMPLETED")[0]["id"] == id_
    assert statuses == {
        "a": "SUCCEEDED",
        "empty": "EMPTY",
        "nokey": "NO_PRIMARY_KEY",
        "nothere": "UNKNOWN_SCHEMA",
    }
    assert {(v["source"]["snapshot"], v["transaction"]) for v in rows} == {("incremental", None)}
    assert case.worker.offsets()[0]["offset"].get("incremental_snapshot_collections") is None


def test_rows_that_are_read_before_the_logs_first_transaction_say_that_none_was(
    database: Database, config: Config
) -> None:
    """A server whose log was begun anew has no GTID that they could show; without a place the lake would refuse them."""
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a SELECT seq FROM seq_1_to_3", "RESET MASTER"
    )
    assert database.run("SELECT @@gtid_binlog_pos") == [("",)]
    with running(config | READ_ONLY, database) as case:
        case.execute("a")
        case.wait_told("COMPLETED")
        database.run("INSERT INTO a VALUES (4)")
        case.worker.wait_for(lambda: len(case.values("a")) == 4, "the first transaction")
        case.execute("a")
        case.wait_told("COMPLETED", 2)
        found = [
            (value["source"]["gtid"], dict(headers).get(AS_OF))
            for _, text, headers in case.worker.kafka.topics[f"p.{database.name}.a"]
            if (value := json.loads(text))["op"] == "r"
        ]
    assert found[:3] == [(None, b"0")] * 3
    assert found[3:] == [("0-1-1", None)] * 4


def test_a_table_is_the_signal_and_the_file_and_what_is_none_is_left_out(
    database: Database, config: Config, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    database.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1), (2)")
    data = {"data-collections": [f"{database.name}.a"], "type": "INCREMENTAL"}
    more = {"signal.enabled.channels": "source,file", "signal.poll.interval.ms": "20"}
    with running(config | more, database) as case:
        rows = [
            ("x", "nothing", "{}"),
            ("y", "log", "nonsense"),
            (None, None, None),
            ("s", "execute-snapshot", json.dumps(data)),
        ]
        database.run("ALTER TABLE signals DROP PRIMARY KEY, MODIFY id VARCHAR(100) NULL")
        database.session.rows(
            "INSERT INTO signals VALUES (%s, %s, %s), (%s, %s, %s), (%s, %s, %s), (%s, %s, %s)",
            [value for row in rows for value in row],
        )
        case.wait_told("COMPLETED")
        (tmp_path / "file-signals.txt").write_text(
            json.dumps({"id": "f", "type": "execute-snapshot", "data": data}) + "\n"
        )
        case.wait_told("COMPLETED", 2)
        assert [note["id"] for note in case.told("STARTED")] == ["s", "f"]
        assert case.read("a") == [1, 2, 1, 2]
        case.worker.wait_for(
            lambda: (tmp_path / "file-signals.txt").read_text() == "", "the signal to be taken"
        )


def test_every_kind_of_key(database: Database, config: Config) -> None:
    tables = {f"k{number}": kind for number, kind in enumerate(KEYS)}
    for name, kind in tables.items():
        rows = ", ".join(f"({value}, {number})" for number, value in enumerate(KEYS[kind]))
        # Two columns, so that the beginning of a key is often the same.
        database.run(
            f"CREATE TABLE {name} (k {kind} NOT NULL, id INT, n INT AS (id * 2) STORED, PRIMARY KEY (k, id))",
            f"INSERT INTO {name} (k, id) VALUES {rows}",
            f"INSERT INTO {name} (k, id) SELECT k, id + 10 FROM {name}",
        )
    with running(config | READ_ONLY | {"incremental.snapshot.chunk.size": "1"}, database) as case:
        case.execute("k[0-9]+")
        case.wait_told("COMPLETED")
        for name, kind in tables.items():
            expected = [row[0] for row in database.run(f"SELECT id FROM {name} ORDER BY k, id")]
            assert case.read(name) == list(map(int, expected)), kind


def test_conditions_and_a_surrogate_key(database: Database, config: Config) -> None:
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY, n INT NULL, t VARCHAR(9))",
        "INSERT INTO a SELECT seq, IF(seq < 3, NULL, 100 - seq), CONCAT('it''s ', seq) FROM seq_1_to_8",
        "CREATE UNIQUE INDEX u ON a (n)",
    )
    name = f"{database.name}.a"
    with running(config | READ_ONLY, database) as case:
        conditions = [
            {"data-collection": name, "filter": "id > 2 AND (`t` <> 'it''s 5' -- not 5\n OR id = 0);"}
        ]
        case.execute("a", **{"additional-conditions": conditions})
        case.wait_told("COMPLETED")
        assert case.read("a") == [3, 4, 6, 7, 8]
        case.execute(
            "a",
            **{
                "surrogate-key": "n",
                "additional-conditions": [{"data-collection": name, "filter": "n IS NOT NULL"}],
            },
        )
        case.wait_told("COMPLETED", 2)
        assert case.read("a")[5:] == [8, 7, 6, 5, 4, 3]
        for wrong in (
            "id > 1) OR (1 = 1",
            "id > 1 # )",
            "t = `'` ) OR (`'`",
            "$$ ) UNION SELECT 1, 2, (3 $$",
            "/*! id */ > 1",
        ):
            case.execute("a", **{"additional-conditions": [{"data-collection": name, "filter": wrong}]})
        case.execute("a", **{"additional-conditions": [{"data-collection": name, "filter": "nothere = 1"}]})
        case.execute("a", **{"surrogate-key": "nothere"})
        case.execute("a", **{"additional-conditions": [{"data-collection": name, "filter": "id = 1"}]})
        case.wait_told("COMPLETED", 3)
        assert case.read("a")[11:] == [2, 3, 4, 5, 6, 7, 8, 1]
        statuses = [note["additional_data"]["status"] for note in case.told("TABLE_SCAN_COMPLETED")]
        assert statuses[2:] == ["SUCCEEDED", "SQL_EXCEPTION", "SQL_EXCEPTION", "SUCCEEDED"]


def test_pause_resume_and_stop(database: Database, config: Config) -> None:
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "INSERT INTO a SELECT seq FROM seq_1_to_150",
        "CREATE TABLE b LIKE a",
        "INSERT INTO b SELECT * FROM a",
    )
    with running(config | READ_ONLY, database) as case:
        case.execute("a", "b")
        case.signal("pause-snapshot")
        case.wait_told("PAUSED")
        before = len(case.read("a"))
        database.run("INSERT INTO a VALUES (3000)")
        # The rows of the chunk that was being read may come behind it.
        case.worker.wait_for(lambda: any(one["op"] == "c" for one in case.values("a")), "the stream to go on")
        assert before < 150
        assert len(case.read("a")) <= before + 3
        case.signal("stop-snapshot", **{"data-collections": [f"{database.name}.b"]})
        case.signal("resume-snapshot")
        case.wait_told("COMPLETED")
        assert case.read("a") == list(range(1, 151))
        assert [note["additional_data"]["data_collections"] for note in case.told("ABORTED")] == [
            f"{database.name}.b"
        ]
        case.execute("a")
        case.signal("stop-snapshot")
        case.wait_told("ABORTED", 2)
        assert case.values("b") == []
