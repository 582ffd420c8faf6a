"""Business events from MySQL, behind a failover to a replica: what the rules tell is what SQL tells of the store's own history.

By hand, since it starts two servers of its own: ``pytest -n0 tests/faults/mysql_events.py``.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from binloglab.store import Customer
from binloglab.traffic import run as ask
from faultlab.servers import Lab
from test_mariadb_events import Pipeline

from tidings_jvm import SilentProgress
from tidings_stack.mysql import MySqlServer
from tidings_stack.ports import PortReservations
from tidings_stack.server import Place
from tidings_stack.waiting import wait_for

pytestmark = pytest.mark.timeout(900)
_CATCH_UP_SECONDS = 240.0


class OnMySql(Pipeline):
    """A source that changes its server."""

    def move(self, server: MySqlServer) -> None:
        """Another server is written and read from now on."""
        number = self.customer.number
        self.customer.close()
        self._server = server
        self.customer = Customer(server, self.name, seed=12)
        self.customer.number = number


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[MySqlServer, MySqlServer]]:
    """A server, and one that follows it by GTIDs."""
    ports = PortReservations()
    place = Place(tmp_path, ports, SilentProgress())
    first, second = (
        MySqlServer(place, settings={"server_id": number}, name=f"mysql-{number}") for number in ("1", "2")
    )
    second.password = first.password
    with ExitStack() as stack:
        stack.callback(ports.release)
        for server in (first, second):
            stack.callback(server.close)
            server.start()
        ask(
            second,
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={first.port}, SOURCE_USER='admin',"
            f" SOURCE_PASSWORD='{first.password}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
            "START REPLICA",
        )
        yield first, second


def test_events_are_those_of_the_database_behind_a_failover(
    lab: Lab, servers: tuple[MySqlServer, MySqlServer], tmp_path: Path
) -> None:
    """The worker is killed, the server is lost, and the new one's GTIDs are numbered from 1 on."""
    first, second = servers
    with ExitStack() as stack:
        run = OnMySql(lab, first, tmp_path)
        stack.callback(run.close)
        stack.callback(run.disconnect, run.name)
        run.customer.transactions(20)  # in the snapshot, which is nobody's news
        run.connect(run.name)
        run.traffic(30)
        run.start()
        run.traffic(30, big=700)
        wait_for("the first events", lambda: run.published.read() > 20, seconds=_CATCH_UP_SECONDS)
        lab.worker.kill()
        for stage in run.stages:
            stage.kill()
        run.traffic(30)
        lab.worker.start()
        run.traffic(20)

        ((there,),) = ask(first, "SELECT @@global.gtid_executed")
        assert ask(second, f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{there}', 120)") == [(0,)]
        first.stop()
        ask(second, "STOP REPLICA", "RESET REPLICA ALL")
        run.move(second)
        run.traffic(30, big=300)
        run.configure(run.name)
        run.traffic(30)
        run.settle()
        (number,) = {gtid.rpartition(":")[2] for gtid in _own_gtids(second)}
        assert number.startswith("1-"), "the new server counts by itself"


def _own_gtids(server: MySqlServer) -> list[str]:
    ((uuid, executed),) = ask(server, "SELECT @@server_uuid, @@global.gtid_executed")
    return [one.strip() for one in executed.split(",") if one.strip().startswith(uuid)]
