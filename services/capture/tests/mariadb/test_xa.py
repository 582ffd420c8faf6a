"""Distributed transactions (XA): told when they are committed, never before, over restarts of the stream at any place."""

import itertools
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mariadb_parts import Database, connector_options
from mariadb_worker import Collected

from tidings_capture.mysql.binlog.gtid import GtidPosition
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import BinlogLostError
from tidings_capture.mysql.flavours.mariadb import MARIADB
from tidings_capture.mysql.offset import Offset, read_offset
from tidings_capture.mysql.settings.config import MariaDbConfig, read_config
from tidings_capture.mysql.snapshots.locks import Locks
from tidings_capture.mysql.streaming import prepared
from tidings_capture.mysql.streaming.observers import Streamed
from tidings_capture.mysql.streaming.stream import Stream
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.waiting import wait_for


@pytest.fixture
def database(database: Database, unique_name: str) -> Iterator[Database]:
    database.run("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    yield database
    for _, length, _, data in database.run("XA RECOVER"):
        if (data if isinstance(data, str) else data.decode()).startswith(unique_name):
            finish(database, data[int(length) :], "ROLLBACK")


@pytest.fixture
def config(mariadb: MariaDbServer, unique_name: str) -> MariaDbConfig:
    return read_config(
        connector_options(mariadb, unique_name)
        | {
            "provide.transaction.metadata": "true",
            "max.batch.size": "1",
        }
    )


def prepare(database: Database, name: str, *statements: str) -> None:
    """By a session of its own, which can do nothing else afterwards, and has ended when this returns."""
    xid, session = f"'{database.name}', '{name}', 7", Session(database.endpoint)
    for statement in (
        f"USE {database.name}",
        f"XA START {xid}",
        *statements,
        f"XA END {xid}",
        f"XA PREPARE {xid}",
    ):
        session.rows(statement)
    ((number,),) = session.rows("SELECT CONNECTION_ID()")
    session.close()
    # MariaDB 11.4.5 logs the commit of one whose session is just ending, and now and then loses its rows.
    ended = f"SELECT 1 FROM information_schema.processlist WHERE id = {number}"
    wait_for("the session's end", lambda: not database.run(ended), 20)


def finish(database: Database, name: str, how: str = "COMMIT") -> None:
    database.run(f"XA {how} '{database.name}', '{name}', 7")


def read(
    config: MariaDbConfig, start: dict[str, Any], end: GtidPosition, chance: random.Random | None = None
) -> tuple[list[Any], dict[str, Any]]:
    """The records up to a position, and the offset there.

    Args:
        chance: says after which batches the stream begins anew.
    """
    output, stored, deadline = Collected(direct=True), start, time.monotonic() + 60
    stream = Stream(config, output, read_offset(stored, MARIADB))  # type: ignore[arg-type]
    while stored["gtids"] != str(end):
        assert time.monotonic() < deadline
        before = stored
        stream.read()
        stored = stream.offset().stored()
        # A connection that is closed before the server has begun to send would end its successor.
        if chance is not None and stored != before and chance.random() < 0.5:
            stream.close()
            stream = Stream(config, output, read_offset(stored, MARIADB))  # type: ignore[arg-type]
    stream.close()
    return output.records, stored


def newest(database: Database) -> str:
    """The GTID of the last commit in the server's own domain: other tests may have left another in its position."""
    return next(part for part in str(database.position()).split(",") if part.startswith("0-"))


def rows(records: list[Any]) -> list[Any]:
    return [(v["op"], v["after"], v["source"]["gtid"]) for topic, _, v in records if topic != "p.transaction"]


def markers(records: list[Any]) -> list[Any]:
    return [(v["status"], v["id"], v["event_count"]) for topic, _, v in records if topic == "p.transaction"]


def test_rows_are_told_when_they_are_committed(database: Database, config: MariaDbConfig) -> None:
    """In the order of commits, with the commit's GTID; what is rolled back is not told, and what is prepared waits."""
    start = Offset(database.position()).stored()
    prepare(
        database,
        "a",
        "INSERT INTO t VALUES (1, 1)",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (9, 9)",
        "ROLLBACK TO s",
    )
    prepare(database, "b", "INSERT INTO t VALUES (2, 2)")
    prepare(database, "c", "INSERT INTO t VALUES (3, 3)")
    database.run("INSERT INTO t VALUES (4, 4)")
    plain = newest(database)
    finish(database, "b", "ROLLBACK")
    found, stored = read(config, start, database.position())
    assert rows(found) == [("c", {"id": 4, "n": 4}, plain)]
    assert sorted(part.partition(":")[0] for part in stored["tidings_prepared"].split(";")) == [
        f"7-{database.name.encode().hex()}-{name.encode().hex()}" for name in "ac"
    ]
    finish(database, "c")
    third = newest(database)
    finish(database, "a")
    first = newest(database)
    more, stored = read(config, stored, database.position())
    assert rows(more) == [("c", {"id": 3, "n": 3}, third), ("c", {"id": 1, "n": 1}, first)]
    assert markers(more) == [
        ("BEGIN", third, None), ("END", third, 1), ("BEGIN", first, None), ("END", first, 1),
    ]  # fmt: skip
    assert "tidings_prepared" not in stored


@pytest.mark.parametrize("kept", [True, False], ids=["memory", "log"])
def test_a_stream_that_begins_anew_at_any_place_tells_the_same(
    database: Database, config: MariaDbConfig, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kept:
        monkeypatch.setattr(prepared, "_MOST_BYTES", 0)
    chance = random.Random(20261125)
    start, open_ones, number = database.position(), [], 0
    for step in range(30):
        number += 10
        values = ", ".join(f"({number + i}, {step})" for i in range(chance.randint(1, 4)))
        match chance.choice(("plain", "xa", "xa", "end", "end")):
            case "plain":
                database.run(
                    "BEGIN",
                    f"INSERT INTO t VALUES {values}",
                    f"INSERT INTO t VALUES ({number + 9}, 0)",
                    "COMMIT",
                )
            case "xa":
                prepare(
                    database,
                    str(step),
                    f"INSERT INTO t VALUES {values}",
                    f"INSERT INTO t VALUES ({number + 9}, 0)",
                )
                open_ones.append(str(step))
            case _ if open_ones:
                one = open_ones.pop(chance.randrange(len(open_ones)))
                finish(database, one, chance.choice(("COMMIT", "COMMIT", "ROLLBACK")))
    for one in open_ones:
        finish(database, one)
    end, begin = database.position(), Offset(start).stored()
    whole, _ = read(config, begin, end)
    parts, _ = read(config, begin, end, random.Random(1))
    assert parts == whole
    ids = [after["id"] for _, after, _ in rows(whole)]
    assert sorted(ids) == sorted(int(number) for (number,) in database.run("SELECT id FROM t"))


def test_one_that_was_prepared_before_the_stream_began_is_searched_for(
    database: Database, config: MariaDbConfig
) -> None:
    """As behind a snapshot; the last one of its name. One whose log is purged is an error."""
    prepare(database, "a", "INSERT INTO t VALUES (1, 1)")
    finish(database, "a", "ROLLBACK")
    prepare(database, "a", "INSERT INTO t VALUES (2, 2)")
    prepare(database, "b", "INSERT INTO t VALUES (3, 3)")
    begin = Offset(database.position()).stored()
    finish(database, "a")
    found, stored = read(config, begin, database.position())
    assert [after for _, after, _ in rows(found)] == [{"id": 2, "n": 2}]
    database.run("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    database.purge()
    finish(database, "b")
    with pytest.raises(BinlogLostError, match="no longer has the rows of the distributed transaction"):
        read(config, stored, database.position())


@pytest.mark.parametrize("batch", ["1", "100"])
@pytest.mark.parametrize("how", ["COMMIT", "ROLLBACK"])
def test_a_stream_goes_no_further_than_to_one_that_it_is_to_stop_at(
    mariadb: MariaDbServer, unique_name: str, database: Database, batch: str, how: str
) -> None:
    """Else a change behind a snapshot would be told before the snapshot's rows."""
    options = connector_options(mariadb, unique_name) | {"max.batch.size": batch}
    start = database.position()
    prepare(database, "a", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
    finish(database, "a", how)
    end = database.position()
    database.run("DELETE FROM t", "INSERT INTO t VALUES (3, 3)")
    output = Collected(direct=True)
    stream = Stream(read_config(options), output, Offset(start))
    stream.stop_at(end)
    deadline = time.monotonic() + 60
    while not (stream.has_reached(end) and stream.between_transactions):
        assert time.monotonic() < deadline
        stream.read()
    assert stream.offset().gtids == end
    stream.close()
    assert [(op, after["id"]) for op, after, _ in rows(output.records)] == (
        [("c", 1), ("c", 2)] if how == "COMMIT" else []
    )


@contextmanager
def writing(database: Database) -> Iterator[str]:
    """Three writers of distributed transactions, each of which inserts the next number of its own; the name of their table."""
    stop, table = threading.Event(), f"{database.name}.x"
    database.run(f"CREATE TABLE {table} (writer INT, n INT, PRIMARY KEY (writer, n))", "FLUSH BINARY LOGS")

    def write(writer: int) -> None:
        session = Session(database.endpoint)
        for number in itertools.count(1):
            xid = f"'{writer}', '{number}', 7"
            insert = f"INSERT INTO {table} VALUES ({writer}, {number})"
            for statement in (
                f"XA START {xid}",
                insert,
                f"XA END {xid}",
                f"XA PREPARE {xid}",
                f"XA COMMIT {xid}",
            ):
                session.rows(statement)
            if stop.is_set():
                break
        session.close()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        wait_for("commits", lambda: int(database.run(f"SELECT COUNT(*) FROM {table}")[0][0]) > 30, 30)
        yield table
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def last_numbers(session: Session, table: str) -> dict[int, int]:
    """What is seen of each writer."""
    found = session.rows(f"SELECT writer, MAX(n) FROM {table} GROUP BY writer")
    return {int(writer): int(number) for writer, number in found}


def test_a_snapshot_sees_every_commit_that_lies_before_it(database: Database, config: MariaDbConfig) -> None:
    """The server puts the commit of a distributed transaction before its snapshot's position some time before it can be seen."""
    seen = []
    with writing(database) as table:
        *_, (file, *_) = database.run("SHOW BINARY LOGS")
        for _ in range(400):
            locks, session = Locks(config), Session(database.endpoint)
            moment = MARIADB.begin(session, [], database.endpoint, may_lock=True, locked=False)
            locks.begun()
            seen.append((moment.offset.position, last_numbers(session, table)))
            session.close()
    commits = [
        (int(end), int(bytes.fromhex(found[1])), int(bytes.fromhex(found[2])))
        for *_, end, info in database.run(f"SHOW BINLOG EVENTS IN '{file}'")
        if (found := re.match(r"XA COMMIT X'(\w+)',X'(\w+)',7", info))
    ]
    assert len(commits) > 100
    wrong = [
        (position, writer, number, last[writer])
        for position, last in seen
        for end, writer, number in commits
        if end <= position and last.get(writer, 0) < number
    ]
    assert wrong == []


def test_what_the_server_still_lists_as_prepared_is_not_seen(database: Database) -> None:
    """A commit that is in the log, and before a snapshot's position, is listed until it can be seen."""
    prepare(database, "a", "INSERT INTO t VALUES (1, 1)")
    session = Session(database.endpoint)
    session.rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    streamed = Streamed(
        database.position(), distributed=frozenset({f"7-{database.name.encode().hex()}-{b'a'.hex()}"})
    )
    assert not MARIADB.sees(session, streamed)
    finish(database, "a")
    assert MARIADB.sees(session, streamed)
    session.close()
