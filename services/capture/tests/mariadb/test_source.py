"""MariaDB's connector on a worker in memory and a real server: records, restarts in the midst of transactions, refusals."""

import json
import random
import time
from typing import Any

import pytest
from mariadb_parts import EVERY_TYPE, Database
from mariadb_values import EDGES, insert
from mariadb_worker import (
    Collected,
    Config,
    changes,
    failure,
    records,
    running,
    topic,
)

from tidings_capture.mysql.flavours.mariadb import MARIADB
from tidings_capture.mysql.offset import Offset, read_offset
from tidings_capture.mysql.settings.config import read_config
from tidings_capture.mysql.streaming.stream import Stream
from tidings_connect.errors import OptionError
from tidings_connect.testing.memory_worker import MemoryWorker


def test_a_snapshot_and_the_log_have_the_same_values(database: Database, config: Config) -> None:
    database.run(EVERY_TYPE)
    rows = [{n: found[place % len(found)] for n, found in EDGES.items()} for place in range(9)]
    for row in rows:
        database.run(insert(row))
    with running(config) as worker:
        worker.wait_for(lambda: len(changes(worker, topic(database, "kinds"))) >= 9, "the snapshot")
        for row in rows:
            database.run(insert(row))
        worker.wait_for(lambda: len(changes(worker, topic(database, "kinds"))) >= 18, "the log")
        found = changes(worker, topic(database, "kinds"))
    assert [op for op, _, _ in found] == ["r"] * 9 + ["c"] * 9
    for (_, _, snapshot), (_, _, logged) in zip(found[:9], found[9:], strict=True):
        assert {**snapshot, "id": 0} == {**logged, "id": 0}
    assert (found[0][2]["u"], found[0][2]["biu"], found[0][2]["e"], found[0][2]["f"]) == (
        "123e4567-e89b-12d3-a456-426614174000",
        -1,
        "b,c",
        1.5,
    )


def test_the_parts_of_a_snapshot_are_marked(database: Database, config: Config) -> None:
    database.run(
        "CREATE TABLE a (n INT)", "CREATE TABLE b (n INT)", "CREATE TABLE c (n INT)", "CREATE TABLE d (n INT)"
    )
    database.run("INSERT INTO a VALUES (1), (2), (3)", "INSERT INTO c VALUES (1)", "INSERT INTO b VALUES (1)")
    with running({**config, "snapshot.fetch.size": "1"}) as worker:
        worker.wait_for(lambda: len(changes(worker, topic(database, "c"))) == 1, "the snapshot")
        marks = [v["source"]["snapshot"] for t in "abc" for _k, v, _h in records(worker, topic(database, t))]
    assert marks == ["first", "true", "last_in_data_collection", "last_in_data_collection", "last"]


def test_keys_change_and_rows_go(database: Database, config: Config) -> None:
    database.run("CREATE TABLE t (b INT, a VARCHAR(9), c INT, PRIMARY KEY (a, b))")
    with running({**config, "snapshot.mode": "no_data"}) as worker:
        worker.wait_for(lambda: worker.state == "RUNNING" and bool(worker.offsets()), "the start")
        database.run(
            "INSERT INTO t VALUES (1, 'x', 5)", "UPDATE t SET c = 6", "UPDATE t SET b = 2", "DELETE FROM t"
        )
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) >= 7, "the changes")
        found = records(worker, topic(database, "t"))
        markers = [v for _k, v, _h in records(worker, "p.transaction")]
    one, two = {"a": "x", "b": 1}, {"a": "x", "b": 2}
    assert [key for key, _, _ in found] == [one, one, one, one, two, two, two]
    assert [value and value["op"] for _, value, _ in found] == ["c", "u", "d", None, "c", "d", None]
    assert found[1][1]["before"] == {"b": 1, "a": "x", "c": 5}
    assert json.loads(found[2][2]["__debezium.newkey"]) == two
    assert json.loads(found[4][2]["__debezium.oldkey"]) == one
    assert [found[i][1]["transaction"]["total_order"] for i in (2, 4)] == [1, 2]
    ends = [m for m in markers if m["status"] == "END"]
    assert [m["event_count"] for m in ends] == [1, 1, 2, 1]


def test_a_truncation_is_told_where_it_is_asked_for(database: Database, config: Config) -> None:
    """As a transaction of one event; not where it is left out, nor of tables that are not captured."""
    other = f"{database.name}_other"
    asked = {**config, "snapshot.mode": "no_data", "skipped.operations": "none"}
    database.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "CREATE TABLE gone (id INT)")
    with running(asked) as worker, running({**asked, "skipped.operations": "t"}) as silent:
        for one in (worker, silent):
            one.wait_for(lambda one=one: one.state == "RUNNING" and bool(one.offsets()), "the start")
        database.run(
            "INSERT INTO t VALUES (1, 1)", "INSERT INTO gone VALUES (1)", "TRUNCATE TABLE gone", "TRUNCATE t"
        )
        worker.wait_for(lambda: len(changes(worker, topic(database, "gone"))) >= 2, "the first one")
        database.run(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.t (id INT)", f"TRUNCATE {other}.t")
        database.run(f"DROP DATABASE {other}", "BEGIN", "INSERT INTO t VALUES (2, 2), (3, 3)", "COMMIT")
        for one, count in ((worker, 4), (silent, 3)):
            one.wait_for(lambda: len(changes(one, topic(database, "t"))) >= count, "the last rows")  # noqa: B023
        found, left = records(worker, topic(database, "t")), records(silent, topic(database, "t"))
        markers = [v for _k, v, _h in records(worker, "p.transaction")]
        names = set(worker.kafka.topics)
    assert [value["op"] for _, value, _ in found] == ["c", "t", "c", "c"]
    assert [value["op"] for _, value, _ in left] == ["c", "c", "c"]
    key, value, _ = found[1]
    assert (key, value["before"], value["after"]) == (None, None, None)
    assert (value["source"]["db"], value["source"]["table"]) == (database.name, "t")
    assert value["transaction"] == {
        "id": value["source"]["gtid"],
        "total_order": 1,
        "data_collection_order": 1,
    }
    ends = [(m["id"], m["event_count"]) for m in markers if m["status"] == "END"]
    begins = [m["id"] for m in markers if m["status"] == "BEGIN"]
    assert [count for _, count in ends] == [1, 1, 1, 1, 2]
    assert begins == [name for name, _ in ends]
    assert ends[3][0] == value["transaction"]["id"]
    assert names == {topic(database, "t"), topic(database, "gone"), "p.transaction"}


def test_tables_change_in_mid_stream(database: Database, config: Config) -> None:
    database.run("CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL DEFAULT 3)")
    with running(config) as worker:
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        worker.stop()
        database.run(
            "INSERT INTO t VALUES (1, 1)",
            "ALTER TABLE t ADD COLUMN b VARCHAR(9) FIRST",
            "INSERT INTO t VALUES ('x', 2, 2)",
            "ALTER TABLE t RENAME COLUMN a TO z, ALGORITHM=INSTANT",
            "CREATE TABLE u LIKE t",
            "INSERT INTO u VALUES ('y', 3, 3)",
            f"RENAME TABLE t TO {database.name}.gone, u TO t",
            "INSERT INTO t VALUES ('z', 4, 4)",
            "DROP TABLE gone",
        )
        worker.resume()
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) >= 3, "the changes")
        found = [after for _, _, after in changes(worker, topic(database, "t"))]
    assert found == [{"id": 1, "a": 1}, {"b": "x", "id": 2, "a": 2}, {"b": "z", "id": 4, "z": 4}]


VERSIONED = {
    "hidden": "n INT",
    "named": "n INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START INVISIBLE, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE,"
    " PERIOD FOR SYSTEM_TIME (s, e)",
}
"""The columns behind the key, by how those are called that say when a row was one."""


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "by records"])
@pytest.mark.parametrize("form", VERSIONED)
def test_a_versioned_table_is_told_as_it_is_now(
    database: Database, config: Config, form: str, direct: bool
) -> None:
    """The snapshot has no former rows, an UPDATE makes none, a DELETE is one, and the past may be removed."""
    database.run(f"CREATE TABLE t (id INT PRIMARY KEY, {VERSIONED[form]}) WITH SYSTEM VERSIONING")
    database.run("INSERT INTO t (id, n) VALUES (1, 1)", "UPDATE t SET n = 2")
    if not direct:
        config = {**config, "skipped.operations": "t,c", "tombstones.on.delete": "false"}
    with running(config) as worker:
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) == 1, "the snapshot")
        if direct:
            database.run("INSERT INTO t (id, n) VALUES (3, 3)")
        database.run("UPDATE t SET n = 4 WHERE id = 1", "DELETE FROM t WHERE id = 1", "DELETE HISTORY FROM t")
        if direct:
            database.run(
                "SET @@system_versioning_alter_history = KEEP", "ALTER TABLE t ADD COLUMN m INT AFTER id"
            )
            database.run("UPDATE t SET m = 5")
            if form == "hidden":
                database.run("ALTER TABLE t DROP SYSTEM VERSIONING")
            database.run("INSERT INTO t (id, n) VALUES (6, 6)")
        worker.wait_for(
            lambda: len(changes(worker, topic(database, "t"))) >= (7 if direct else 3), "the changes"
        )
        found = records(worker, topic(database, "t"))

    def seen(row: Any) -> Any:
        return row and {name: value for name, value in row.items() if name in {"id", "n", "m"}}

    told = [
        (key, value and (value["op"], seen(value["before"]), seen(value["after"]))) for key, value, _ in found
    ]
    first = [
        ({"id": 1}, ("r", None, {"id": 1, "n": 2})),
        ({"id": 1}, ("u", {"id": 1, "n": 2}, {"id": 1, "n": 4})),
        ({"id": 1}, ("d", {"id": 1, "n": 4}, None)),
    ]
    if not direct:
        assert told == first
        return
    assert told == [
        first[0],
        ({"id": 3}, ("c", None, {"id": 3, "n": 3})),
        *first[1:],
        ({"id": 1}, None),
        ({"id": 3}, ("u", {"id": 3, "m": None, "n": 3}, {"id": 3, "m": 5, "n": 3})),
        ({"id": 6}, ("c", None, {"id": 6, "m": None, "n": 6})),
    ]


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "by records"])
@pytest.mark.parametrize("whose", ["ours", "Debezium's"])
@pytest.mark.parametrize("unchanged", [False, True], ids=["all told", "unchanged left out"])
def test_it_goes_on_in_the_midst_of_a_transaction(
    database: Database, config: Config, whose: str, direct: bool, unchanged: bool
) -> None:
    """A new stream after every event of rows; by the number of rows, or by Debezium's number of events."""
    chance = random.Random(17)
    database.run("CREATE TABLE a (id INT PRIMARY KEY, n INT, hidden INT)")
    database.run("CREATE TABLE b (id INT, n INT, hidden INT)")
    if unchanged:
        config = {**config, "skip.messages.without.change": "true", "column.exclude.list": ".*hidden"}
    start, rows, halves = database.position(), 0, 0
    for _ in range(4):
        database.run("BEGIN")
        for _ in range(chance.randint(2, 5)):
            # A stream that begins within a transaction encodes nothing of it directly: so its first event has rows that are not told.
            database.run(f"UPDATE {chance.choice('ab')} SET n = n + id % 2, hidden = hidden + 1")
            count = chance.randint(1, 5)
            values = ", ".join(f"({rows + n}, {n}, {n})" for n in range(count))
            database.run(f"INSERT INTO {chance.choice('ab')} VALUES {values}")
            rows += count
        database.run("UPDATE b SET n = n + 1", "COMMIT", "TRUNCATE TABLE b")
    read = read_config({**config, "max.batch.size": "1", "skipped.operations": "none"})
    output, stored, end = Collected(direct=direct), Offset(start).stored(), database.position()
    while stored["gtids"] != str(end):
        stream = Stream(read, output, read_offset(stored, MARIADB))  # type: ignore[arg-type]
        before, deadline = stored, time.monotonic() + 30
        while stored == before:
            assert time.monotonic() < deadline
            stream.read()
            stored = stream.offset().stored()
            if whose != "ours":
                stored.pop("tidings_rows", None)
        stream.close()
        halves += "event" in stored
    whole = Collected(direct=direct)
    stream = Stream(read, whole, Offset(start))  # type: ignore[arg-type]
    while stream.offset().gtids != end:
        stream.read()
    stream.close()
    assert halves > 8
    assert output.records == whole.records
    updates = [value for _, _, value in whole.records if value and value.get("op") == "u"]
    assert updates
    assert not (unchanged and any(value["before"] == value["after"] for value in updates))


def test_a_truncation_is_told_of_a_table_that_is_gone(database: Database, config: Config) -> None:
    """Where rows of it were read; of one that nobody knows, nothing can be told."""
    database.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "CREATE TABLE u (id INT)")
    start = database.position()
    database.run("INSERT INTO t VALUES (1, 1)", "TRUNCATE t", "TRUNCATE u", "DROP TABLE t, u")
    output, end = Collected(direct=False), database.position()
    stream = Stream(read_config({**config, "skipped.operations": "none"}), output, Offset(start))  # type: ignore[arg-type]
    deadline = time.monotonic() + 30
    while stream.offset().gtids != end:
        assert time.monotonic() < deadline
        stream.read()
    stream.close()
    told_of = [(name, value["op"]) for name, _, value in output.records if name != "p.transaction"]
    assert told_of == [(topic(database, "t"), "c"), (topic(database, "t"), "t")]
    assert len(output.records) == 6


def test_transactions_and_the_age_of_the_last_change_are_counted(database: Database, config: Config) -> None:
    database.run("CREATE TABLE t (id INT)")
    start = database.position()
    database.run("INSERT INTO t VALUES (1), (2)", "INSERT INTO t VALUES (3)", "SELECT SLEEP(1.1)")
    connector_config = read_config({**config, "max.batch.size": "1"})
    stream = Stream(connector_config, Collected(direct=False), Offset(start))  # type: ignore[arg-type]
    try:
        assert (stream.transactions, stream.events, stream.lag_seconds, stream.last_seconds) == (0, 0, 0, 0)
        deadline = time.monotonic() + 30
        while stream.events < 2:
            assert time.monotonic() < deadline
            stream.read()
        behind = stream.lag_seconds
        assert 1 < behind < 600
        while not stream.read() or stream.events < 3:
            assert time.monotonic() < deadline
        assert (stream.transactions, stream.events, stream.lag_seconds) == (2, 3, 0)
        assert abs(time.time() - stream.last_seconds) < 600
    finally:
        stream.close()


def test_a_purged_log_stops_it_or_is_answered_with_a_snapshot(database: Database, config: Config) -> None:
    database.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")

    def lose(worker: MemoryWorker, number: int) -> None:
        worker.wait_for(
            lambda: (
                len(changes(worker, topic(database, "t"))) >= 1 and "snapshot" not in str(worker.offsets())
            ),
            "a row",
        )
        worker.stop()
        database.run(f"INSERT INTO t VALUES ({number})", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        database.purge()
        worker.resume()

    with running(config) as worker:
        lose(worker, 2)
        assert "purged" in str(failure(worker, "binlog_lost"))
    with running({**config, "snapshot.mode": "when_needed"}) as worker:
        lose(worker, 3)
        worker.wait_for(
            lambda: [op for op, _, _ in changes(worker, topic(database, "t"))] == ["r"] * 5, "a new snapshot"
        )


@pytest.mark.parametrize(
    ("setup", "statements", "words"),
    [
        ((), ("SET SESSION binlog_format = STATEMENT", "INSERT INTO t VALUES (1)"), "as a statement"),
        (
            ("CREATE TABLE old (u BINARY(16))",),
            ("INSERT INTO old VALUES ('x')", "SELECT SLEEP(1.1)", "ALTER TABLE old MODIFY u UUID"),
            "BINARY, UUID or an address",
        ),
    ],
    ids=["statement", "altered"],
)  # fmt: skip
def test_what_is_not_read_stops_it(
    database: Database, config: Config, setup: tuple[str, ...], statements: tuple[str, ...], words: str
) -> None:
    database.run("CREATE TABLE t (id INT)", *setup)
    with running({**config, "snapshot.mode": "no_data"}) as worker:
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        worker.stop()
        database.run(*statements)
        worker.resume()
        error = failure(worker, "mariadb_unsupported")
    assert words in str(error)


def test_a_table_without_transactions_is_not_snapshotted(database: Database, config: Config) -> None:
    database.run("CREATE TABLE t (id INT) ENGINE=MyISAM")
    with running(config) as worker:
        assert "engine MyISAM" in str(failure(worker, "mariadb_unsupported"))


def test_a_server_that_logs_no_names_is_refused(database: Database, config: Config) -> None:
    database.run("SET GLOBAL binlog_row_metadata = MINIMAL")
    try:
        with pytest.raises(OptionError, match="binlog_row_metadata is MINIMAL"), running(config):
            pass
    finally:
        database.run("SET GLOBAL binlog_row_metadata = FULL")
