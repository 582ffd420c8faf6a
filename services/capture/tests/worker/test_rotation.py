"""Passwords in files that change while a worker runs: its clients, its tasks and its registry's client take the new one."""

import asyncio
import base64
from pathlib import Path

import pytest

from tidings_connect import renewals
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.converters.registry_login import RegistryLogin
from tidings_connect.herder.rotation import Rotation
from tidings_connect.kafka.clients import Producer, renew
from tidings_connect.kafka.settings import translate_client_settings
from tidings_connect.renewals import KAFKA, REGISTRY, Renewal, newest
from tidings_service.logins import refusal
from tidings_stack.secured.servers import KAFKA_USER, SecuredServers
from tidings_stack.waiting import wait_for

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Owner:
    """In the supervisor's place."""

    def __init__(self) -> None:
        self.told: list[Renewal] = []

    def tell_renewals(self, renewals: list[Renewal]) -> None:
        self.told = renewals

    def tell_login(self) -> None:
        """Nobody asks."""


@pytest.fixture
def worker(tmp_path: Path) -> WorkerConfig:
    write(tmp_path, "one")
    reference = f"${{file:{tmp_path}/secrets.properties:"
    return read_worker_config(
        {
            "bootstrap.servers": "nobody:1",
            "group.id": "g",
            "config.storage.topic": "c",
            "offset.storage.topic": "o",
            "status.storage.topic": "s",
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{MODULE} required username="rotated" password="{reference}password}}";',
            "value.converter.basic.auth.user.info": f"reg:{reference}registry}}",
            "key.converter.apicurio.auth.username": "apicurio",
            "key.converter.apicurio.auth.password": f"{reference}registry}}",
        }
    )


def write(directory: Path, password: str) -> None:
    (directory / "secrets.properties").write_text(f"password={password}\nregistry=r-{password}\n")


async def test_what_changes_in_a_file_is_told_to_the_tasks_and_taken_by_who_is_made_later(
    worker: WorkerConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings_connect.herder.rotation._LOOK_SECONDS", 0.01)
    monkeypatch.setattr(renewals, "_newest", {})
    owner = Owner()
    running = asyncio.create_task(Rotation(worker, owner).run())
    header = RegistryLogin("reg:r-one").authorization
    assert header is not None
    for former, password in (("one", "two"), ("two", "three")):
        (tmp_path / "secrets.properties").unlink()  # while it is being replaced the known one stays
        await asyncio.sleep(0.05)
        write(tmp_path, password)
        async with asyncio.timeout(10):
            while newest(KAFKA, "rotated", "one") != password:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        assert {(told.kind, told.user, told.old, told.new) for told in owner.told} == {
            (KAFKA, "rotated", former, password),
            (REGISTRY, "reg", f"r-{former}", f"r-{password}"),
            (REGISTRY, "apicurio", f"r-{former}", f"r-{password}"),
        }
        assert base64.b64decode(header().split()[1]).decode() == f"reg:r-{password}"
    assert len(renewals.known()) == 3  # one for each that settings hold, however often it changes
    assert newest(KAFKA, "somebody else", "one") == "one"
    running.cancel()


@pytest.mark.stack
def test_a_client_that_is_refused_says_so_and_logs_in_with_the_next_password(
    secured_servers: SecuredServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewals, "_newest", {})  # of this test alone
    (tmp_path / "ca.pem").write_text(secured_servers.authority.certificate)
    settings = translate_client_settings(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{MODULE} required username="{KAFKA_USER}" password="wrong-one";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
        }
    )
    producer = Producer(
        {"bootstrap.servers": secured_servers.kafka.sasl_bootstrap, "log_level": 0, **settings}
    )

    def said() -> str:
        producer.poll(0.1)
        return refusal() or ""

    wait_for("a refusal", lambda: f"refuse user '{KAFKA_USER}'" in said(), 60)
    assert "sasl.jaas.config" in said()
    assert "wrong-one" not in said()
    renew(Renewal(KAFKA, KAFKA_USER, "wrong-one", secured_servers.kafka.password))
    wait_for("a login", lambda: not said() and producer.list_topics(timeout=60).brokers, 60)
