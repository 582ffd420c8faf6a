"""MySQL's connector on a real server: records, restarts in the midst of transactions, what is gone, refusals."""

import json
import random
from itertools import pairwise
from typing import Any

import pytest
from mariadb_worker import changes, failure, records, running, topic
from mysql_parts import MySqlDatabase, streamed
from mysql_versions import TAGS

from tidings_capture.mysql.binlog.file_position import FilePosition
from tidings_capture.mysql.binlog.gtid_set import GtidSet
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import OtherServerError
from tidings_capture.mysql.flavours.mysql import MYSQL
from tidings_capture.mysql.offset import read_offset
from tidings_envelope.commit_number import row_position

Config = dict[str, str]


def test_a_snapshot_and_every_kind_of_transaction(database: MySqlDatabase, config: Config) -> None:
    """Plain, compressed, tagged, distributed in two steps and in one; with the connection's number, and the event's place."""
    database.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9))", "INSERT INTO t VALUES (1, 'x'), (2, 'y')"
    )
    with running({**config, "include.query": "true"}) as worker:
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) >= 2, "the snapshot")
        ((thread,),) = database.run("SELECT CONNECTION_ID()")
        database.run(
            "SET SESSION binlog_rows_query_log_events = ON",
            "INSERT INTO t VALUES (3, 'ä'), (4, 'z')",
            "SET SESSION binlog_rows_query_log_events = OFF",
            "UPDATE t SET id = 5 WHERE id = 4",
            "SET SESSION binlog_transaction_compression = ON",
            "INSERT INTO t VALUES (6, 'packed')",
            "SET SESSION binlog_transaction_compression = OFF",
            "SET SESSION gtid_next = 'AUTOMATIC:tagged'",
            "INSERT INTO t VALUES (7, 'tagged')",
            "SET SESSION gtid_next = 'AUTOMATIC'",
            "XA START 'two'",
            "INSERT INTO t VALUES (8, 'two')",
            "XA END 'two'",
            "XA PREPARE 'two'",
            "DELETE FROM t WHERE id = 3",
            "XA COMMIT 'two'",
            "XA START 'one'",
            "INSERT INTO t VALUES (9, 'one')",
            "XA END 'one'",
            "XA COMMIT 'one' ONE PHASE",
        )
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) >= 13, "the changes")
        found = records(worker, topic(database, "t"))
        markers = [v for _k, v, _h in records(worker, "p.transaction")]
        ends = [
            int(h["tidings.commit"]) for _k, v, h in records(worker, "p.transaction") if v["status"] == "END"
        ]
    assert [(value and value["op"], key["id"]) for key, value, _ in found] == [
        ("r", 1), ("r", 2), ("c", 3), ("c", 4), ("d", 4), (None, 4), ("c", 5), ("c", 6), ("c", 7), ("d", 3), (None, 3),
        ("c", 8), ("c", 9),
    ]  # fmt: skip
    sources = [value["source"] for _, value, _ in found if value and value["op"] != "r"]
    assert {source["connector"] for source in sources} == {"mysql"}
    assert {source["thread"] for source in sources} == {int(thread)}
    assert [source["row"] for source in sources[:2]] == [0, 1]
    assert sources[0]["query"] == "INSERT INTO t VALUES (3, 'ä'), (4, 'z')"
    assert [source["gtid"].count(":tagged:") for source in sources if source["ts_us"]].count(1) == (
        database.version >= TAGS
    )
    assert [m["event_count"] for m in markers if m["status"] == "END"] == [2, 2, 1, 1, 1, 1, 1]
    assert json.loads(found[4][2]["__debezium.newkey"]) == {"id": 5}
    (read,) = {int(headers["tidings.as.of"]) for _, value, headers in found if value and value["op"] == "r"}
    numbers = [int(headers["tidings.commit"]) for _, _, headers in found[2:]]
    assert read < row_position(numbers[0], 1)
    assert numbers == sorted(numbers)
    assert list(dict.fromkeys(numbers)) == ends


def test_texts_behind_a_geometry_have_their_own_character_sets(
    database: MySqlDatabase, config: Config
) -> None:
    """The log's lists of character sets do not count a geometry."""
    columns = "id INT PRIMARY KEY, l VARCHAR(9) CHARACTER SET latin1, g GEOMETRY, a VARCHAR(9), b TEXT CHARACTER SET latin1, c CHAR(9), j JSON"
    row = "ST_GeomFromText('POINT(1 2)'), 'ä', 'é', 'ö', '[\"ü\"]'"
    database.run(f"CREATE TABLE t ({columns})", f"INSERT INTO t VALUES (1, 'è', {row})")
    with running(config) as worker:
        worker.wait_for(lambda: bool(worker.offsets()), "the snapshot")
        database.run(f"INSERT INTO t VALUES (2, 'è', {row})", "UPDATE t SET id = 3 WHERE id = 2")
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) >= 5, "the changes")
        found = changes(worker, topic(database, "t"))
    texts = [[(after or before)[n] for n in "labcj"] for op, before, after in found if op]
    assert texts == [["è", "ä", "é", "ö", '["ü"]']] * 4


@pytest.mark.parametrize("kind", ["gtids", "events", "files"])
def test_it_goes_on_in_the_midst_of_a_transaction(database: MySqlDatabase, config: Config, kind: str) -> None:
    """A new stream after every event of rows: by the number of rows, by Debezium's numbers, or by bytes of files alone.

    The numbers of commits are the same, although the server's clock goes back and two transactions say the same time."""
    chance = random.Random(17)
    database.run("CREATE TABLE a (id INT PRIMARY KEY, n INT)", "CREATE TABLE b (id INT, n INT)")
    start, rows = database.position() if kind != "files" else database.file_position(), 0
    for turn in range(4):
        database.run(f"SET SESSION binlog_transaction_compression = {turn == 1}", "BEGIN")
        for _ in range(chance.randint(2, 5)):
            count = chance.randint(1, 5)
            values = ", ".join(f"({rows + n}, {n})" for n in range(count))
            database.run(f"INSERT INTO {chance.choice('ab')} VALUES {values}")
            rows += count
        if turn == 2:
            database.run("SET SESSION original_commit_timestamp = 1000000")
        database.run("UPDATE b SET n = n + 1", "COMMIT", "FLUSH BINARY LOGS", "TRUNCATE TABLE b")
    end = database.position() if kind != "files" else database.file_position()
    left_out = {"events": {"tidings_rows"}, "files": {"gtids"}, "gtids": set()}[kind]

    def kept(stored: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in stored.items() if name not in left_out}

    small = {**config, "max.batch.size": "1", "skipped.operations": "none"}
    numbers: list[int] = []
    whole_numbers: list[int] = []
    found, halves = streamed(small, start, end, direct=True, kept=kept, numbers=numbers)
    whole, _ = streamed(small, start, end, direct=False, numbers=whole_numbers)
    assert halves > 8
    assert [name for name, _, _ in found].count("p.transaction") >= 8
    assert _rows(found) == _rows(whole)
    ends = [
        n
        for n, (name, _, value) in zip(numbers, found, strict=True)
        if name == "p.transaction" and value["status"] == "END"
    ]
    assert numbers == sorted(numbers)
    assert ends == sorted(set(numbers))
    of_rows = [
        [n for n, (name, _, _) in zip(ns, records, strict=True) if name != "p.transaction"]
        for ns, records in ((numbers, found), (whole_numbers, whole))
    ]
    assert of_rows[0] == of_rows[1]
    assert min(later - one for one, later in pairwise(ends)) == 1, "of a time before it"
    only_b = {**small, "table.include.list": rf"{database.name}\.b"}
    some_numbers: list[int] = []
    streamed(only_b, start, end, direct=True, numbers=some_numbers)
    assert set(some_numbers) <= set(numbers)


@pytest.mark.parametrize("by_file", [False, True])
def test_one_that_was_prepared_before_the_stream_began_is_searched_for(
    database: MySqlDatabase, config: Config, by_file: bool
) -> None:
    """The log is read from its beginning on, and from the transaction before it then; files end in between."""
    place = database.file_position if by_file else database.position
    database.run(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
        "XA START 'searched'",
        "INSERT INTO t VALUES (2), (3)",
        "XA END 'searched'",
        "XA PREPARE 'searched'",
        "FLUSH BINARY LOGS",
        "INSERT INTO t VALUES (4)",
    )
    start, committed = place(), database.file_position()
    database.run("XA COMMIT 'searched'")
    found, _ = streamed({**config, "provide.transaction.metadata": "false"}, start, place(), direct=False)
    assert [key for _, key, _ in found] == [{"id": 2}, {"id": 3}]
    told = {FilePosition(value["source"]["file"], value["source"]["pos"]) for _, _, value in found}
    assert all(one.contains(committed) and not one.contains(database.file_position()) for one in told)


def _rows(found: list[Any]) -> list[Any]:
    """What does not depend on whether the log names transactions."""
    return [
        (
            name,
            key,
            value["op"],
            value["before"],
            value["after"],
            value["source"]["row"],
            value["source"]["pos"],
        )
        for name, key, value in found
        if name != "p.transaction"
    ]


def test_a_purged_log_and_another_server_are_told_apart(database: MySqlDatabase, config: Config) -> None:
    database.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with running(config) as worker:
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) >= 1, "the snapshot")
        worker.stop()
        database.run("INSERT INTO t VALUES (2)")
        database.purge()
        worker.resume()
        assert "purged" in str(failure(worker, "binlog_lost"))
        worker.stop()
        worker.put({**config, "snapshot.mode": "when_needed"})
        worker.resume()
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) >= 3, "a new snapshot")
    session = Session(database.endpoint)
    try:
        with pytest.raises(OtherServerError, match="never logged"):
            MYSQL.check_position(session, GtidSet.read("00000000-0000-0000-0000-000000000001:1-9"), "here")
        file, _ = database.file_position()
        with pytest.raises(OtherServerError):
            MYSQL.check_position(session, MYSQL.position(f"{file}:999999999"), "here")
    finally:
        session.close()


def test_a_stored_offset_is_debeziums() -> None:
    uuid = "24bc7850-2c16-11e6-a073-0242ac110002"
    stored = {
        "ts_sec": 5,
        "file": "bin.000002",
        "pos": 4,
        "gtids": f"{uuid}:1-5:7",
        "row": 1,
        "server_id": 3,
        "event": 2,
        "tidings_commit": 1_790_000_000_000_000,
    }
    assert read_offset(stored, MYSQL).stored() == stored
    plain = {name: value for name, value in stored.items() if name != "gtids"}
    assert read_offset(plain, MYSQL).stored() == plain
