"""The stack as containers of the official images, through testcontainers (`TIDINGS_STACK=containers`).

A server keeps its host port when it is stopped and started, so ports are chosen here and bound to the loopback interface.
Kafka Connect has no official image with Debezium under a plain name; it runs as a local process beside the containers.
"""

from __future__ import annotations

import secrets
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings_stack.errors import NotSupportedError, ServerStartError, StackError
from tidings_stack.members import with_requirements
from tidings_stack.ports import LOOPBACK, PortReservations, accepts
from tidings_stack.stack import Stack

if TYPE_CHECKING:
    from tidings_stack.connect import ConnectServer
    from tidings_stack.provision.protocols import AnyServer

KAFKA_IMAGE = "apache/kafka:4.3.1"
REGISTRY_IMAGE = "apicurio/apicurio-registry:3.3.3"
POSTGRES_IMAGE = "postgres:{version}"
START_SECONDS = 120.0


@dataclass(frozen=True)
class ContainerPlan:
    """What to run: the image, its command and environment, and which of its ports becomes which port of the host."""

    member: str
    image: str
    port: int
    container_port: int
    url: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def postgres_plan(
    port: int, *, version: str = "16", settings: Mapping[str, str] | None = None
) -> ContainerPlan:
    """Plan PostgreSQL with logical WAL and a random password."""
    from tidings_stack.postgres import DEFAULT_SETTINGS  # noqa: PLC0415 (loads psycopg)

    password = secrets.token_urlsafe(12)
    options = [f"{name}={value}" for name, value in {**DEFAULT_SETTINGS, **(settings or {})}.items()]
    return ContainerPlan(
        member="pg",
        image=POSTGRES_IMAGE.format(version=version),
        port=port,
        container_port=5432,
        url=f"postgresql://postgres:{password}@{LOOPBACK}:{port}/postgres",
        command=("postgres", *(item for option in options for item in ("-c", option))),
        environment={"POSTGRES_PASSWORD": password, "POSTGRES_INITDB_ARGS": "--locale=C --encoding=UTF8"},
    )


def kafka_plan(port: int) -> ContainerPlan:
    """Plan one KRaft node that advertises the host's port."""
    return ContainerPlan(
        member="kafka",
        image=KAFKA_IMAGE,
        port=port,
        container_port=9092,
        url=f"{LOOPBACK}:{port}",
        environment={
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://localhost:9093",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{LOOPBACK}:{port}",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        },
    )


def registry_plan(port: int) -> ContainerPlan:
    """Plan Apicurio Registry with its schemas in an H2 file, so that they survive a restart of the container."""
    return ContainerPlan(
        member="registry",
        image=REGISTRY_IMAGE,
        port=port,
        container_port=8080,
        url=f"http://{LOOPBACK}:{port}/apis/ccompat/v7",
        environment={
            "APICURIO_STORAGE_KIND": "sql",
            "APICURIO_STORAGE_SQL_KIND": "h2",
            "APICURIO_DATASOURCE_URL": "jdbc:h2:file:/tmp/registry",
        },
    )


class ContainerServer:
    """One container that can be stopped, started and killed."""

    def __init__(self, plan: ContainerPlan, ready: Callable[[ContainerPlan], bool]) -> None:
        self.plan = plan
        self._ready = ready
        self._container: Any = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self.plan.url

    @property
    def port(self) -> int:
        """The host's port."""
        return self.plan.port

    def start(self) -> None:
        """Create the container, or start it again. Raises StackError without a Docker daemon."""
        if self._container is None:
            self._container = run_container(self.plan)
        else:
            self._container.get_wrapped_container().start()
        deadline = time.monotonic() + START_SECONDS
        while not self._ready(self.plan):
            if time.monotonic() > deadline:
                raise ServerStartError(f"{self.plan.image} was not ready after {START_SECONDS:.0f} s")
            time.sleep(0.2)

    def stop(self) -> None:
        """Stop it gracefully; its data stay."""
        self._container.get_wrapped_container().stop()

    def kill(self) -> None:
        """SIGKILL it; its data stay."""
        self._container.get_wrapped_container().kill()

    def close(self) -> None:
        """Remove it."""
        container, self._container = self._container, None
        if container is not None:
            container.stop()


class ContainerStack:
    """The members as containers, started when asked for. Same methods as `Stack` where tests need them."""

    def __init__(self) -> None:
        self._ports = PortReservations()
        self._servers: dict[str, AnyServer] = {}
        self._containers: list[ContainerServer] = []
        self._processes: Stack | None = None

    @property
    def servers(self) -> Mapping[str, AnyServer]:
        """The started members by name."""
        return dict(self._servers)

    def ensure(self, *members: str) -> None:
        """Start members that are not there yet."""
        for member in with_requirements(members):
            if member not in self._servers:
                self._servers[member] = self._start(member)

    def add_connect(self, bootstrap: str, *, settings: Mapping[str, str] | None = None) -> ConnectServer:
        """Start one more Kafka Connect, as a process."""
        if self._processes is None:
            self._processes = Stack(members=())
        return self._processes.add_connect(bootstrap, settings=settings)

    def add_pg(
        self,
        version: str,
        *,
        settings: Mapping[str, str] | None = None,
        binaries: Path | None = None,
        extensions: Sequence[Path] = (),
    ) -> ContainerServer:
        """Start one more PostgreSQL. Raises NotSupportedError when it should have other binaries or extensions."""
        if binaries is not None or extensions:
            raise NotSupportedError("a container has its image's binaries and extensions")
        return self._run(postgres_plan(self._ports.reserve(), version=version, settings=settings))

    def close(self) -> None:
        """Remove all containers."""
        if self._processes is not None:
            self._processes.close()
        for container in self._containers:
            container.close()
        self._containers.clear()
        self._servers.clear()
        self._ports.release()

    def _start(self, member: str) -> AnyServer:
        if member == "connect":
            return self.add_connect(self._servers["kafka"].url)
        plans = {"pg": postgres_plan, "kafka": kafka_plan, "registry": registry_plan}
        return self._run(plans[member](self._ports.reserve()))

    def _run(self, plan: ContainerPlan) -> ContainerServer:
        server = ContainerServer(plan, READY[plan.member])
        self._containers.append(server)
        server.start()
        return server


def run_container(plan: ContainerPlan) -> Any:
    """Create and start a container. Raises StackError without testcontainers or a Docker daemon."""
    try:
        from docker.errors import (  # type: ignore[import-untyped] # noqa: PLC0415 (optional, publishes no types)
            DockerException,
        )
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415
    except ImportError as error:
        raise StackError(
            "TIDINGS_STACK=containers needs the Python package testcontainers",
            hint="install tidings-stack[containers]",
        ) from error
    try:
        container = DockerContainer(plan.image)
        for name, value in plan.environment.items():
            container.with_env(name, value)
        if plan.command:
            container.with_command(list(plan.command))
        container.with_kwargs(ports={f"{plan.container_port}/tcp": (LOOPBACK, plan.port)})
        return container.start()
    except DockerException as error:
        raise StackError(
            f"TIDINGS_STACK=containers: {plan.image} cannot be started, because no Docker daemon answers or it refuses",
            hint="start Docker (or set DOCKER_HOST), or unset TIDINGS_STACK to use local processes",
        ) from error


def _postgres_ready(plan: ContainerPlan) -> bool:
    from tidings_stack.postgres import can_connect  # noqa: PLC0415

    return accepts(plan.port) and can_connect(plan.url)


def _kafka_ready(plan: ContainerPlan) -> bool:
    from tidings_stack.kafka import has_brokers  # noqa: PLC0415

    return accepts(plan.port) and has_brokers(plan.url)


def _registry_ready(plan: ContainerPlan) -> bool:
    from tidings_stack.registry import set_compatibility  # noqa: PLC0415

    if not accepts(plan.port):
        return False
    try:
        with urllib.request.urlopen(f"{plan.url}/subjects", timeout=10):  # noqa: S310 (our own URL)
            pass
        set_compatibility(plan.url)
    except OSError:
        return False
    return True


READY: Mapping[str, Callable[[ContainerPlan], bool]] = {
    "pg": _postgres_ready,
    "kafka": _kafka_ready,
    "registry": _registry_ready,
}
