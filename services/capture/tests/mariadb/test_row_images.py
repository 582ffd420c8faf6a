"""What becomes of cells that the log does not tell (``binlog_row_image``), on a worker in memory and a real server."""

import hashlib
import json

import pytest
from mariadb_parts import Database
from mariadb_worker import Config, changes, failure, running, topic

from tidings_envelope.toast import UNAVAILABLE


def test_what_noblob_leaves_out_has_a_placeholder(database: Database, config: Config) -> None:
    """As a TOAST value of PostgreSQL that has not changed; a number has none, and stops the task."""
    database.run("CREATE TABLE t (id INT PRIMARY KEY, n INT, d TEXT NOT NULL, e BLOB)")
    database.run("SET GLOBAL binlog_row_image = NOBLOB", "SET SESSION binlog_row_image = NOBLOB")
    options = {"snapshot.mode": "no_data", "unavailable.value.placeholder": "?"}
    try:
        with running({**config, **options}) as worker:
            worker.wait_for(lambda: bool(worker.offsets()), "the start")
            database.run("INSERT INTO t (id, n, d) VALUES (1, 1, 'x')", "UPDATE t SET n = 2")
            database.run("UPDATE t SET d = 'y'", "UPDATE t SET id = 2", "DELETE FROM t")
            worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) >= 8, "the changes")
            database.run("SET SESSION binlog_row_image = MINIMAL", "INSERT INTO t (id, d) VALUES (1, 'x')")
            error = failure(worker, "mariadb_unsupported")
            found = changes(worker, topic(database, "t"))
    finally:
        database.run("SET GLOBAL binlog_row_image = FULL")
    question = {"d": "?", "e": "Pw=="}
    one, two = {"id": 1, "n": 2, **question}, {"id": 2, "n": 2, **question}
    assert [change for change in found if change[0]] == [
        ("c", None, {"id": 1, "n": 1, "d": "x", "e": None}),
        ("u", {"id": 1, "n": 1, **question}, one),
        ("u", one, {**one, "d": "y"}),
        ("d", one, None),
        ("c", None, two),
        ("d", two, None),
    ]
    assert "does not tell column 'n' of a row" in str(error)


VIRTUAL = (
    "CREATE TABLE t (id INT PRIMARY KEY, n INT, s INT AS (n + 1) STORED, i INT AS (n + 2) VIRTUAL, v INT AS (n + 3) VIRTUAL,"
    " w TEXT AS (CONCAT(n, '!')) VIRTUAL, KEY (i))"
)


@pytest.mark.parametrize("image", ["FULL_NODUP", "NOBLOB"])
def test_a_virtual_column_that_an_image_leaves_out_is_never_told_as_unchanged(
    database: Database, config: Config, image: str
) -> None:
    """MariaDB leaves out those that have changed, too, unless they are in an index."""
    database.run(VIRTUAL)
    offered = {**config, "snapshot.mode": "no_data"}
    without = {**offered, "column.exclude.list": r".*\.(v|w)"}
    with running(offered) as worker, running(without) as other:
        for one in (worker, other):
            one.wait_for(lambda one=one: one.state == "RUNNING" and bool(one.offsets()), "the start")
        database.run("INSERT INTO t (id, n) VALUES (1, 1)", "UPDATE t SET n = 2")
        for one in (worker, other):
            one.wait_for(lambda one=one: len(changes(one, topic(database, "t"))) == 2, "the changes")
        database.run(f"SET SESSION binlog_row_image = {image}", "UPDATE t SET n = 7")
        other.wait_for(lambda: len(changes(other, topic(database, "t"))) == 3, "the change")
        error = failure(worker, "mariadb_unsupported")
    assert f"VIRTUAL column '{'w' if image == 'NOBLOB' else 'v'}' of {database.name}.t" in str(error)
    assert changes(worker, topic(database, "t"))[1] == (
        "u",
        {"id": 1, "n": 1, "s": 2, "i": 3, "v": 4, "w": "1!"},
        {"id": 1, "n": 2, "s": 3, "i": 4, "v": 5, "w": "2!"},
    )
    assert len(changes(worker, topic(database, "t"))) == 2
    assert changes(other, topic(database, "t"))[-1] == (
        "u",
        {"id": 1, "n": 2, "s": 3, "i": 4},
        {"id": 1, "n": 7, "s": 8, "i": 9},
    )


def test_what_noblob_leaves_out_is_masked_all_the_same(database: Database, config: Config) -> None:
    """And so is every other way that a text may take: snapshot, log, incremental snapshot."""
    database.run(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, d TEXT, e TEXT, f VARCHAR(9))",
        "CREATE TABLE s (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)",
        "INSERT INTO t VALUES (1, 1, 'secret 1', NULL, 'secret')",
        "SET SESSION binlog_row_image = NOBLOB",
    )
    options = {
        "column.mask.with.3.chars": ".*[.]d",
        "column.mask.hash.v2.MD5.with.salt.s": ".*[.]e",
        "column.truncate.to.2.chars": ".*[.]f",
        "signal.data.collection": f"{database.name}.s",
        "table.include.list": ".*[.]t",
    }
    with running({**config, **options}) as worker:
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) == 1, "the snapshot")
        database.run(
            "UPDATE t SET n = 2", "UPDATE t SET d = 'secret 2', e = 'secret 3'", "UPDATE t SET n = 3"
        )
        database.run("DELETE FROM t", "INSERT INTO t VALUES (2, 1, 'secret 4', 'secret 5', NULL)")
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) == 7, "the changes")
        signal = json.dumps({"data-collections": [f"{database.name}.t"]})
        database.run(f"INSERT INTO s VALUES ('1', 'execute-snapshot', '{signal}')")
        worker.wait_for(
            lambda: len(changes(worker, topic(database, "t"))) == 8, "the snapshot that was asked for"
        )
        found = changes(worker, topic(database, "t"))
        whole = repr(list(worker.kafka.topics[topic(database, "t")]))
    assert "ecret" not in whole
    rows = [row for _, before, after in found for row in (before, after) if row]
    assert {row["d"] for row in rows} == {"***"}
    assert {row["f"] for row in rows} == {"se", None}
    hashes = {
        hashlib.md5(f"s{text}".encode(), usedforsecurity=False).hexdigest()
        for text in ("secret 3", "secret 5", UNAVAILABLE)
    }
    assert {row["e"] for row in rows} <= {None, *hashes}
