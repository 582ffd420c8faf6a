"""A sink's offsets over REST: with whose rights its consumer group is asked."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.rest import offsets

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}";'
WORKER = {
    "bootstrap.servers": "kafka:9092",
    "group.id": "workers",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": JAAS.format("worker", "w"),
    "admin.reconnect.backoff.ms": "70",
}


class Group:
    """What `GroupOffsets` is given."""

    made: tuple[Mapping[str, Any], str]

    def __init__(self, settings: Mapping[str, Any], group: str) -> None:
        Group.made = settings, group

    def read(self) -> list[Any]:
        return []


def asked_with(monkeypatch: pytest.MonkeyPatch, config: dict[str, str]) -> tuple[Mapping[str, Any], str]:
    worker = read_worker_config(WORKER)
    run = SimpleNamespace(name="copy", config={"connector.class": "List", **config})
    herder = SimpleNamespace(
        worker=worker,
        run_of=lambda name: run,
        resolved=lambda config: {n: v.replace("${file:p}", "secret") for n, v in config.items()},
    )
    monkeypatch.setattr(offsets, "GroupOffsets", Group)
    get = offsets.positions_endpoints(cast(Any, herder))["/connectors/{name}/offsets"]["GET"]
    asyncio.run(cast(Any, get(cast(Any, SimpleNamespace(match_info={"name": "copy"})))))
    return Group.made


def test_a_sinks_group_is_asked_with_the_sinks_own_login(
    monkeypatch: pytest.MonkeyPatch, counting: None
) -> None:
    settings, group = asked_with(
        monkeypatch,
        {
            "consumer.override.sasl.jaas.config": JAAS.format("copier", "${file:p}"),
            "consumer.override.max.poll.records": "10",
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.auto.offset.reset": "latest",
            "consumer.override.group.id": "copiers",
        },
    )
    assert group == "copiers"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("copier", "secret")
    assert settings["bootstrap.servers"] == "kafka:9092"
    assert not {"auto.offset.reset", "session.timeout.ms"} & settings.keys(), "no settings of an admin client"


def test_a_sink_without_a_login_is_asked_about_as_the_workers_admin_client(
    monkeypatch: pytest.MonkeyPatch, counting: None
) -> None:
    settings, group = asked_with(monkeypatch, {})
    assert group == "connect-copy"
    assert settings["sasl.username"] == "worker"
    assert settings["reconnect.backoff.ms"] == "70"
