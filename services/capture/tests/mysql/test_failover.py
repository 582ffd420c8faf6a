"""A replica of MySQL is promoted: a connector goes on there by GTIDs, in the midst of a transaction that its log cuts otherwise."""

from collections.abc import Iterator

import pytest
from mariadb_worker import Config, changes, failure, running, topic
from mysql_parts import MySqlDatabase

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_jvm import SilentProgress
from tidings_stack.mysql import MySqlServer
from tidings_stack.stack import Stack


@pytest.fixture
def replica(mysql: MySqlServer, database: MySqlDatabase) -> Iterator[MySqlDatabase]:
    """Follows the server from now on; its database has the same name."""
    with Stack(members=(), progress=SilentProgress()) as stack:
        settings = {"server_id": "2", "binlog_row_event_max_size": "256"}
        server = stack.add(lambda place: MySqlServer(place, settings=settings, name="mysql-2"))
        made = MySqlDatabase(server, f"of_{database.name}")
        made.run(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={mysql.port}, SOURCE_USER='admin',"
            f" SOURCE_PASSWORD='{mysql.password}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
            f"CREATE DATABASE {database.name}",
            f"USE {database.name}",
            "RESET BINARY LOGS AND GTIDS",
            f"SET GLOBAL gtid_purged = '{database.position()}'",
            "START REPLICA",
        )
        yield made
        made.session.close()
        server.kill()  # nothing of it is kept


def sync(database: MySqlDatabase, replica: MySqlDatabase) -> None:
    ((state,),) = replica.run(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{database.position()}', 60)")
    assert int(state) == 0


def ids(worker: MemoryWorker, database: MySqlDatabase, op: str = "c") -> list[int]:
    return [after["id"] for kind, _, after in changes(worker, topic(database, "t")) if kind == op]


def rows(first: int, count: int) -> str:
    return "INSERT INTO t VALUES " + ", ".join(
        f"({i}, REPEAT('x', {i % 90}))" for i in range(first, first + count)
    )


def test_a_connector_goes_on_at_a_promoted_replica_in_the_midst_of_a_transaction(
    database: MySqlDatabase, config: Config, replica: MySqlDatabase
) -> None:
    database.run("CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(99))")
    server = replica.endpoint
    there = {**config, "database.port": str(server.port), "database.password": server.password}
    small = {"max.batch.size": "100"}
    with running(config | small) as worker:
        worker.wait_for(lambda: bool(worker.offsets()), "the snapshot")
        with worker.stop_at("batch.sent", lambda: len(ids(worker, database)) > 1_000) as asked:
            database.run(rows(0, 3), rows(100, 5_000))
            worker.wait_for(asked.is_set, "a part of the transaction")
            worker.stop()
        assert any("tidings_rows" in stored["offset"] for stored in worker.offsets())
        assert len(ids(worker, database)) < 5_003
        database.run(rows(30_000, 5))
        sync(database, replica)
        replica.run("STOP REPLICA", "RESET REPLICA ALL", rows(40_000, 5))
        worker.put(there | small)
        worker.resume()
        wanted = [*range(3), *range(100, 5_100), *range(30_000, 30_005), *range(40_000, 40_005)]
        worker.wait_for(lambda: len(ids(worker, database)) >= len(wanted), "the replica's rows")
        assert ids(worker, database) == wanted
        assert ids(worker, database, "r") == []
        # Back at the server, which does not have what the replica has written by itself, and has other rows.
        worker.stop()
        database.run(rows(50_000, 1))
        worker.put(config)
        worker.resume()
        assert "others" in str(failure(worker, "binlog_diverged"))


HERE, THERE = "aaaaaaaa-0000-0000-0000-000000000001", "aaaaaaaa-0000-0000-0000-000000000002"


def named(gtid: str, statement: str) -> tuple[str, ...]:
    """A transaction of another source."""
    return f"SET GTID_NEXT = '{gtid}'", statement, "SET GTID_NEXT = 'AUTOMATIC'"


def test_transactions_of_a_source_that_does_not_count_are_left_out_and_need_not_be_on_the_next_server(
    database: MySqlDatabase, config: Config, replica: MySqlDatabase
) -> None:
    database.run("CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(99))")
    sync(database, replica)
    server = replica.endpoint
    there = {**config, "database.port": str(server.port), "database.password": server.password}
    chosen = {"gtid.source.excludes": f"{HERE}, .*2"}
    with running(config | chosen) as worker:
        worker.wait_for(lambda: bool(worker.offsets()), "the snapshot")
        database.run(rows(0, 3))
        sync(database, replica)
        replica.run("STOP REPLICA", "RESET REPLICA ALL")
        database.run(*named(f"{HERE}:1", rows(100, 3)))
        worker.wait_for(lambda: f"{HERE}:1" in str(worker.offsets()), "the position")
        assert ids(worker, database) == [*range(3)]
        worker.stop()
        # Promoted without it, and with one of its own, whose log is gone.
        replica.run(*named(f"{THERE}:1", rows(200, 3)), "FLUSH BINARY LOGS")
        ((last, *_),) = replica.run("SHOW BINARY LOG STATUS")
        replica.run(f"PURGE BINARY LOGS TO '{last}'", *named(f"{THERE}:2", rows(300, 3)), rows(3, 3))
        worker.put(there)
        worker.resume()
        assert HERE in str(failure(worker, "binlog_diverged"))
        worker.put(there | chosen)
        worker.resume()
        worker.wait_for(lambda: len(ids(worker, database)) >= 6, "the rows behind it")
        assert ids(worker, database) == [*range(6)]
        worker.wait_for(lambda: f"{THERE}:1-2" in str(worker.offsets()), "the position there")
        assert HERE not in str(worker.offsets())
