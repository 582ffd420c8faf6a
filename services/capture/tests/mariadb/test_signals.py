"""MariaDB's signals and incremental snapshots on a worker in memory and a real server: what is read, in which order, and what a
restart goes on with."""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest
from mariadb_parts import Database

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.connector import MariaDbConnector
from tidings_connect.task.channel import SIGNAL, Command
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.mariadb import MariaDbServer

Config = dict[str, str]
NOTES = "notes"


@pytest.fixture
def database(mariadb: MariaDbServer, unique_name: str) -> Iterator[Database]:
    made = Database(mariadb, unique_name)
    made.run(
        "SET SESSION sql_mode = ''",
        "CREATE TABLE signals (id VARCHAR(100) PRIMARY KEY, type VARCHAR(100), data TEXT)",
        "INSERT INTO signals VALUES ('old', 'execute-snapshot', '{}')",
    )
    yield made
    made.close()


@pytest.fixture
def config(mariadb: MariaDbServer, unique_name: str) -> Config:
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(mariadb.port),
        "database.user": "admin",
        "database.password": mariadb.password,
        "database.include.list": unique_name,
        "topic.prefix": "p",
        "include.schema.changes": "false",
        "snapshot.mode": "no_data",
        "provide.transaction.metadata": "true",
        "signal.data.collection": f"{unique_name}.signals",
        "incremental.snapshot.chunk.size": "3",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": NOTES,
    }


READ_ONLY = {"read.only": "true", "signal.data.collection": ""}


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


@contextmanager
def running(config: Config, database: Database) -> Iterator[Case]:
    # Exactly once: the other way a producer in memory sends nothing before the position changes.
    with MemoryWorker(MariaDbConnector(), "c", exactly_once=True) as worker:
        worker.put(config)
        worker.wait_for(lambda: worker.state == "RUNNING" and bool(worker.offsets()), "the start")
        yield Case(worker, database)


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
        case.worker.wait_for(
            lambda: case.values("a")[-1:] != [] and case.values("a")[-1]["op"] == "c",
            "the stream to go on",
        )
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


SIGNAL_MODES = [{}, {"incremental.snapshot.watermarking.strategy": "insert_delete"}, READ_ONLY]


@pytest.mark.parametrize(
    ("seed", "more", "kill"), [(1, {}, "window.read"), (2, READ_ONLY, "window.sent"), (3, READ_ONLY, None)]
)
def test_concurrent_writes_and_restarts(
    database: Database, config: Config, seed: int, more: Config, kill: str | None
) -> None:
    print("seed", seed)
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL, n INT)",
        "INSERT INTO a SELECT seq, seq, 0 FROM seq_1_to_300",
    )
    chosen = config | more | {"incremental.snapshot.chunk.size": "7"}
    if seed == 3:
        chosen |= {
            "transforms": "t",
            "transforms.t.type": "org.apache.kafka.connect.transforms.InsertHeader",
            "transforms.t.header": "h",
            "transforms.t.value.literal": "x",
        }
    with running(chosen, database) as case:
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
        database.run("INSERT INTO a (id, v, n) VALUES (-1, 1000000000, 0)")
        case.worker.wait_for(
            lambda: case.values("a")[-1]["after"] is not None and case.values("a")[-1]["after"]["id"] == -1,
            "the last row",
        )
        expected = {int(id_): int(v) for id_, v in database.run("SELECT id, v FROM a")}
        assert judged(case, expected) == []
        told = [note["type"] for note in case.told() if note["type"] != "IN_PROGRESS"]
    assert told == [
        "SKIPPED",
        "STARTED",
        *(["SKIPPED"] if kill else []),
        "TABLE_SCAN_COMPLETED",
        "COMPLETED",
        "STARTED",
        "TABLE_SCAN_COMPLETED",
        "COMPLETED",
    ]


def test_a_commit_that_readers_do_not_see_yet_is_waited_for(database: Database, config: Config) -> None:
    """A semi-synchronous replica that does not answer: the log has the deletion, and who reads still sees the row."""
    database.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1), (2), (3)")
    ((enabled, missing, seconds),) = database.run(
        "SELECT @@rpl_semi_sync_master_enabled, @@rpl_semi_sync_master_wait_no_slave, @@rpl_semi_sync_master_timeout"
    )
    database.run(
        "SET GLOBAL rpl_semi_sync_master_timeout = 3000, rpl_semi_sync_master_wait_no_slave = 1,"
        " rpl_semi_sync_master_wait_point = 'AFTER_SYNC', rpl_semi_sync_master_enabled = 1"
    )
    other = Session(database.endpoint)
    deletes = threading.Thread(target=lambda: other.rows(f"DELETE FROM {database.name}.a WHERE id = 2"))
    try:
        with running(config | READ_ONLY, database) as case:
            deletes.start()
            case.worker.wait_for(lambda: [v["op"] for v in case.values("a")] == ["d"], "the deletion")
            ((count,),) = database.run("SELECT COUNT(*) FROM a")
            case.execute("a")
            case.wait_told("COMPLETED")
            found = case.read("a")
    finally:
        deletes.join()
        other.close()
        database.run(
            f"SET GLOBAL rpl_semi_sync_master_enabled = {enabled}, rpl_semi_sync_master_wait_no_slave = {missing},"
            f" rpl_semi_sync_master_timeout = {seconds}"
        )
    assert count == "3", "the deletion is seen before it is acknowledged: this shows nothing"
    assert found == [1, 3]


def test_a_blocking_snapshot_stands_behind_the_changes_before_it(database: Database, config: Config) -> None:
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL, n INT)",
        "INSERT INTO a SELECT seq, seq, 0 FROM seq_1_to_300",
        "CREATE TABLE b (id INT, x FLOAT)",
        "INSERT INTO b VALUES (1, 1.1), (2, 0.3)",
    )
    with running(config, database) as case:
        with Writer(database, 7):
            case.worker.wait_for(lambda: len(case.values("a")) > 20, "changes")
            for number in range(3):
                case.execute("a", type="blocking")
                case.wait_told("COMPLETED", number + 1)
        database.run("INSERT INTO a VALUES (-1, 1000000000, 0)")
        case.worker.wait_for(lambda: (case.values("a")[-1]["after"] or {}).get("id") == -1, "the last row")
        expected = {int(id_): int(v) for id_, v in database.run("SELECT id, v FROM a")}
        assert judged(case, expected) == []
        rows = [v for v in case.values("a") if v["op"] == "r"]
        assert rows[0]["source"]["gtid"] is not None
        assert {rows[0]["source"]["snapshot"], rows[-1]["source"]["snapshot"]} == {"first", "last"}
        name = f"{database.name}.b"
        wrong = ["SELECT nothere FROM b", "SELECT 1) UNION (SELECT 2", "nonsense"]
        for filter_ in [*wrong, f"SELECT id FROM {name} WHERE id > 1"]:
            case.execute(
                "b",
                type="blocking",
                **{"additional-conditions": [{"data-collection": name, "filter": filter_}]},
            )
        case.wait_told("COMPLETED", 4)
        assert [v["after"] for v in case.values("b")] == [{"id": 2, "x": None}]
        assert len(case.told("ABORTED")) == 2


def test_an_interrupted_snapshot_goes_on_behind_the_log(database: Database, config: Config) -> None:
    """A table that was sent as a whole is not read again; a row that was sent, and deleted meanwhile, has its delete."""
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "INSERT INTO a VALUES (1), (2)",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "INSERT INTO b SELECT seq FROM seq_1_to_2000",
        "CREATE TABLE c (id INT PRIMARY KEY)",
        "INSERT INTO c VALUES (1)",
    )
    initial = config | {"snapshot.mode": "initial", "snapshot.fetch.size": "5"}
    with MemoryWorker(MariaDbConnector(), "c") as worker:
        case = Case(worker, database)

        def amid_b() -> bool:
            """With the end of `a` stored, which takes longer than a quiet machine needs for the rest."""
            time.sleep(0.001)
            worker.deliver()
            return len(case.read("b")) > 100 and "tidings_snapshot_done" in worker.offsets()[0]["offset"]

        with worker.crash_at("batch.sent", when=amid_b) as happened:
            worker.put(initial)
            worker.wait_for(lambda: happened.is_set() and not worker.tasks, "the crash")
        sent = case.read("b")
        assert len(sent) < 2000
        database.run(
            "DELETE FROM b WHERE id IN (2, 1999)",
            "UPDATE a SET id = 3 WHERE id = 2",
            "INSERT INTO c VALUES (2)",
        )
        worker.resume()
        worker.wait_for(lambda: len(case.values("c")) >= 3, "the rest")
        told = [[(v["op"], (v["after"] or v["before"])["id"]) for v in case.values(t)] for t in "abc"]
        assert told[0] == [("r", 1), ("r", 2), ("d", 2), ("c", 3)]
        assert told[1] == [
            *(("r", n) for n in sent),
            ("d", 2),
            ("d", 1999),
            *(("r", n) for n in range(1, 2001) if n not in {2, 1999}),
        ]
        assert told[2] == [("c", 2), ("r", 1), ("r", 2)]
        worker.wait_for(lambda: "snapshot" not in worker.offsets()[0]["offset"], "the end to be stored")


def test_snapshot_modes(database: Database, config: Config) -> None:
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY, x FLOAT)",
        "INSERT INTO a VALUES (1, 1.1)",
        "CREATE TABLE b LIKE a",
        "INSERT INTO b SELECT * FROM a",
    )

    def ops(*tables: str) -> list[str]:
        return ["".join(v["op"] for v in case.values(t)) for t in tables]

    with MemoryWorker(MariaDbConnector(), "c", exactly_once=True) as worker:
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


def test_never_reads_the_whole_log(config: Config, database: Database) -> None:
    database.run("FLUSH BINARY LOGS")
    database.purge()
    database.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)", "UPDATE a SET id = 2")
    with MemoryWorker(MariaDbConnector(), "c", exactly_once=True) as worker:
        worker.put(config | {"snapshot.mode": "never"})
        case = Case(worker, database)
        worker.wait_for(lambda: [v["op"] for v in case.values("a")] == ["c", "d", "c"], "the log")
