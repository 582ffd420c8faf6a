"""MariaDB and Kafka, each behind a proxy, and one worker that writes exactly once."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

from faultlab.proxy import Proxy
from faultlab.servers import ProxiedKafka
from faultlab.worker import Worker

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
        settings = {"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"}
        self.db = MariaDbServer(self._place, settings=settings)
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
        self.kafka.start()
        self.worker.start()

    def crash_database(self) -> None:
        """SIGKILL; the next start recovers."""
        pid = self.db.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for("MariaDB to be gone", lambda: not self.db.running)

    def heal(self) -> None:
        """Everything runs, and both links are as they should be."""
        self.worker.disarm()
        for proxy in (self.db_proxy, self.kafka_proxy):
            proxy.heal()
        self.db.start()
        self.kafka.start()
        if not self.worker.alive:
            self.worker.start()

    def connector(self, name: str) -> dict[str, str]:
        """A connector on the tables `a` and `b` of the database `name`, through the proxy."""
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
        }

    def close(self) -> None:
        """Stop everything and remove it."""
        self.worker.stop()
        for server in (self.kafka, self.db):
            server.close()
        self.db_proxy.close()
        self._place.ports.release()
        shutil.rmtree(self.directory, ignore_errors=True)
