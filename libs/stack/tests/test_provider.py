"""Where servers come from: the environment's wish, without starting any."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import ClassVar

import pytest

from tidings_stack import NotSupportedError, StackError
from tidings_stack.provision import containers as containers_module
from tidings_stack.provision.containers import ContainerStack, kafka_plan, postgres_plan, registry_plan
from tidings_stack.provision.provider import open_provider


def test_existing_servers_are_used_and_not_stopped() -> None:
    environment = {
        "TIDINGS_PG": "postgresql://u:p@db/x",
        "TIDINGS_KAFKA": "broker:9092",
        "TIDINGS_REGISTRY": "http://registry/apis/ccompat/v7",
    }
    with open_provider(environment, together=("pg", "kafka", "registry")) as provider:
        assert provider.pg.url == "postgresql://u:p@db/x"
        assert provider.kafka.url == "broker:9092"
        assert provider.registry.url == "http://registry/apis/ccompat/v7"
        for act in (provider.pg.stop, provider.pg.start, provider.pg.kill):
            with pytest.raises(NotSupportedError, match="TIDINGS_PG is not ours"):
                act()


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(StackError, match="TIDINGS_STACK is 'vm'"), open_provider({"TIDINGS_STACK": "vm"}):
        pass


def test_container_plans_have_official_images_and_the_host_s_port() -> None:
    pg, kafka, registry = postgres_plan(15001, version="18"), kafka_plan(15002), registry_plan(15003)
    assert [plan.image for plan in (pg, kafka, registry)] == [
        "postgres:18",
        "apache/kafka:4.3.1",
        "apicurio/apicurio-registry:3.3.3",
    ]
    assert "wal_level=logical" in pg.command
    assert pg.url == f"postgresql://postgres:{pg.environment['POSTGRES_PASSWORD']}@127.0.0.1:15001/postgres"
    assert kafka.environment["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://127.0.0.1:15002"
    assert registry.url == "http://127.0.0.1:15003/apis/ccompat/v7"


class FakeContainer:
    """Records what testcontainers is asked to run."""

    made: ClassVar[list[FakeContainer]] = []

    def __init__(self, image: str) -> None:
        self.image = image
        self.calls: list[object] = []
        FakeContainer.made.append(self)

    def with_env(self, name: str, value: str) -> None:
        self.calls.append(("env", name, value))

    def with_command(self, command: list[str]) -> None:
        self.calls.append(("command", command))

    def with_kwargs(self, **kwargs: object) -> None:
        self.calls.append(kwargs)

    def start(self) -> FakeContainer:
        self.calls.append("start")
        return self

    def get_wrapped_container(self) -> FakeContainer:
        return self

    def stop(self) -> None:
        self.calls.append("stop")

    def kill(self) -> None:
        self.calls.append("kill")


@pytest.fixture
def fake_docker(monkeypatch: pytest.MonkeyPatch) -> type[FakeContainer]:
    FakeContainer.made = []
    monkeypatch.setattr("testcontainers.core.container.DockerContainer", FakeContainer)
    monkeypatch.setattr(
        containers_module, "READY", dict.fromkeys(("pg", "kafka", "registry"), lambda _: True)
    )
    return FakeContainer


def test_containers_bind_loopback_ports_and_live_like_processes(fake_docker: type[FakeContainer]) -> None:
    stack = ContainerStack()
    stack.ensure("pg", "kafka")
    stack.ensure("pg")
    assert [one.image for one in fake_docker.made] == ["postgres:16", "apache/kafka:4.3.1"]
    server, container = stack.servers["pg"], fake_docker.made[0]
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    assert {"ports": {"5432/tcp": ("127.0.0.1", port)}} in container.calls
    server.kill()
    server.start()
    server.stop()
    stack.close()
    assert container.calls[-5:] == ["start", "kill", "start", "stop", "stop"]
    assert stack.servers == {}


def test_without_a_docker_daemon_the_error_is_clear() -> None:
    """In a process of its own: docker's client leaves a socket open when it cannot connect."""
    program = "from tidings_stack.provision.containers import kafka_plan, run_container; run_container(kafka_plan(15002))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "DOCKER_HOST": "unix:///nowhere/docker.sock"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        "StackError: TIDINGS_STACK=containers: apache/kafka:4.3.1 cannot be started, because no Docker"
        in done.stderr
    )


def test_the_plugin_loads_nothing_heavy() -> None:
    """It is loaded in every test run, also in those that need no server."""
    heavy = ["psycopg", "confluent_kafka", "testcontainers", "rich"]
    assert all(importlib.util.find_spec(name) for name in heavy)
    program = "import sys, pytest; before = set(sys.modules); import tidings_stack.pytest_plugin;"
    program += f"print([name for name in {heavy!r} if name in sys.modules and name not in before])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
