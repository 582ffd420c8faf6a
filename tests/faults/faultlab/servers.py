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
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro

from faultlab.proxy import Proxy
from tidings_jvm import SilentProgress
from tidings_stack.kafka import KafkaServer
from tidings_stack.ports import PortReservations
from tidings_stack.postgres import PostgresServer
from tidings_stack.registry import RegistryServer
from tidings_stack.server import Place
from tidings_stack.waiting import wait_for

BROKER_SESSION_SECONDS = 9
"""Kafka's default: after so long without a sign of life its controller takes a broker for dead."""
JSON = "org.apache.kafka.connect.json.JsonConverter"


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


class Worker:
    """A capture worker, started as people start it."""

    def __init__(self, directory: Path, bootstrap: str, group: str, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self.points = directory / "fault-points"
        self.log = directory / "worker.log"
        self._properties = directory / "worker.properties"
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self.offset_topic = f"{group}-offset"
        lines = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "listeners": self.url,
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            "offset.storage.partitions": "1",
            "key.converter": JSON,
            "key.converter.schemas.enable": "false",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            "offset.flush.interval.ms": "100",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            **settings,
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(Path(sys.executable).with_name("tidings-capture")), str(self._properties)]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env={**os.environ, "TIDINGS_FAULT_POINTS": str(self.points)},
            )
        wait_for("the worker to answer", self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.tail()
        with contextlib.suppress(OSError):
            return bool(self.request("GET", "/readyz")[1]["components"]["kafka"]["ok"])
        return False

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON body of an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data=data, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read()
        except OSError as error:
            if self._process is not None and (code := self._process.poll()) is not None:
                raise AssertionError(f"the worker has ended with {code}: {self.tail()}") from error
            raise
        return status, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()

    def ask(self, method: str, path: str, body: Any, *wanted: int) -> None:
        """A request that has to be granted: 409 and 5xx, while a group agrees or a server is away, are asked again."""
        answers: list[tuple[int, Any]] = []

        def granted() -> bool:
            with contextlib.suppress(OSError):
                answers.append(self.request(method, path, body))
                return answers[-1][0] in wanted
            return False

        try:
            wait_for(f"{method} {path}", granted)
        except AssertionError as error:
            raise AssertionError(f"{error}; {answers[-1:]}") from None

    def task(self, name: str) -> dict[str, Any]:
        """The state of a connector's task."""
        status, body = self.request("GET", f"/connectors/{name}/status")
        return body["tasks"][0] if status == 200 and body["tasks"] else {"state": None}

    def wait_task(self, name: str, state: str = "RUNNING") -> dict[str, Any]:
        """Wait until a connector's task has a state; not for one that was given up."""

        def there() -> Any:
            task = self.task(name)
            if state != "FAILED" and "no further attempt" in task.get("trace", ""):
                raise AssertionError(f"{name} was given up: {task['trace']}")
            return task if task["state"] == state else None

        try:
            return wait_for(f"{name} to be {state}", there)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.task(name)['state']}\n{self.tail()}") from None

    def task_pid(self, name: str = "") -> int | None:
        """The process of a task; of the only one there is."""
        if not self.alive:
            return None
        assert self._process is not None
        text = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return next((pid for pid in map(int, text.split()) if _alive(pid)), None)

    @property
    def pid(self) -> int:
        """Its own process."""
        assert self._process is not None
        return self._process.pid

    @property
    def id(self) -> str:
        """Its name in the group."""
        return self.url.removeprefix("http://")

    def knows(self, other: "Worker") -> bool:
        """Whether it has seen another one in the group, and not seen it leave."""
        told = [
            line
            for line in self.log.read_text().splitlines()
            if f'"worker": "{other.id}", "event": "a worker' in line
        ]
        return bool(told) and "is in the group" in told[-1]

    def kill(self) -> None:
        """SIGKILL, and wait until its task is gone with it."""
        assert self._process is not None
        task = self.task_pid()
        self._process.kill()
        self._process.wait(30)
        wait_for("the task to die with its worker", lambda: task is None or not _alive(task))

    def stop(self) -> None:
        """SIGTERM."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)

    def arm(self, point: str, *, skip: int = 0, action: str = "kill") -> None:
        """Let whoever passes a named point for the `skip` + 1st time end there."""
        made = self.points.with_suffix(".new")
        made.write_text(f"{point} {action} {skip}", encoding="ascii")
        made.replace(self.points)

    @property
    def armed(self) -> bool:
        """Whether nobody has passed the point yet."""
        return self.points.exists()

    def disarm(self) -> None:
        self.points.unlink(missing_ok=True)

    def last_words(self) -> str:
        """What the worker and its task are doing, and what they have said; librdkafka's notes of lost connections left out."""
        for pid in (self.alive and self._process and self._process.pid, self.task_pid()):
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGUSR1)  # the stacks of all threads
        time.sleep(1.0)
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([line for line in lines if '"event": "FAIL [' not in line][-400:])

    def tail(self, size: int = 4000) -> str:
        """The end of the log."""
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


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
        self._place = Place(self.directory, PortReservations(), SilentProgress())
        self.pg = PostgresServer(
            self._place,
            settings={"wal_sender_timeout": "5s", "checkpoint_timeout": "30s", **(pg_settings or {})},
        )
        self.kafka = ProxiedKafka(self._place, kafka_settings)
        self._registry = RegistryServer(self._place) if registry else None
        self.pg_proxy = Proxy(self.pg.port)
        self.kafka_proxy = self.kafka.proxy
        self.registry_proxy = Proxy(self.registry.port) if registry else None
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
        with self.other_worker(group, {}):
            self.partner = Worker(self._worker_directory(f"{group}-partner"), self.kafka.bootstrap, group, {})
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

    def avro(self) -> dict[str, str]:
        """Options of a connector that writes Avro and asks the registry through its proxy."""
        assert self.registry_proxy is not None
        url = f"http://127.0.0.1:{self.registry_proxy.port}/apis/ccompat/v7"
        return {
            f"{side}.converter{setting}": value
            for side in ("key", "value")
            for setting, value in (
                ("", "io.confluent.connect.avro.AvroConverter"),
                (".schema.registry.url", url),
            )
        }

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
            exits.callback(self._place.ports.release)
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
