"""Which tables a snapshot locks, until when, and with which rights."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from mariadb_cases import own_statements_do_not_wait_for_own_locks
from mariadb_parts import Database, connector_options

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.connector import MariaDbConnector
from tidings_capture.mysql.errors import MariaDbError, UnsupportedError
from tidings_capture.mysql.settings.config import read_config
from tidings_capture.mysql.snapshots.snapshot import Snapshot
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.waiting import wait_for

Config = dict[str, str]
ENOUGH = "SELECT, SHOW DATABASES, REPLICATION SLAVE, BINLOG MONITOR"
LOCK_TIMED_OUT = 1205


@pytest.fixture
def database(database: Database) -> Database:
    database.run("CREATE TABLE a (n INT)", "CREATE TABLE z (n INT)")
    database.run("INSERT INTO a VALUES (1), (2), (3)", "INSERT INTO z VALUES (1), (2)")
    return database


@pytest.fixture
def config(mariadb: MariaDbServer, unique_name: str) -> Config:
    return connector_options(mariadb, unique_name) | {
        "snapshot.fetch.size": "1",
        "snapshot.lock.timeout.ms": "1000",
    }


@pytest.fixture
def user(database: Database, config: Config) -> Iterator[Callable[[str], Config]]:
    """The configuration with a user who has these rights on everything."""

    def made(rights: str) -> Config:
        database.run(
            f"CREATE USER {database.name}@'%' IDENTIFIED BY 'x'",
            f"GRANT {rights} ON *.* TO {database.name}@'%'",
        )
        return {**config, "database.user": database.name, "database.password": "x"}

    yield made
    database.run(f"DROP USER IF EXISTS {database.name}@'%'")


@contextmanager
def reading(config: Config) -> Iterator[Snapshot]:
    snapshot = Snapshot(read_config(config))
    try:
        yield snapshot
    finally:
        snapshot.close()


def can_write(database: Database, table: str) -> bool:
    session = Session(database.endpoint)
    try:
        session.rows("SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1")
        session.rows(f"INSERT INTO {database.name}.{table} VALUES (9)")
    except MariaDbError as error:
        if error.number != LOCK_TIMED_OUT:
            raise
        return False
    else:
        return True
    finally:
        session.close()


def rest(snapshot: Snapshot) -> int:
    """Read to the end; how many records there were."""
    count = 0
    while records := snapshot.read():
        count += len(records)
    return count


def test_minimal_locks_nothing_that_has_transactions(database: Database, config: Config) -> None:
    with reading(config) as snapshot:
        assert can_write(database, "a")
        assert rest(snapshot) == 5


def test_minimal_locks_a_table_without_transactions_until_it_is_read(
    database: Database, config: Config
) -> None:
    database.run("CREATE TABLE m (n INT) ENGINE=MyISAM", "INSERT INTO m VALUES (1), (2)")
    with reading(config) as snapshot:
        assert can_write(database, "a")
        assert not can_write(database, "m")
        for _ in range(6):  # all of a and m, and one of z
            assert snapshot.read()
        assert can_write(database, "m")
        assert rest(snapshot) == 1


def test_what_is_written_to_a_table_without_transactions_meanwhile_is_not_read_twice(
    database: Database, config: Config
) -> None:
    database.run("CREATE TABLE m (n INT) ENGINE=MyISAM", "INSERT INTO m VALUES (1), (2)")
    with MemoryWorker(MariaDbConnector(), "c") as worker:
        worker.put(config)
        for number in range(3, 30):
            database.run(f"INSERT INTO m VALUES ({number})")
        topic = f"p.{database.name}.m"
        worker.wait_for(lambda: len(worker.kafka.topics.get(topic, [])) >= 29, "every row")
        values = [json.loads(value) for _k, value, _h in list(worker.kafka.topics[topic])]
    assert [value["after"]["n"] for value in values] == list(range(1, 30))


def test_none_refuses_a_table_without_transactions(database: Database, config: Config) -> None:
    database.run("CREATE TABLE m (n INT) ENGINE=MyISAM")
    with (
        pytest.raises(UnsupportedError, match="engine MyISAM"),
        reading({**config, "snapshot.locking.mode": "none"}),
    ):
        pass


def test_extended_locks_everything_until_the_end(database: Database, config: Config) -> None:
    with reading({**config, "snapshot.locking.mode": "extended"}) as snapshot:
        assert len(snapshot.read()) == 1
        assert not can_write(database, "a")
        assert not can_write(database, "z")
        assert rest(snapshot) == 4
        assert can_write(database, "a")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Two seconds of silence are as two minutes, and so often something is said."""

    def made(spoken: float) -> None:
        monkeypatch.setattr("tidings_capture.mysql.snapshots.locks.IDLE_SECONDS", 2)
        monkeypatch.setattr("tidings_capture.mysql.snapshots.locks._SPOKEN_SECONDS", spoken)

    return made


def test_locks_last_as_long_as_the_snapshot(
    database: Database, config: Config, quick: Callable[[float], None]
) -> None:
    """Whatever the server's `wait_timeout`: somebody is there."""
    quick(0.3)
    with reading({**config, "snapshot.locking.mode": "extended"}) as snapshot:
        time.sleep(3.5)
        assert not can_write(database, "a")
        assert rest(snapshot) == 5
        assert can_write(database, "a")


def test_the_server_gives_locks_back_whose_holder_is_gone(
    database: Database, config: Config, quick: Callable[[float], None]
) -> None:
    """Otherwise nobody could write for hours. A holder that comes back throws away what it has read."""
    quick(3600)
    with reading({**config, "snapshot.locking.mode": "extended"}) as snapshot:
        assert not can_write(database, "a")
        wait_for("the server to give the locks back", lambda: can_write(database, "a"))
        with pytest.raises(MariaDbError):
            rest(snapshot)


@pytest.mark.parametrize("locking", ["minimal", "extended", "none"])
def test_own_statements_do_not_wait_for_own_locks(
    database: Database, mariadb: MariaDbServer, unique_name: str, locking: str
) -> None:
    database.run("DROP TABLE a, z")
    options = connector_options(mariadb, unique_name) | {"snapshot.locking.mode": locking}
    own_statements_do_not_wait_for_own_locks(database, options)


def test_extended_locks_captured_tables_without_the_right_to_all(
    database: Database, user: Callable[[str], Config]
) -> None:
    database.run("CREATE TABLE other (n INT)")
    own = {"snapshot.locking.mode": "extended", "table.exclude.list": rf"{database.name}\.other"}
    with reading({**user(f"{ENOUGH}, LOCK TABLES"), **own}) as snapshot:
        assert can_write(database, "other")
        assert not can_write(database, "a")
        assert rest(snapshot) == 5
        assert can_write(database, "a")


def test_locks_that_the_user_may_not_take_are_refused_with_what_they_need(
    database: Database, user: Callable[[str], Config]
) -> None:
    config = user(ENOUGH)
    with reading(config) as snapshot:
        assert rest(snapshot) == 5
    with (
        pytest.raises(MariaDbError, match="extended cannot lock 2 tables") as raised,
        reading({**config, "snapshot.locking.mode": "extended"}),
    ):
        pass
    assert "GRANT RELOAD ON *.*, or LOCK TABLES" in str(raised.value.hint)
    database.run("CREATE TABLE m (n INT) ENGINE=MyISAM")
    with pytest.raises(MariaDbError, match="minimal cannot lock 1 tables") as raised, reading(config):
        pass
    assert "GRANT LOCK TABLES" in str(raised.value.hint)


def test_a_lock_is_not_waited_for_without_end(database: Database, config: Config) -> None:
    database.run("LOCK TABLES a WRITE")
    with (
        pytest.raises(MariaDbError, match=r"1 seconds \(snapshot.lock.timeout.ms\)"),
        reading({**config, "snapshot.locking.mode": "extended"}),
    ):
        pass
    database.run("UNLOCK TABLES")


def test_locks_that_are_lost_end_the_snapshot(database: Database, config: Config) -> None:
    with reading({**config, "snapshot.locking.mode": "extended"}) as snapshot:
        database.run(f"KILL {locking_thread(database)}")
        with pytest.raises(MariaDbError):
            rest(snapshot)


def locking_thread(database: Database) -> int:
    """The connection that sent FLUSH TABLES, which its idle time alone does not tell: the first that a snapshot makes."""
    rows = database.run(
        "SELECT id FROM information_schema.processlist WHERE id > CONNECTION_ID() ORDER BY id"
    )
    return int(rows[0][0])
