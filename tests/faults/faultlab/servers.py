"""The servers of a system under faults: PostgreSQL, Kafka and the registry, each behind a proxy, and one worker.

A stack of its own, because faults stop its servers: tests of other things must not notice. What checks (reads topics, asks
the database) goes past the proxies; only capture goes through them.
"""

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro

from faultlab.proxy import Proxy
from faultlab.worker import Worker
from tidings_jvm import SilentProgress
from tidings_stack.capture import avro_options, json_options
from tidings_stack.kafka import KafkaServer
from tidings_stack.ports import PortReservations
from tidings_stack.postgres import PostgresServer
from tidings_stack.registry import RegistryServer, set_compatibility
from tidings_stack.server import Place
from tidings_stack.waiting import wait_for

BROKER_SESSION_SECONDS = 9
"""Kafka's default: after so long without a sign of life its controller takes a broker for dead."""


class ProxiedKafka(KafkaServer):
    """A broker with a second listener, whose clients are sent to a proxy for everything."""

    def __init__(self, place: Place, settings: Mapping[str, str] | None = None, name: str = "kafka") -> None:
        super().__init__(place, settings=settings, name=name)
        self._inner = place.ports.reserve()
        self.proxy = Proxy(self._inner)

    @property
    def proxied(self) -> str:
        """Bootstrap servers on the far side of the proxy."""
        return f"127.0.0.1:{self.proxy.port}"

    def _all_settings(self) -> dict[str, str]:
        found = super()._all_settings()
        found["listeners"] += f",PROXIED://127.0.0.1:{self._inner}"
        found["advertised.listeners"] += f",PROXIED://{self.proxied}"
        found["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
        found["broker.session.timeout.ms"] = str(BROKER_SESSION_SECONDS * 1000)
        return found

    def close(self) -> None:
        super().close()
        self.proxy.close()


class LenientRegistry(RegistryServer):
    """Takes every schema: who alters tables as the schedules do, in Avro, has agreed on that with all readers."""

    def _after_start(self) -> None:
        set_compatibility(self.url, "NONE")


class Lab:
    """PostgreSQL, Kafka and (when asked for) the registry behind proxies, and a worker."""

    def __init__(
        self,
        *,
        registry: bool = False,
        group: str = "faults",
        worker_settings: Mapping[str, str] | None = None,
        kafka_settings: Mapping[str, str] | None = None,
        pg_settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tidings-faults-"))
        self.directory.chmod(0o755)
        self.place = Place(self.directory, PortReservations(), SilentProgress())
        self.pg = PostgresServer(
            self.place,
            settings={"wal_sender_timeout": "5s", "checkpoint_timeout": "30s", **(pg_settings or {})},
        )
        self.kafka = ProxiedKafka(self.place, kafka_settings)
        self._registry = LenientRegistry(self.place) if registry else None
        self.pg_proxy = Proxy(self.pg.port)
        self.kafka_proxy = self.kafka.proxy
        self.registry_proxy = Proxy(self.registry.port) if registry else None
        self._group = group
        self.worker = Worker(self._worker_directory(group), self.kafka.proxied, group, worker_settings or {})
        self.partner: Worker | None = None
        """Another one of its group, whose way to Kafka is not through the proxy."""

    @property
    def registry(self) -> RegistryServer:
        assert self._registry is not None
        return self._registry

    def _worker_directory(self, group: str) -> Path:
        made = self.directory / f"worker-{group}"
        made.mkdir()
        return made

    @contextlib.contextmanager
    def other_worker(self, group: str, settings: Mapping[str, str]) -> Iterator[None]:
        """Another worker in place of this one, for as long as a `with` lasts."""
        former = self.worker
        self.worker = Worker(self._worker_directory(group), self.kafka.proxied, group, settings)
        try:
            self.worker.start()
            yield
        finally:
            self.worker.stop()
            self.worker = former

    @contextlib.contextmanager
    def pair_of_workers(self, group: str) -> Iterator[None]:
        """Two workers of a group in place of the one, for as long as a `with` lasts."""
        with self.other_worker(group, {}), self.beside({}, group):
            yield

    @contextlib.contextmanager
    def beside(self, settings: Mapping[str, str], group: str = "") -> Iterator[None]:
        """A second worker in the group of the one that there is, for as long as a `with` lasts."""
        group = group or self._group
        self.partner = Worker(
            self._worker_directory(f"{group}-partner"), self.kafka.bootstrap, group, settings
        )
        try:
            self.partner.start()
            yield
        finally:
            self.partner.stop()
            self.partner = None

    def start(self) -> None:
        """Start everything."""
        self.pg.start()
        self.kafka.start()
        if self._registry is not None:
            self._registry.start()
        self.worker.start()

    def proxies(self) -> list[Proxy]:
        return [p for p in (self.pg_proxy, self.kafka_proxy, self.registry_proxy) if p is not None]

    def heal(self) -> None:
        """Everything runs, and every link is as it should be."""
        self.worker.disarm()
        for proxy in self.proxies():
            proxy.heal()
        self.pg.start()
        self.kafka.start()
        if self._registry is not None:
            self._registry.start()
        if not self.worker.alive:
            self.worker.start()

    def connector(self, name: str, tables: str) -> dict[str, str]:
        """A connector through the proxies on the database `name`, whose topics, slot and publication are called so, too.

        Args:
            tables: of schema public, as a regular expression.
        """
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "plugin.name": "pgoutput",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.pg_proxy.port),
            "database.user": "postgres",
            "database.password": self.pg.password,
            "database.dbname": name,
            "topic.prefix": name,
            "slot.name": name,
            "publication.name": name,
            "publication.autocreate.mode": "filtered",
            "table.include.list": rf"public\.({tables})",
            "provide.transaction.metadata": "true",
            "snapshot.mode": "no_data",
            "slot.max.retries": "60",
            "slot.retry.delay.ms": "250",
            "errors.retry.delay.initial.ms": "100",
            "errors.retry.delay.max.ms": "500",
            "tidings.receive.timeout.ms": "4000",
        }

    def avro(self) -> dict[str, str]:
        """Options of a connector that writes Avro and asks the registry through its proxy."""
        assert self.registry_proxy is not None
        return avro_options(f"http://127.0.0.1:{self.registry_proxy.port}/apis/ccompat/v7")

    def json(self) -> dict[str, str]:
        """Options of a connector that writes JSON with schemas."""
        return json_options()

    def last_words(self) -> str:
        """What everybody said and is doing, for the report of a test that failed."""
        servers = "\n".join(f"{server.title}: {server.log_tail(40)}" for server in (self.kafka, self.pg))
        return f"{servers}\n{self.worker.last_words()}"

    def decoder(self) -> Callable[[bytes], Any]:
        """Decodes Confluent's wire format, with schemas asked for past the proxy."""
        known: dict[int, Any] = {}

        def decode(data: bytes) -> Any:
            number = int.from_bytes(data[1:5], "big")
            if number not in known:
                with urllib.request.urlopen(
                    f"{self.registry.url}/schemas/ids/{number}", timeout=60
                ) as answer:
                    known[number] = fastavro.parse_schema(json.loads(json.load(answer)["schema"]))
            return fastavro.schemaless_reader(io.BytesIO(data[5:]), known[number], None)

        return decode

    def crash_postgres(self) -> None:
        """As ``pg_ctl stop -m immediate``: no checkpoint, the next start recovers from WAL."""
        pid = self.pg.pid
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)
        wait_for("PostgreSQL to be gone", lambda: not self.pg.running)

    def fill_disk(self) -> None:
        """From now on the broker cannot make its files larger: every write fails, as on a full disk (as EFBIG)."""
        pid = self.kafka.pid
        assert pid is not None
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    def close(self) -> None:
        """Stop everything and remove it."""
        with contextlib.ExitStack() as exits:
            exits.callback(shutil.rmtree, self.directory, ignore_errors=True)
            exits.callback(self.place.ports.release)
            for proxy in (self.pg_proxy, self.registry_proxy):
                if proxy is not None:
                    exits.callback(proxy.close)
            for server in (self.kafka, self._registry, self.pg):
                if server is not None:
                    exits.callback(server.close)
            exits.callback(self.worker.stop)


@contextlib.contextmanager
def open_lab(**arguments: Any) -> Iterator[Lab]:
    """A lab that runs, for as long as a `with` lasts."""
    lab = Lab(**arguments)
    try:
        lab.start()
        yield lab
    finally:
        lab.close()
