"""MariaDB with a replica, and Kafka, each behind a proxy, and one worker that writes exactly once."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

from faultlab.proxy import Proxy
from faultlab.servers import ProxiedKafka
from faultlab.worker import Worker

from mariadblab.traffic import connect, run
from tidings_jvm import SilentProgress
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.ports import PortReservations
from tidings_stack.server import Place
from tidings_stack.waiting import wait_for


class MariaLab:
    """Servers of its own: faults stop them."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tidings-faults-"))
        self.directory.chmod(0o755)
        self._place = Place(self.directory, PortReservations(), SilentProgress())
        # What a killed server has committed is in its log.
        settings = {
            "sync_binlog": "1",
            "innodb_flush_log_at_trx_commit": "1",
            # Else a prepared transaction locks gaps on the replica that it did not lock on the server, and it waits for itself.
            "transaction_isolation": "READ-COMMITTED",
        }
        # The replica cuts the same rows into other events.
        self.db, self.replica = (
            MariaDbServer(
                self._place, settings={**settings, "server_id": number, **more}, name=f"mariadb-{number}"
            )
            for number, more in (("1", {}), ("2", {"binlog_row_event_max_size": "1024"}))
        )
        self.replica.password = self.db.password
        self.kafka = ProxiedKafka(self._place)
        self.db_proxy, self.kafka_proxy = Proxy(self.db.port), self.kafka.proxy
        worker = self.directory / "worker"
        worker.mkdir()
        self.worker = Worker(
            worker, self.kafka.proxied, "faults-mariadb", {"exactly.once.source.support": "enabled"}
        )

    def start(self) -> None:
        """Start everything."""
        self.db.start()
        self.replica.start()
        self._replicate()
        self.kafka.start()
        self.worker.start()

    def _replicate(self) -> None:
        """The replica follows the server."""
        source = (
            f"master_host='127.0.0.1', master_port={self.db.port}, master_user='admin', master_use_gtid=slave_pos,"
            f" master_password='{self.db.password}', master_connect_retry=1, master_ssl=0, master_ssl_verify_server_cert=0"
        )
        run(self.replica, f"CHANGE MASTER TO {source}", "START SLAVE")

    def crash_database(self) -> None:
        """SIGKILL; the next start recovers."""
        pid = self.db.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for("MariaDB to be gone", lambda: not self.db.running)

    def fail_over(self) -> None:
        """The server is killed, and its replica, which has everything, takes its place; then they change roles."""
        locked = connect(self.db)
        try:
            with locked.cursor() as cursor:
                cursor.execute("FLUSH TABLES WITH READ LOCK")
                cursor.execute("SELECT @@gtid_binlog_pos")
                ((end,),) = cursor.fetchall()
            came = run(self.replica, f"SELECT MASTER_GTID_WAIT('{end}', 600)")
            assert came == [(0,)], f"the replica has not come to {end} in 600 seconds"
            self.crash_database()
        finally:
            locked.close()
        run(self.replica, "STOP SLAVE", "RESET SLAVE ALL")
        self.db, self.replica = self.replica, self.db
        self.db_proxy.retarget(self.db.port)
        self.replica.start()
        run(self.replica, "SET GLOBAL gtid_slave_pos = @@gtid_binlog_pos")
        self._replicate()

    def heal(self) -> None:
        """Everything runs, and both links are as they should be."""
        self.worker.disarm()
        for proxy in (self.db_proxy, self.kafka_proxy):
            proxy.heal()
        self.db.start()
        self.replica.start()
        self.kafka.start()
        if not self.worker.alive:
            self.worker.start()

    def connector(self, name: str, **more: str) -> dict[str, str]:
        """A connector on the tables `a` and `b` of the database `name`, through the proxy.

        Args:
            more: options, with underscores for dots.
        """
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.db_proxy.port),
            "database.user": "admin",
            "database.password": self.db.password,
            "database.include.list": name,
            "table.include.list": rf"{name}\.(a|b)",
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
        """Stop everything and remove it."""
        self.worker.stop()
        for server in (self.kafka, self.db, self.replica):
            server.close()
        self.db_proxy.close()
        self._place.ports.release()
        shutil.rmtree(self.directory, ignore_errors=True)
