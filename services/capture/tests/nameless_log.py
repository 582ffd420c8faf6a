"""Cases of a log that does not name columns (``binlog_row_metadata``), on MariaDB and MySQL: the history knows them, or the task
stops.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from mariadb_cases import Case
from mariadb_parts import Database
from mariadb_worker import CONNECTORS, Config, changes, failure, running, topic

from tidings_capture.mysql import task
from tidings_capture.mysql.history.kept import kept_at
from tidings_capture.mysql.history.topic import SchemaHistory
from tidings_connect.errors import OptionError
from tidings_connect.testing.memory_worker import MemoryWorker

HISTORY = {
    "schema.history.internal.kafka.topic": "history",
    "schema.history.internal.kafka.bootstrap.servers": "none:1",
}


class MemoryLog:
    """A topic."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def ensure(self) -> None:
        pass

    def is_empty(self) -> bool:
        return not self.records

    def append(self, value: bytes) -> None:
        self.records.append(value)

    def values(self) -> Iterator[bytes]:
        return iter(list(self.records))


@contextmanager
def metadata(database: Database, value: str) -> Iterator[None]:
    ((before,),) = database.run("SELECT @@global.binlog_row_metadata")
    database.run(f"SET GLOBAL binlog_row_metadata = {value}")
    try:
        yield
    finally:
        database.run(f"SET GLOBAL binlog_row_metadata = {before}")


def afters(worker: MemoryWorker, database: Database, table: str = "t") -> list[Any]:
    return [after for op, _, after in changes(worker, topic(database, table)) if op in {"c", "u"}]


class NamelessLog:
    """Cases of one kind of server."""

    values: ClassVar[tuple[str, ...]]
    """Of ``binlog_row_metadata`` that do not name columns."""

    @pytest.fixture
    def nameless(self, value: str, database: Database) -> Iterator[None]:
        with metadata(database, value):
            yield

    @pytest.fixture
    def history(self, monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
        log = MemoryLog()
        monkeypatch.setattr(task, "open_history", lambda config: SchemaHistory(config.prefix, log))
        return log

    @pytest.fixture
    def worker(self, config: Config, history: MemoryLog) -> Iterator[MemoryWorker]:
        config |= HISTORY
        with MemoryWorker(CONNECTORS[config["connector.class"]](), "c", exactly_once=True) as made:
            yield made

    def test_definitions_in_the_stream_and_while_it_is_down(
        self, database: Database, config: Config, worker: MemoryWorker, nameless: None
    ) -> None:
        database.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 1, 2)")
        worker.put(config)
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) == 1, "the snapshot")
        database.run("INSERT INTO t VALUES (2, 1, 2)")
        worker.wait_for(lambda: afters(worker, database) == [{"id": 2, "a": 1, "b": 2}], "a row")
        # Columns of one type change their names: nothing in the log tells that.
        database.run(
            "ALTER TABLE t RENAME COLUMN a TO x, RENAME COLUMN b TO a", "INSERT INTO t VALUES (3, 1, 2)"
        )
        worker.wait_for(
            lambda: afters(worker, database)[1:] == [{"id": 3, "x": 1, "a": 2}], "a row behind it"
        )
        worker.pause()
        database.run(
            "INSERT INTO t VALUES (4, 1, 2)",
            "ALTER TABLE t RENAME COLUMN x TO y, ADD COLUMN n INT UNSIGNED",
            "CREATE TABLE t2 LIKE t",
            "ALTER TABLE t RENAME COLUMN a TO b",
            "INSERT INTO t VALUES (5, 1, 2, 4294967295)",
            "CREATE TABLE new (k VARCHAR(9) PRIMARY KEY)",
            "INSERT INTO new VALUES ('x')",
        )
        worker.resume()
        worker.wait_for(lambda: afters(worker, database, "new") == [{"k": "x"}], "the end")
        assert afters(worker, database)[2:] == [
            {"id": 4, "x": 1, "a": 2},
            {"id": 5, "y": 1, "b": 2, "n": 4294967295},
        ]
        # A copy takes the table's place: rows on either side of the swap.
        database.run("INSERT INTO t2 VALUES (6, 1, 2, 3)")
        worker.wait_for(lambda: bool(afters(worker, database, "t2")), "a row of the copy")
        worker.pause()
        database.run("INSERT INTO t VALUES (7, 1, 2, 3)", "RENAME TABLE t TO old, t2 TO t")
        database.run("INSERT INTO t VALUES (8, 1, 2, 3)")
        worker.resume()
        worker.wait_for(lambda: len(afters(worker, database)) == 6, "both sides")
        assert afters(worker, database)[4:] == [
            {"id": 7, "y": 1, "b": 2, "n": 3},
            {"id": 8, "y": 1, "a": 2, "n": 3},
        ]

    def test_rows_between_definitions_that_were_not_seen_stop_the_task(
        self, database: Database, config: Config, worker: MemoryWorker, nameless: None
    ) -> None:
        database.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        worker.put(config)
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        database.run("INSERT INTO t VALUES (1, 1, 2)")
        worker.wait_for(lambda: len(afters(worker, database)) == 1, "a row")
        worker.pause()
        database.run(
            "ALTER TABLE t RENAME COLUMN a TO x",
            "INSERT INTO t VALUES (2, 1, 2)",
            "ALTER TABLE t RENAME COLUMN b TO a",
        )
        worker.resume()
        error = failure(worker, "mariadb_unsupported")
        assert f"{database.name}.t" in str(error)
        assert len(afters(worker, database)) == 1

    def test_what_was_found_is_known_when_the_log_is_read_again(
        self, database: Database, config: Config, worker: MemoryWorker, nameless: None, history: MemoryLog
    ) -> None:
        """The task dies behind two definitions, and begins again before them."""
        database.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        worker.put(config)
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        begun = worker.offsets()[0]["offset"]
        database.run("INSERT INTO t VALUES (1, 1, 2)")
        worker.wait_for(lambda: len(afters(worker, database)) == 1, "a row")
        for number, names in enumerate(("a TO x", "b TO a"), 2):
            database.run(f"ALTER TABLE t RENAME COLUMN {names}", f"INSERT INTO t VALUES ({number}, 1, 2)")
            worker.wait_for(lambda number=number: len(afters(worker, database)) == number, "a row")
        told = afters(worker, database)
        assert told == [{"id": 1, "a": 1, "b": 2}, {"id": 2, "x": 1, "b": 2}, {"id": 3, "x": 1, "a": 2}]
        worker.stop()
        worker.reset_offsets()
        flavour = CONNECTORS[config["connector.class"]].flavour
        place = flavour.stored_position(begun.get("gtids"), begun.get("file", ""), begun.get("pos", 0))
        kept, later = kept_at(SchemaHistory("p", history).records(), place, flavour)
        name = (database.name, "t")
        assert [column.name for column in kept[name].columns] == ["id", "a", "b"]
        assert [[column.name for column in found[name].columns] for found in later.values()] == [
            ["id", "x", "b"],
            ["id", "x", "a"],
        ]

    def test_a_table_altered_before_a_snapshot_that_begins_again_is_known(
        self, database: Database, config: Config, worker: MemoryWorker, nameless: None
    ) -> None:
        """The log is read up to the new snapshot first, past the definition."""
        database.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        worker.put(config)
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        worker.stop()
        (begun,) = worker.offsets()
        database.run(
            "INSERT INTO t VALUES (1, 1, 2)",
            "ALTER TABLE t RENAME COLUMN a TO x",
            "INSERT INTO t VALUES (2, 1, 2)",
        )
        begun["offset"]["snapshot"] = "INITIAL"
        worker.alter_offsets([begun])
        worker.resume()
        worker.wait_for(lambda: len(afters(worker, database)) == 2, "the rows")
        assert afters(worker, database) == [{"id": 1, "a": 1, "b": 2}, {"id": 2, "x": 1, "b": 2}]

    def test_a_table_altered_behind_a_blocking_snapshot_is_known(
        self, database: Database, config: Config, worker: MemoryWorker, nameless: None
    ) -> None:
        """Such a snapshot writes the tables' structure into the history, too."""
        database.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 1, 2)")
        worker.put(config)
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        case = Case(worker, database)
        case.execute("t", type="blocking")
        worker.wait_for(lambda: case.read("t") == [1, 1], "the blocking snapshot")
        worker.stop()
        database.run(
            "INSERT INTO t VALUES (2, 1, 2)",
            "ALTER TABLE t RENAME COLUMN a TO x",
            "INSERT INTO t VALUES (3, 1, 2)",
        )
        worker.resume()
        worker.wait_for(lambda: len(afters(worker, database)) == 2, "the rows")
        assert afters(worker, database) == [{"id": 2, "a": 1, "b": 2}, {"id": 3, "x": 1, "b": 2}]

    def test_a_table_without_a_history_stops_the_task(self, database: Database, config: Config) -> None:
        """The connector is refused; where the server was set otherwise meanwhile, the first row stops it."""
        database.run("CREATE TABLE t (id INT PRIMARY KEY)")
        with running(config) as worker:
            worker.wait_for(lambda: bool(worker.offsets()), "the start")
            with metadata(database, self.values[-1]):
                database.run("INSERT INTO t VALUES (1)")
                assert "schema history" in str(failure(worker, "mariadb_unsupported"))
                with pytest.raises(OptionError, match=f"binlog_row_metadata is {self.values[-1]}"):
                    worker.put(config)
