"""MariaDB or MySQL with a replica, and Kafka, each behind a proxy, and one worker that writes exactly once."""

import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pymysql
from faultlab.proxy import Proxy
from faultlab.servers import Lab, LenientRegistry, ProxiedKafka
from faultlab.worker import Worker

from binloglab.flavours import Flavour
from binloglab.traffic import connect, logged_name, prepared_name, run
from tidings_jvm import SilentProgress
from tidings_stack.mariadb import MySqlLikeServer
from tidings_stack.ports import PortReservations
from tidings_stack.server import Place
from tidings_stack.waiting import wait_for

EXACTLY_ONCE: Final = {"exactly.once.source.support": "enabled"}
"""Settings of the worker."""


class BinlogLab:
    """Servers of its own: faults stop them."""

    def __init__(self, flavour: Flavour, within: Lab | None = None, *, registry: bool = False) -> None:
        """Args:
        within: whose broker, registry and worker are taken; then there is no replica.
        registry: whether there is one.
        """
        self.flavour, self._within = flavour, within
        self.directory = within.directory if within else Path(tempfile.mkdtemp(prefix="tidings-faults-"))
        self.directory.chmod(0o755)
        self.place = within.place if within else Place(self.directory, PortReservations(), SilentProgress())
        self.db, self.replica = self._server("1", {}), None
        if flavour.has_gtids and within is None:
            # It cuts the same rows into other events.
            self.replica = self._server("2", {"binlog_row_event_max_size": "1024"})
            self.replica.password = self.db.password
        self.kafka = within.kafka if within else ProxiedKafka(self.place)
        self.db_proxy, self.kafka_proxy = Proxy(self.db.port), self.kafka.proxy
        self.worker = within.worker if within else self._worker()
        self._registry = LenientRegistry(self.place) if registry else None
        self._recovers = False

    @property
    def registry(self) -> LenientRegistry:
        found = self._within.registry if self._within else self._registry
        assert found is not None
        return found

    def _server(self, number: str, more: Mapping[str, str]) -> MySqlLikeServer:
        settings = {
            # What a killed server has committed is in its log.
            "sync_binlog": "1",
            "innodb_flush_log_at_trx_commit": "1",
            # Else a prepared transaction locks gaps on the replica that it did not lock on the server, and it waits for itself.
            "transaction_isolation": "READ-COMMITTED",
            **self.flavour.settings,
            "server_id": number,
            **more,
        }
        made = self.flavour.server
        return made(self.place, settings=settings, name=f"{made.name}-{number}")

    def _worker(self) -> Worker:
        directory = self.directory / "worker"
        directory.mkdir()
        return Worker(directory, self.kafka.proxied, "faults-binlog", EXACTLY_ONCE)

    def start(self) -> None:
        """Start everything."""
        self.db.start()
        if self.replica is not None:
            self.replica.start()
            self._replicate(self.replica)
        if self._within is None:
            self.kafka.start()
            if self._registry is not None:
                self._registry.start()
            self.worker.start()

    @property
    def servers(self) -> list[MySqlLikeServer]:
        """The server, and its replica if there is one."""
        return [self.db] if self.replica is None else [self.db, self.replica]

    def _replicate(self, replica: MySqlLikeServer, *before: str) -> None:
        """A replica follows the server, after some statements."""
        run(replica, *before, *self.flavour.replicate(self.db.password, self.db.port))

    def writable(self) -> MySqlLikeServer:
        """The server, for writers.

        Raises:
            pymysql.Error: it recovers.
        """
        if self._recovers:
            raise pymysql.OperationalError("the server recovers")
        return self.db

    def crash_and_start(self) -> None:
        """SIGKILL, and a start that recovers."""
        self._recovers = True
        try:
            self._crash()
            self.db.start()
            if self.replica is not None:
                ((end,),) = run(self.db, self.flavour.end)
                self._await_replica(end)
                self._end_as_logged(self.replica)
        finally:
            self._recovers = False

    def _end_as_logged(self, replica: MySqlLikeServer) -> None:
        """Have distributed transactions that the crash has left be what the log says they are.

        MariaDB logs that one is prepared, committed or rolled back before it is. Of one that was logged as prepared, a server
        that is killed in between has nothing, and its replica's locks would stay for ever. One that was logged as ended is still
        prepared: were it ended once more, the replica would not know it.
        """
        here, there = (
            {prepared_name(row): row for row in run(one, "XA RECOVER")} for one in (self.db, replica)
        )
        for name in there.keys() - here.keys():
            run(replica, "SET SESSION sql_log_bin = 0", f"XA ROLLBACK {name}")
        for name in here.keys() - there.keys():
            run(self.db, "SET SESSION sql_log_bin = 0", f"XA {self._logged_end(here[name])} {name}")

    def _logged_end(self, prepared: Sequence[Any]) -> str:
        """COMMIT or ROLLBACK."""
        logged = logged_name(prepared)
        for file in reversed(run(self.db, "SHOW BINARY LOGS")):
            for event in reversed(run(self.db, f"SHOW BINLOG EVENTS IN '{file[0]}'")):
                for how in ("COMMIT", "ROLLBACK"):
                    if event[-1].startswith(f"XA {how} {logged}"):
                        return how
        raise AssertionError(f"the log does not say how {logged} ended, which the replica does not have")

    def _await_replica(self, end: str) -> None:
        assert self.replica is not None
        came = run(self.replica, self.flavour.waited(end))
        assert came == [(0,)], f"the replica has not come to {end} in 600 seconds"

    def _crash(self) -> None:
        pid = self.db.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for("the server to be gone", lambda: not self.db.running)

    def fail_over(self) -> None:
        """The server is killed, and its replica, which has everything, takes its place; then they change roles."""
        replica = self.replica
        assert replica is not None
        locked = connect(self.db)
        try:
            with locked.cursor() as cursor:
                cursor.execute("FLUSH TABLES WITH READ LOCK")
                cursor.execute(self.flavour.end)
                ((end,),) = cursor.fetchall()
            self._await_replica(end)
            self._crash()
        finally:
            locked.close()
        run(replica, *self.flavour.promote())
        self.db, self.replica = replica, self.db
        self.db_proxy.retarget(self.db.port)
        self.replica.start()
        ((here,),), ((there,),) = (run(server, self.flavour.end) for server in (self.replica, self.db))
        self._replicate(self.replica, *self.flavour.follows_again(here, there))

    def heal(self) -> None:
        """Everything runs, and both links are as they should be."""
        self.worker.disarm()
        for proxy in (self.db_proxy, self.kafka_proxy):
            proxy.heal()
        for server in (*self.servers, self.kafka):
            server.start()
        if not self.worker.alive:
            self.worker.start()

    def connector(self, name: str, **more: str) -> dict[str, str]:
        """A connector on the tables `a`, `b` and `local` of the database `name`, through the proxy.

        Args:
            more: options, with underscores for dots.
        """
        return {
            "connector.class": self.flavour.connector_class,
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.db_proxy.port),
            "database.user": "admin",
            "database.password": self.db.password,
            "database.include.list": name,
            "table.include.list": rf"{name}\.(a|b|local)",
            "include.schema.changes": "false",
            "topic.prefix": name,
            "provide.transaction.metadata": "true",
            "snapshot.mode": "no_data",
            "exactly.once.support": "required",
            "errors.retry.delay.initial.ms": "100",
            "errors.retry.delay.max.ms": "500",
            **{option.replace("_", "."): value for option, value in more.items()},
        }

    def close(self) -> None:
        """Stop everything that is its own, and remove it."""
        if self._within is None:
            self.worker.stop()
            if self._registry is not None:
                self._registry.close()
            self.kafka.close()
        for server in self.servers:
            server.close()
        self.db_proxy.close()
        if self._within is None:
            self.place.ports.release()
            shutil.rmtree(self.directory, ignore_errors=True)
