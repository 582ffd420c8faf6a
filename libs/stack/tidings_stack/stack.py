"""The stack: real servers as local processes, started together, gone together.

    with Stack(members=("pg", "kafka", "registry"), pg_version="16") as stack:
        stack.pg.url, stack.kafka.bootstrap, stack.registry.url

Its directory is temporary and locked while an owner or a guard lives; what a power cut leaves behind is removed by the
next stack that starts.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from tidings_jvm import Progress, default_progress
from tidings_stack.errors import StackError
from tidings_stack.members import DEFAULT_MEMBERS, fetch_members, start_order, with_requirements
from tidings_stack.ports import PortReservations
from tidings_stack.server import Place, Server

if TYPE_CHECKING:
    from tidings_stack.connect import ConnectServer
    from tidings_stack.kafka import KafkaServer
    from tidings_stack.mariadb import MariaDbServer
    from tidings_stack.postgres import PostgresServer
    from tidings_stack.registry import RegistryServer

PREFIX = "tidings-stack-"
_S = TypeVar("_S", bound=Server)


class Stack:
    """A set of servers with one directory.

    `members` are started by `start` or on entering the context; more can follow with `ensure`. A given `directory` is
    kept at the end, with the data; otherwise the stack makes one and removes it. `pg_settings` and `kafka_settings` add
    to the servers' configuration; `pg_extensions` are installations whose extensions PostgreSQL gets beside its own.
    """

    def __init__(
        self,
        members: Iterable[str] = DEFAULT_MEMBERS,
        *,
        pg_version: str = "16",
        pg_settings: Mapping[str, str] | None = None,
        pg_extensions: Sequence[Path] = (),
        kafka_settings: Mapping[str, str] | None = None,
        kafka_heap: str = "384m",
        directory: Path | str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._wanted = with_requirements(members)
        self._pg_version = pg_version
        self._pg_settings = dict(pg_settings or {})
        self._pg_extensions = tuple(pg_extensions)
        self._kafka_settings = dict(kafka_settings or {})
        self._kafka_heap = kafka_heap
        self._given_directory = None if directory is None else Path(directory).absolute()
        self._progress = progress or default_progress()
        self._servers: dict[str, Server] = {}
        self._more: list[Server] = []
        self._place: Place | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pg(self) -> PostgresServer:
        """PostgreSQL. Raises StackError when it is not a started member."""
        from tidings_stack.postgres import PostgresServer  # noqa: PLC0415 (psycopg is loaded by who needs it)

        return self._member("pg", PostgresServer)

    @property
    def mariadb(self) -> MariaDbServer:
        """MariaDB. Raises StackError when it is not a started member."""
        from tidings_stack.mariadb import MariaDbServer  # noqa: PLC0415

        return self._member("mariadb", MariaDbServer)

    @property
    def kafka(self) -> KafkaServer:
        """Kafka. Raises StackError when it is not a started member."""
        from tidings_stack.kafka import KafkaServer  # noqa: PLC0415

        return self._member("kafka", KafkaServer)

    @property
    def registry(self) -> RegistryServer:
        """The schema registry. Raises StackError when it is not a started member."""
        from tidings_stack.registry import RegistryServer  # noqa: PLC0415

        return self._member("registry", RegistryServer)

    @property
    def connect(self) -> ConnectServer:
        """Kafka Connect with Debezium. Raises StackError when it is not a started member."""
        from tidings_stack.connect import ConnectServer  # noqa: PLC0415

        return self._member("connect", ConnectServer)

    @property
    def servers(self) -> Mapping[str, Server]:
        """The started members by name."""
        return dict(self._servers)

    @property
    def directory(self) -> Path:
        """Where the servers keep their data and logs, once started."""
        return self._get_place().directory

    def start(self) -> None:
        """Start the members, in parallel. Errors: StackError; JvmError when a part cannot be fetched."""
        self.ensure(*self._wanted)

    def ensure(self, *members: str) -> None:
        """Start those members that are not there yet, with what they need, in parallel."""
        with self._lock:
            missing = [name for name in with_requirements(members) if name not in self._servers]
            if not missing:
                return
            fetch_members(missing, self._pg_version, progress=self._progress)
            place = self._get_place()
            self._progress.say(f"Starting {', '.join(missing)} ...")
            try:
                for name in missing:
                    self._servers[name] = self._create(name, place)
                for stage in start_order(missing):
                    _start_all([self._servers[name] for name in stage])
            except BaseException:
                _close_all([self._servers.pop(name) for name in missing if name in self._servers])
                raise

    def add_pg(
        self,
        version: str,
        *,
        settings: Mapping[str, str] | None = None,
        binaries: Path | None = None,
        extensions: Sequence[Path] = (),
    ) -> PostgresServer:
        """Start one more PostgreSQL, of any version and with its own settings; it ends with the stack.

        For `binaries` and `extensions` see `PostgresServer`.
        """
        from tidings_stack.postgres import PostgresServer  # noqa: PLC0415

        with self._lock:
            server = PostgresServer(
                self._get_place(),
                version=version,
                settings=settings,
                name=f"pg-{version}-{len(self._more) + 1}",
                binaries=binaries,
                extensions=extensions,
            )
            self._more.append(server)
        server.start()
        return server

    def add_replica(
        self, primary: PostgresServer, *, settings: Mapping[str, str] | None = None
    ) -> PostgresServer:
        """Start a streaming replica of a PostgreSQL (15 or newer) that `add_pg` gave; it ends with the stack."""
        from tidings_stack.postgres import PostgresServer  # noqa: PLC0415

        with self._lock:
            name = f"pg-{primary.version}-{len(self._more) + 1}"
            server = PostgresServer(
                self._get_place(), version=primary.version, settings=settings, name=name, primary=primary
            )
            self._more.append(server)
        server.start()
        return server

    def add_connect(self, bootstrap: str, *, settings: Mapping[str, str] | None = None) -> ConnectServer:
        """Start one more Kafka Connect on any Kafka; it ends with the stack."""
        from tidings_stack.connect import ConnectServer  # noqa: PLC0415

        with self._lock:
            name = f"connect-{len(self._more) + 1}"
            server = ConnectServer(self._get_place(), bootstrap=bootstrap, settings=settings, name=name)
            self._more.append(server)
        server.start()
        return server

    def add(self, make: Callable[[Place], _S]) -> _S:
        """Start a server that `make` creates in this stack's place; it ends with the stack."""
        with self._lock:
            server = make(self._get_place())
            self._more.append(server)
        server.start()
        return server

    def environment(self) -> dict[str, str]:
        """Return the `TIDINGS_*` variables that point at this stack."""
        variables = {
            "pg": "TIDINGS_PG",
            "mariadb": "TIDINGS_MARIADB",
            "mysql": "TIDINGS_MYSQL",
            "kafka": "TIDINGS_KAFKA",
            "registry": "TIDINGS_REGISTRY",
            "connect": "TIDINGS_CONNECT",
        }
        return {variables[name]: server.url for name, server in self._servers.items()}

    def close(self) -> None:
        """Stop everything, Kafka last, and remove the directory. May be called again."""
        with self._lock:
            dependants = [*self._more, *(server for name, server in self._servers.items() if name != "kafka")]
            _close_all(dependants)
            _close_all([server for name, server in self._servers.items() if name == "kafka"])
            self._servers.clear()
            self._more.clear()
            place, self._place = self._place, None
            if place is not None:
                if not place.keep:
                    shutil.rmtree(place.directory, ignore_errors=True)
                place.ports.release()
                for descriptor in place.keep_open:
                    os.close(descriptor)

    def _create(self, name: str, place: Place) -> Server:
        match name:
            case "pg":
                from tidings_stack.postgres import PostgresServer  # noqa: PLC0415

                return PostgresServer(
                    place,
                    version=self._pg_version,
                    settings=self._pg_settings,
                    extensions=self._pg_extensions,
                )
            case "mariadb":
                from tidings_stack.mariadb import MariaDbServer  # noqa: PLC0415

                return MariaDbServer(place)
            case "mysql":
                from tidings_stack.mysql import MySqlServer  # noqa: PLC0415

                return MySqlServer(place)
            case "kafka":
                from tidings_stack.kafka import KafkaServer  # noqa: PLC0415

                return KafkaServer(place, heap=self._kafka_heap, settings=self._kafka_settings)
            case "registry":
                from tidings_stack.registry import RegistryServer  # noqa: PLC0415

                return RegistryServer(place)
            case _:
                from tidings_stack.connect import ConnectServer  # noqa: PLC0415

                return ConnectServer(place, bootstrap=self.kafka.bootstrap)

    def _get_place(self) -> Place:
        with self._lock:
            if self._place is None:
                self._place = _make_place(self._given_directory, self._progress)
            return self._place

    def _member(self, name: str, kind: type[_S]) -> _S:
        server = self._servers.get(name)
        if not isinstance(server, kind):
            raise StackError(
                f"{name} is not a member of this stack", hint="name it in members, or call ensure"
            )
        return server


def _start_all(servers: list[Server]) -> None:
    """Start servers in parallel; when one fails, wait for the others and raise its error."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(servers)) as pool:
        futures = [pool.submit(server.start) for server in servers]
    for future in futures:
        future.result()


def _close_all(servers: list[Server]) -> None:
    if servers:
        with concurrent.futures.ThreadPoolExecutor(max_workers=len(servers)) as pool:
            list(pool.map(lambda server: server.close(), servers))


def _make_place(given: Path | None, progress: Progress) -> Place:
    remove_abandoned()
    if given is None:
        directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    else:
        given.mkdir(parents=True, exist_ok=True)
        directory = given
    directory.chmod(0o755)  # PostgreSQL may run as another user and must get through to its own directory
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StackError(f"another stack runs in {directory}") from None
    return Place(
        directory=directory,
        ports=PortReservations(),
        progress=progress,
        keep=given is not None,
        keep_open=(descriptor,),
    )


def remove_abandoned() -> None:
    """Remove the directories of this user's stacks whose owner and guards are all dead."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if directory.stat().st_uid != os.getuid():
                continue
            descriptor = os.open(directory, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(descriptor)
