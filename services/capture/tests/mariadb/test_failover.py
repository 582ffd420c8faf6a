"""A replica is promoted: a connector goes on there by GTID, or says why it cannot; with two servers."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from mariadb_worker import failure
from structlog.testing import capture_logs

from tidings_capture.mysql.binlog.gtid import GtidPosition
from tidings_capture.mysql.binlog.log_check import check_position
from tidings_capture.mysql.client import Endpoint, Session
from tidings_capture.mysql.connector import MariaDbConnector
from tidings_capture.mysql.errors import MariaDbError, OtherServerError
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_jvm import SilentProgress
from tidings_stack.mariadb import MariaDbServer, is_published
from tidings_stack.server import Place
from tidings_stack.stack import Stack
from tidings_stack.waiting import wait_for

PASSWORD = "of-both"
TOPIC = "p.d.t"


class Servers:
    """A primary and its replica, whose log cuts rows into other events."""

    def __init__(self, stack: Stack) -> None:
        self.primary = stack.add(lambda place: self._make(place, "1", {}))
        self.replica = stack.add(lambda place: self._make(place, "2", {"binlog_row_event_max_size": "256"}))
        self.run(self.primary, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, note VARCHAR(99))")
        source = (
            f"master_host='127.0.0.1', master_port={self.primary.port}, master_user='admin',"
            f" master_password='{PASSWORD}', master_use_gtid=slave_pos, master_ssl=0, master_ssl_verify_server_cert=0"
        )
        self.run(self.replica, f"CHANGE MASTER TO {source}", "START SLAVE")
        self.sync()

    @staticmethod
    def _make(place: Place, number: str, more: dict[str, str]) -> MariaDbServer:
        made = MariaDbServer(place, settings={"server_id": number, **more}, name=f"mariadb-{number}")
        made.password = PASSWORD
        return made

    @staticmethod
    def session(server: MariaDbServer) -> Session:
        return Session(Endpoint("127.0.0.1", server.port, "admin", PASSWORD))

    def run(self, server: MariaDbServer, *statements: str) -> list[tuple[Any, ...]]:
        """The last one's rows."""
        session, rows = self.session(server), []
        try:
            for statement in statements:
                rows = session.rows(statement)
            return rows
        finally:
            session.close()

    def end(self, server: MariaDbServer) -> str:
        return str(self.run(server, "SELECT @@gtid_binlog_pos")[0][0])

    def sync(self) -> None:
        """The replica has everything."""
        ((state,),) = self.run(self.replica, f"SELECT MASTER_GTID_WAIT('{self.end(self.primary)}', 60)")
        assert int(state) == 0

    def config(self, server: MariaDbServer, **more: str) -> dict[str, str]:
        return {
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "admin",
            "database.password": PASSWORD,
            "database.include.list": "d",
            "topic.prefix": "p",
            "include.schema.changes": "false",
            "max.batch.size": "100",
            **{name.replace("_", "."): value for name, value in more.items()},
        }


@pytest.fixture
def servers() -> Iterator[Servers]:
    if not is_published():
        pytest.skip("MariaDB's binaries are published for Linux on x86-64 only")
    with Stack(members=(), progress=SilentProgress()) as stack:
        yield Servers(stack)


def ids(worker: MemoryWorker, op: str = "c") -> list[int]:
    return [value["after"]["id"] for value in worker.values(TOPIC) if value["op"] == op]


def parts(worker: MemoryWorker) -> bool:
    """Whether the stored offset is in the midst of a transaction."""
    return any("tidings_rows" in one["offset"] for one in worker.offsets())


def rows(first: int, count: int) -> str:
    values = ", ".join(f"({i}, REPEAT('x', {i % 90}))" for i in range(first, first + count))
    return f"INSERT INTO d.t VALUES {values}"


def test_a_connector_goes_on_at_a_promoted_replica_in_the_midst_of_a_transaction(servers: Servers) -> None:
    primary, replica = servers.primary, servers.replica
    with MemoryWorker(MariaDbConnector(), "c") as worker:
        worker.put(servers.config(primary))
        worker.wait_for(lambda: bool(worker.offsets()), "the snapshot")
        with worker.stop_at("batch.sent", lambda: len(ids(worker)) > 1_000) as asked:
            servers.run(primary, rows(0, 3), rows(100, 20_000))
            worker.wait_for(asked.is_set, "a part of the transaction")
            worker.stop()
        assert parts(worker)
        first = len(ids(worker))
        assert first < 20_003
        servers.run(primary, rows(30_000, 5))
        servers.sync()
        primary.stop()
        servers.run(replica, "STOP SLAVE", "RESET SLAVE ALL")
        servers.run(replica, rows(40_000, 5))
        worker.put(servers.config(replica))
        worker.resume()
        wanted = [*range(3), *range(100, 20_100), *range(30_000, 30_005), *range(40_000, 40_005)]
        worker.wait_for(lambda: len(ids(worker)) >= len(wanted), "the replica's rows")
        assert ids(worker) == wanted
        assert ids(worker, "r") == []


def test_servers_that_cannot_go_on_are_told_apart_and_answered_as_configured(servers: Servers) -> None:
    primary, replica = servers.primary, servers.replica

    def refused(
        server: MariaDbServer, position: str, kind: type[MariaDbError | OtherServerError], words: str
    ) -> None:
        session = servers.session(server)
        try:
            with pytest.raises(kind, match=words):
                check_position(session, GtidPosition.read(position), "the server")
        finally:
            session.close()

    servers.run(replica, "STOP SLAVE SQL_THREAD")
    servers.run(primary, rows(0, 2), rows(10, 2))
    read = servers.end(primary)
    refused(replica, read, OtherServerError, "has never logged")
    with MemoryWorker(MariaDbConnector(), "c") as worker:
        worker.put(servers.config(primary))
        worker.wait_for(
            lambda: len(ids(worker, "r")) == 4 and "snapshot" not in str(worker.offsets()), "rows"
        )
        servers.run(primary, rows(20, 1))
        worker.wait_for(lambda: ids(worker) == [20], "the log")
        worker.stop()
        # Promoted without the last three transactions, and written.
        servers.run(replica, "STOP SLAVE", "RESET SLAVE ALL")
        for number in range(3):
            servers.run(replica, rows(50 + number, 1))
        worker.put(servers.config(replica))
        worker.resume()
        assert "others in place of" in str(failure(worker, "binlog_diverged"))
        worker.put(servers.config(replica, snapshot_mode="when_needed"))
        worker.resume()
        worker.wait_for(lambda: ids(worker, "r")[4:] == [50, 51, 52], "a new snapshot")
        worker.wait_for(lambda: "snapshot" not in str(worker.offsets()), "its end")
        worker.stop()
        # Built anew: its log is empty, and the server itself would take any position.
        servers.run(primary, "RESET MASTER")
        worker.put(servers.config(primary))
        worker.resume()
        assert "built anew" in str(failure(worker, "binlog_other_server"))
    refused(primary, read, OtherServerError, "its log ends with nothing")


def test_a_replica_that_lags_is_waited_for(servers: Servers) -> None:
    primary, replica = servers.primary, servers.replica
    session = servers.session(replica)
    try:
        # What is read is ahead of the replica, whose threads run.
        position = GtidPosition.read(servers.end(primary))
        (gtid,) = position.last
        ahead = GtidPosition([gtid._replace(sequence=gtid.sequence + 1)])
        deadline = time.monotonic() + 30
        while not int(session.rows("SHOW GLOBAL STATUS LIKE 'Slaves_running'")[0][1]):
            assert time.monotonic() < deadline
        with pytest.raises(MariaDbError, match="a replica that has not yet reached"):
            check_position(session, ahead, "the server")
        servers.run(primary, rows(0, 1))
        servers.sync()
        check_position(session, ahead, "the server")
    finally:
        session.close()


def test_sequence_numbers_that_go_back_are_refused_where_transactions_are_told(servers: Servers) -> None:
    """Without gtid_strict_mode a server logs them, of two primaries or a session that sets its own: no order is left."""
    primary = servers.primary
    servers.run(primary, "SET GLOBAL gtid_strict_mode=OFF")
    with MemoryWorker(MariaDbConnector(), "c") as worker:
        worker.put(servers.config(primary, provide_transaction_metadata="true"))
        worker.wait_for(lambda: bool(worker.offsets()), "the snapshot")
        for number in range(3):
            servers.run(primary, rows(number, 1))
        worker.wait_for(lambda: ids(worker) == [0, 1, 2], "the log")
        last = servers.end(primary)
        worker.wait_for(lambda: f"'gtids': '{last}'" in str(worker.offsets()), "what is stored")
        servers.run(primary, "SET server_id=9, gtid_seq_no=1", rows(10, 1))
        servers.run(primary, rows(11, 1))
        told = str(failure(worker, "mariadb_unsupported"))
        assert "transaction 0-9-1, which begins in binlog.000001 before byte" in told
        assert f", follows {last}: sequence numbers go back" in told
        assert ids(worker) == [0, 1, 2]
        worker.stop()
        with capture_logs() as logs:
            worker.put(servers.config(primary))
            worker.resume()
            worker.wait_for(lambda: len(ids(worker)) == 5, "what is read on without transactions")
        assert ids(worker) == [0, 1, 2, 10, 11]
        assert len([one for one in logs if one["event"].startswith("sequence numbers go back")]) == 1


def test_a_new_snapshot_of_a_server_whose_numbers_are_lower_is_refused_where_transactions_are_told(
    servers: Servers,
) -> None:
    """Consumers would take all for repeated that it writes until its numbers are beyond those that were read."""
    primary, replica = servers.primary, servers.replica
    both = {"provide_transaction_metadata": "true", "snapshot_mode": "when_needed"}
    with MemoryWorker(MariaDbConnector(), "c") as worker:
        worker.put(servers.config(primary, **both))
        worker.wait_for(lambda: bool(worker.offsets()), "the snapshot")
        servers.run(replica, "STOP SLAVE", "RESET SLAVE ALL")
        for number in range(3):
            servers.run(primary, rows(number, 1))
        worker.wait_for(lambda: ids(worker) == [0, 1, 2], "the log")
        last = servers.end(primary)
        worker.wait_for(lambda: f"'gtids': '{last}'" in str(worker.offsets()), "what is stored")
        servers.run(replica, rows(50, 1))
        worker.put(servers.config(replica, **both))
        told = str(failure(worker, "mariadb_unsupported"))
        assert "was read up to " + last in told
        assert ids(worker, "r") == []
        worker.stop()
        # As the message says.
        beyond = int(last.split("-")[2]) + 1
        servers.run(replica, f"SET gtid_seq_no={beyond}", rows(51, 1))
        worker.resume()
        worker.wait_for(lambda: ids(worker, "r") == [50, 51], "a new snapshot")
        servers.run(replica, rows(52, 1))
        worker.wait_for(lambda: ids(worker)[3:] == [52], "the log behind it")


def test_transactions_of_a_domain_that_does_not_count_are_left_out_and_need_not_be_on_the_next_server(
    servers: Servers,
) -> None:
    primary, replica = servers.primary, servers.replica
    chosen = {"gtid.source.includes": "0-.*"}

    def of_domain(number: int, statement: str) -> tuple[str, ...]:
        return f"SET SESSION gtid_domain_id = {number}", statement

    with MemoryWorker(MariaDbConnector(), "c") as worker:
        worker.put(servers.config(primary) | chosen)
        worker.wait_for(lambda: bool(worker.offsets()), "the snapshot")
        servers.run(primary, rows(0, 3))
        servers.sync()
        servers.run(replica, "STOP SLAVE", "RESET SLAVE ALL")
        servers.run(primary, *of_domain(7, rows(100, 3)))
        worker.wait_for(lambda: len(ids(worker)) >= 3, "the rows")
        worker.wait_for(lambda: "7-1-1" in str(worker.offsets()), "the position")
        worker.stop()
        # Promoted without it, and with a domain of its own, the beginning of whose log is gone.
        servers.run(replica, *of_domain(8, rows(200, 3)), "FLUSH BINARY LOGS")
        last = servers.run(replica, "SHOW MASTER STATUS")[0][0]
        wait_for("the purge", lambda: is_purged(servers, str(last)), 60)
        servers.run(replica, *of_domain(8, rows(300, 3)))
        servers.run(replica, rows(3, 3))
        worker.put(servers.config(replica))
        worker.resume()
        failure(worker, "binlog_lost")
        worker.put(servers.config(replica) | chosen)
        worker.resume()
        worker.wait_for(lambda: len(ids(worker)) >= 6, "the rows behind it")
        assert ids(worker) == [*range(6)]
        worker.wait_for(lambda: "8-2-2" in str(worker.offsets()), "the position there")
        assert "7-1-1" not in str(worker.offsets())


def is_purged(servers: Servers, last: str) -> bool:
    """Nothing is, while the server's own checkpoint names an older file."""
    servers.run(servers.replica, f"PURGE BINARY LOGS TO '{last}'")
    return servers.run(servers.replica, "SHOW BINARY LOGS")[0][0] == last
