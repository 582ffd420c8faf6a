"""What the tests of MariaDB's and MySQL's snapshots and signals share: a connector with signals over REST, a writer, a judge, and cases of both."""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from mariadb_parts import Database
from mariadb_worker import CONNECTORS, Config

from tidings_capture.mysql.client import Session
from tidings_connect.task.channel import SIGNAL, Command
from tidings_connect.testing.memory_worker import MemoryWorker

NOTES = "notes"
READ_ONLY = {"read.only": "true", "signal.data.collection": ""}
KEYS = {
    "BIGINT UNSIGNED": [
        "0",
        "9007199254740993",
        "9007199254740994",
        "18446744073709551614",
        "18446744073709551615",
    ],
    "DECIMAL(30,10)": ["-1.5", "0", "9007199254740993.1", "9007199254740993.2", "1e19"],
    "DOUBLE": ["-1e300", "-0.1", "0.1", "0.3", "1e-300"],
    "FLOAT": ["-1.1", "0.1", "3.4e38", "16777217", "1.17e-38"],
    "BIT(12)": ["0", "1", "255", "256", "4095"],
    "YEAR": ["1901", "2000", "2155", "0", "1999"],
    "VARCHAR(20)": ["'a'", "'B'", "'ä'", "'it''s'", "'b\\\\%%'"],
    "VARCHAR(20) CHARACTER SET latin1": ["'a'", "'Z'", "'é'", "'ÿ'", "'€'"],
    "VARCHAR(20) COLLATE utf8mb4_bin": ["'a'", "'B'", "'b'", "'😀'", "''"],
    "VARBINARY(20)": ["''", "x'00'", "x'00ff'", "x'27'", "x'5c'"],
    "BINARY(3)": ["'a'", "x'000000'", "x'ff27'", "'abc'", "x'5c5c'"],
    "ENUM('b','a','c,d')": ["'b'", "'a'", "'c,d'"],
    "SET('z','y','x')": ["''", "'z'", "'y'", "'z,y'", "'x'"],
    "DATE": ["'0000-00-00'", "'1000-01-01'", "'2020-02-29'", "'9999-12-31'"],
    "TIME(3)": ["'-838:59:59'", "'-00:00:00.5'", "'00:00:00'", "'100:00:00.001'"],
    "DATETIME(6)": [
        "'2020-01-01 00:00:00.000001'",
        "'2020-01-01 00:00:00.000002'",
        "'0000-00-00 00:00:00'",
        "'9999-12-31 23:59:59.999999'",
    ],
    "TIMESTAMP(3)": [
        "'2020-01-01 00:00:00.001'",
        "'2020-01-01 00:00:00.002'",
        "'2030-01-01'",
        "'1970-01-02'",
    ],
    "UUID": [
        "'123e4567-e89b-12d3-a456-426655440000'",
        "'00000000-0000-0000-0000-000000000001'",
        "'ffffffff-ffff-1fff-bfff-ffffffffffff'",
    ],
    "INET6": ["'::1'", "'2001:db8::ff00:42:8329'", "'::ffff:1.2.3.4'"],
}
"""Values of keys as SQL writes them, by type."""


class Case:
    """A connector, and signals to it over REST."""

    def __init__(self, worker: MemoryWorker, database: Database) -> None:
        self.worker, self.database = worker, database
        self._signals = 0

    def signal(self, type_: str, **data: Any) -> str:
        """One over REST; its id."""
        self._signals += 1
        id_ = f"s{self._signals}"
        self.worker.tell(Command(SIGNAL, json.dumps({"id": id_, "type": type_, "data": data})))
        return id_

    def execute(self, *tables: str, **more: Any) -> str:
        names = [f"{self.database.name}.{table}" for table in tables]
        return self.signal("execute-snapshot", **{"data-collections": names}, **more)

    def told(self, type_: str | None = None) -> list[Any]:
        """Notifications."""
        return [n for n in self.worker.values(NOTES) if type_ in {None, n["type"]}]

    def wait_told(self, type_: str, count: int = 1) -> None:
        self.worker.wait_for(lambda: len(self.told(type_)) >= count, f"{count} {type_}")

    def values(self, table: str) -> list[Any]:
        return self.worker.values(f"p.{self.database.name}.{table}")

    def read(self, table: str, column: str = "id") -> list[Any]:
        """A column of the rows that snapshots have read."""
        return [v["after"][column] for v in self.values(table) if v["op"] == "r"]


def with_signals(config: Config, database: Database) -> Config:
    """Options of a connector that reads no rows at its start, takes signals from a table of its database, and notifies."""
    database.run("CREATE TABLE signals (id VARCHAR(100) PRIMARY KEY, type VARCHAR(100), data TEXT)")
    return config | {
        "snapshot.mode": "no_data",
        "signal.data.collection": f"{database.name}.signals",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": NOTES,
    }


@contextmanager
def running(config: Config, database: Database) -> Iterator[Case]:
    # Exactly once: the other way a producer in memory sends nothing before the position changes.
    with MemoryWorker(CONNECTORS[config["connector.class"]](), "c", exactly_once=True) as worker:
        worker.put(config)
        worker.wait_for(lambda: worker.state == "RUNNING" and bool(worker.offsets()), "the start")
        yield Case(worker, database)


class Writer:
    """Writes rows in which a counter grows, in a thread: each version of a row has a greater one than all before."""

    def __init__(self, database: Database, seed: int) -> None:
        self._session = Session(database.endpoint)
        self._name, self._chance = database.name, random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._session.close()

    def _write(self) -> None:
        chance, run = self._chance, self._session.rows
        version, next_id = 1000, 10_000
        run(f"USE {self._name}")
        while not self._stop.is_set():
            run("BEGIN")
            for _ in range(chance.randint(1, 4)):
                version += 1
                low = chance.randint(1, 300)
                match chance.choice(("update", "update", "delete", "insert", "move")):
                    case "update":
                        run(
                            f"UPDATE a SET v = {version} WHERE id BETWEEN {low} AND {low + chance.randint(0, 9)}"
                        )
                    case "delete":
                        run(f"DELETE FROM a WHERE id = {low}")
                    case "insert":
                        next_id += 1
                        run(f"INSERT INTO a (id, v, n) VALUES ({next_id}, {version}, 0)")
                    case _:
                        next_id += 1
                        run(f"UPDATE a SET id = {next_id}, v = {version} WHERE id = {low}")
            run("ROLLBACK" if chance.random() < 0.1 else "COMMIT")


def judged(case: Case, expected: dict[int, int]) -> list[str]:
    """What is wrong with the topic of `a`: no row is missing or wrong at its end, none goes back in time, none comes back."""
    problems: list[str] = []
    state: dict[int, int] = {}
    gone: set[int] = set()
    for number, value in enumerate(case.values("a")):
        row = value["before"] if value["op"] == "d" else value["after"]
        id_, version = row["id"], row["v"]
        if id_ in gone:
            problems.append(f"record {number} ({value['op']}): row {id_} comes back")
        if value["op"] == "d":
            gone.add(id_)
            state.pop(id_, None)
            continue
        if version < state.get(id_, 0):
            problems.append(f"record {number} ({value['op']}): row {id_} goes back")
        state[id_] = version
    if state != expected:
        problems.append(f"{len(state.keys() ^ expected.keys())} rows are missing or too many")
    return problems


def incremental_amid_writes(database: Database, config: Config, seed: int, kill: str | None) -> list[str]:
    """Two incremental snapshots of a table that is written meanwhile; the types of the notifications but those of progress.

    Args:
        kill: the place in the code where the task dies; None: a column comes in between.
    """
    create_numbered(database)
    with running(config | {"incremental.snapshot.chunk.size": "7"}, database) as case:
        with Writer(database, seed):
            case.execute("a")
            if kill is not None:
                with case.worker.crash_at(kill, 8) as happened:
                    case.worker.wait_for(lambda: happened.is_set() and not case.worker.tasks, "the crash")
                case.worker.resume()
            else:
                database.run("ALTER TABLE a ADD COLUMN x INT DEFAULT 5 AFTER id")
            case.wait_told("COMPLETED")
            case.execute("a")
            case.wait_told("COMPLETED", 2)
        assert judged_at_last(case) == []
        return [note["type"] for note in case.told() if note["type"] != "IN_PROGRESS"]


def blocking_amid_writes(case: Case) -> None:
    """Three blocking snapshots of a table that is written meanwhile."""
    with Writer(case.database, 7):
        case.worker.wait_for(lambda: len(case.values("a")) > 20, "changes")
        for number in range(3):
            case.execute("a", type="blocking")
            case.wait_told("COMPLETED", number + 1)
    assert judged_at_last(case) == []
    rows = [v for v in case.values("a") if v["op"] == "r"]
    is_off = case.database.run("SHOW GLOBAL VARIABLES LIKE 'gtid_mode'") == [("gtid_mode", "OFF")]
    assert (rows[0]["source"]["gtid"] is None) is is_off
    assert {rows[0]["source"]["snapshot"], rows[-1]["source"]["snapshot"]} == {"first", "last"}


def create_numbered(database: Database) -> None:
    """The table that `Writer` writes."""
    rows = ", ".join(f"({number}, {number}, 0)" for number in range(1, 301))
    database.run("CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL, n INT)", f"INSERT INTO a VALUES {rows}")


def judged_at_last(case: Case) -> list[str]:
    """As `judged`, once a last row has arrived."""
    case.database.run("INSERT INTO a (id, v, n) VALUES (-1, 1000000000, 0)")
    case.worker.wait_for(lambda: (case.values("a")[-1]["after"] or {}).get("id") == -1, "the last row")
    return judged(case, {int(id_): int(v) for id_, v in case.database.run("SELECT id, v FROM a")})


def snapshot_behind_an_unseen_commit(
    database: Database, config: Config, kind: str, other: Session, commit: str, answered: str
) -> tuple[str, list[Any]]:
    """A snapshot begins while a semi-synchronous replica does not answer: the log has a deletion, and who reads still sees the row.

    Args:
        kind: ``incremental``, ``blocking``, or ``always``: of a task that begins anew, with ``snapshot.mode=always``.
        database: with the rows 1 to 3 in `a`, whose commits wait for a semi-synchronous replica from now on.
        other: a session; this closes it.
        commit: its statement that deletes row 2.
        answered: the statement that ends the wait for a replica. It runs two seconds after the snapshot is asked for; whoever
            does not wait has read by then.

    Returns:
        How many of three rows were seen before the snapshot, and the keys that it has read.
    """
    deletes = threading.Thread(target=lambda: other.rows(commit))
    try:
        with running(config, database) as case:
            deletes.start()
            case.worker.wait_for(lambda: [v["op"] for v in case.values("a")] == ["d"], "the deletion")
            ((count,),) = database.run("SELECT COUNT(*) FROM a")
            if kind == "always":
                case.worker.put(config | {"snapshot.mode": "always"})
            else:
                case.execute("a", type=kind)
            time.sleep(2)
            database.run(answered)
            case.wait_told("COMPLETED")
            return count, case.read("a")
    finally:
        database.run(answered)
        deletes.join()
        other.close()


def snapshot_modes(database: Database, config: Config) -> None:
    """Each of them, one behind the other."""
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY, x FLOAT)",
        "INSERT INTO a VALUES (1, 1.1)",
        "CREATE TABLE b LIKE a",
        "INSERT INTO b SELECT * FROM a",
    )

    def ops(*tables: str) -> list[str]:
        return ["".join(v["op"] for v in case.values(t)) for t in tables]

    with MemoryWorker(CONNECTORS[config["connector.class"]](), "c", exactly_once=True) as worker:
        case = Case(worker, database)
        worker.put(config | {"snapshot.mode": "always", "snapshot.include.collection.list": r".*\.a"})
        worker.wait_for(lambda: ops("a", "b") == ["r", ""], "always: the first start")
        worker.pause()
        database.run("INSERT INTO a VALUES (2, 2)", "INSERT INTO b VALUES (2, 2)")
        worker.resume()
        worker.wait_for(lambda: ops("a", "b") == ["rcrr", "c"], "always: the second start")
        database.run("DELETE FROM a WHERE id = 2")
        worker.wait_for(lambda: ops("a") == ["rcrrd"], "always: the log")
        based = "snapshot.mode.configuration.based."
        worker.put(
            config
            | {
                "snapshot.mode": "configuration_based",
                f"{based}snapshot.data": "true",
                "snapshot.delay.ms": "300",
            }
        )
        worker.wait_for(lambda: ops("a", "b") == ["rcrrdr", "crr"], "configuration_based: without the log")
        database.run("INSERT INTO a VALUES (3, 3)")
        worker.put(config | {"snapshot.mode": "configuration_based", f"{based}start.stream": "true"})
        worker.wait_for(lambda: ops("a") == ["rcrrdrc"], "configuration_based: the log alone")
        worker.put(config | {"snapshot.mode": "recovery"})
        database.run("INSERT INTO a VALUES (4, 4)")
        worker.wait_for(lambda: ops("a") == ["rcrrdrcc"], "recovery: the log")
        worker.stop()
        worker.reset_offsets()
        override = f"snapshot.select.statement.overrides.{database.name}.a"
        worker.put(
            config
            | {
                "snapshot.mode": "initial_only",
                "snapshot.select.statement.overrides": f"{database.name}.a",
                override: "SELECT x AS y, x, id FROM " + f"{database.name}.a WHERE id < 3",
                "snapshot.tables.order.by.row.count": "descending",
            }
        )
        worker.wait_for(lambda: ops("a", "b") == ["rcrrdrccr", "crrrr"], "initial_only")
        assert case.values("a")[-1]["after"] == {"id": 1, "x": 1.1}


def tables_are_of_one_moment(database: Database, config: Config) -> None:
    """Several tables are read at a time, while transactions set one number in all rows of all of them."""
    names = "abcd"
    rows = ", ".join(f"({number}, 0)" for number in range(300))
    for name in names:
        database.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)", f"INSERT INTO {name} VALUES {rows}")
    stop = threading.Event()
    other = Session(database.endpoint)
    other.rows(f"USE {database.name}")

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            other.rows("BEGIN")
            for name in names:
                other.rows(f"UPDATE {name} SET n = {number}")
            other.rows("COMMIT")

    threads = {"snapshot.max.threads": "3", "snapshot.fetch.size": "20", "snapshot.mode": "initial_only"}
    writer = threading.Thread(target=write)
    writer.start()
    try:
        with MemoryWorker(CONNECTORS[config["connector.class"]](), "c") as worker:
            case = Case(worker, database)
            worker.put(config | threads)
            worker.wait_for(lambda: [len(case.values(name)) for name in names] == [300] * 4, "the snapshot")
            found = {value["after"]["n"] for name in names for value in case.values(name)}
    finally:
        stop.set()
        writer.join()
        other.close()
    assert len(found) == 1


def own_statements_do_not_wait_for_own_locks(database: Database, config: Config) -> None:
    """The connector's connections write as they begin, and each heartbeat does: not while its own snapshot has locked the tables."""
    database.run("CREATE TABLE starts (n INT)", "CREATE TABLE beats (n INT)")
    for name in "abc":
        database.run(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES (1), (2), (3)")
    # On MariaDB commits are held up for as long as a snapshot begins, where there were distributed ones.
    database.run("XA START 'x'", "INSERT INTO a VALUES (4)", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'")
    writes = {
        "snapshot.mode": "initial",
        "table.include.list": rf"{database.name}\.[abc]",
        "snapshot.max.threads": "3",
        "snapshot.fetch.size": "1",
        "database.initial.statements": f"INSERT INTO {database.name}.starts VALUES (1)",
        "heartbeat.interval.ms": "1",
        "heartbeat.action.query": f"INSERT INTO {database.name}.beats VALUES (1)",
    }
    with MemoryWorker(CONNECTORS[config["connector.class"]](), "c") as worker:
        case = Case(worker, database)
        worker.put(config | writes)
        worker.wait_for(lambda: sum(len(case.values(name)) for name in "abc") == 10, "the snapshot")
        worker.wait_for(lambda: database.run("SELECT COUNT(*) > 20 FROM beats") == [("1",)], "heartbeats")
        assert database.run("SELECT COUNT(*) BETWEEN 4 AND 10 FROM starts") == [("1",)], "one for each beat"
