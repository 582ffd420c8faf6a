"""MySQL's log that names neither columns nor transactions (``binlog_row_metadata=MINIMAL``, ``gtid_mode=OFF``), as it is by default."""

import pytest
from mariadb_worker import Config
from mysql_parts import MySqlDatabase
from nameless_log import MemoryLog, NamelessLog, afters

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.mysql import MySqlServer

NOTHING_KNOWN = b'{"position": {"file": "binlog.000001", "pos": 4}, "ddl": "", "tidings_tables": {}}'
"""A history's record, as of a connector that ran while the log named columns."""


@pytest.fixture
def mysql(mysql_by_files: MySqlServer) -> MySqlServer:
    return mysql_by_files


class TestNamelessLog(NamelessLog):
    values = ("MINIMAL",)

    @pytest.fixture(params=values)
    def value(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.mark.parametrize("last", ["ALTER TABLE t RENAME COLUMN a TO x", "FLUSH BINARY LOGS"])
    def test_the_log_ends_behind_a_definition(
        self, database: MySqlDatabase, config: Config, worker: MemoryWorker, nameless: None, last: str
    ) -> None:
        """The server says where its log ends: behind its last transaction, or in a file that has none."""
        database.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        worker.put(config)
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        worker.pause()
        database.run("INSERT INTO t VALUES (1, 1, 2)", "ALTER TABLE t ADD COLUMN n INT", last)
        begun = worker.offsets()[-1]["offset"]
        worker.resume()
        worker.wait_for(lambda: worker.offsets()[-1]["offset"] != begun, "the end")
        assert afters(worker, database) == [{"id": 1, "a": 1, "b": 2}]

    @pytest.mark.parametrize("in_snapshot", [False, True])
    def test_a_table_that_the_history_lacked_is_known_when_the_log_is_read_again(
        self,
        database: MySqlDatabase,
        config: Config,
        worker: MemoryWorker,
        nameless: None,
        history: MemoryLog,
        in_snapshot: bool,
    ) -> None:
        """It was learned within the first transaction; the task dies behind a definition, and begins again before both.

        Where the snapshot had not ended, a new one follows behind what is read again.
        """
        database.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        worker.put(config)
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        (begun,) = worker.offsets()
        if not in_snapshot:
            del begun["offset"]["snapshot"]
        worker.stop()
        history.records[:] = [NOTHING_KNOWN]
        worker.resume()
        database.run("INSERT INTO t VALUES (1, 1, 2)")
        worker.wait_for(lambda: len(afters(worker, database)) == 1, "a row")
        database.run("ALTER TABLE t RENAME COLUMN a TO x", "INSERT INTO t VALUES (2, 1, 2)")
        worker.wait_for(lambda: len(afters(worker, database)) == 2, "a row behind the definition")
        worker.stop()
        worker.alter_offsets([begun])
        worker.resume()
        worker.wait_for(lambda: len(afters(worker, database)) == 4, "the rows once more")
        told = afters(worker, database)
        assert told[:2] == told[2:] == [{"id": 1, "a": 1, "b": 2}, {"id": 2, "x": 1, "b": 2}]
