"""docker-compose.yml: what it names exists, and ports and settings are the services' own."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tidings_connect.config.providers import read_config_providers
from tidings_connect.java.properties import load_properties

pytestmark = pytest.mark.listing

PORTS = {"capture": 8083, "sequencer": 8091, "translator": 8092, "lakehouse": 8093}


def test_every_port_is_bound_to_loopback(compose: dict[str, Any]) -> None:
    published = {
        name: service["ports"] for name, service in compose["services"].items() if "ports" in service
    }
    assert set(PORTS) | {"postgres", "kafka", "registry", "prometheus", "grafana"} == set(published)
    for name, ports in published.items():
        for port in ports:
            assert re.fullmatch(r"127\.0\.0\.1:\$\{[A-Z]+_PORT:-\d+\}:\d+", port), name


def test_every_image_is_pinned_and_named_shortly(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        image = service.get("image") or compose["x-translator"]["image"]
        repository, _, tag = image.partition(":")
        assert re.fullmatch(r"v?\d+\.\d+[\w.-]*", tag), f"{name}: {image}"
        assert "." not in repository, f"{name}: {image} names a host"


def test_every_lasting_service_has_a_healthcheck(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        once = service.get("restart", "").startswith("on-failure")
        assert once or name == "shop" or "test" in service["healthcheck"], name
    for name, service in compose["services"].items():
        for other, how in service.get("depends_on", {}).items():
            once = compose["services"][other].get("restart", "").startswith("on-failure")
            expected = "service_completed_successfully" if once else "service_healthy"
            assert how["condition"] == expected, f"{name} on {other}"


def test_the_services_ports_and_settings(compose: dict[str, Any]) -> None:
    for name, port in PORTS.items():
        service = compose["services"][name]
        environment = {**compose["x-environment"], **service["environment"]}
        assert environment["TIDINGS_HTTP_HOST"] == "0.0.0.0"
        assert service["ports"][0].endswith(f":{port}")
        assert f":{port}/" in str(service["healthcheck"]["test"])
        if name != "capture":
            assert environment["TIDINGS_HTTP_PORT"] == str(port)
    kafka = compose["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"INSIDE://{compose['x-environment']['TIDINGS_KAFKA']}," in kafka


def test_postgresql_has_logical_wal_and_a_limit_for_slots(compose: dict[str, Any]) -> None:
    command = compose["services"]["postgres"]["command"]
    assert "wal_level=logical" in command
    assert any(re.fullmatch(r"max_slot_wal_keep_size=\d+GB", item) for item in command)


def test_every_mounted_file_and_build_file_exists(compose: dict[str, Any], root: Path) -> None:
    for name, service in compose["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (root / source).exists(), f"{name} mounts {source}"
                assert volume.endswith(":ro"), f"{name} may write {source}"
            else:
                assert source in compose["volumes"], f"{name}: {source}"
        if "build" in service:
            assert (root / service["build"]["dockerfile"]).is_file(), name
    assert set(compose["volumes"]) == {
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
        if not volume.startswith("./")
    }


def test_what_is_too_large_for_memory_is_put_aside_on_a_disk(compose: dict[str, Any]) -> None:
    """A tmpfs is memory."""
    for name in ("capture", "sequencer"):
        service = compose["x-service"] | compose["services"][name]
        assert "/tmp" not in str(service["tmpfs"]), name
        assert f"{name}-tmp:/tmp" in service["volumes"], name


def test_the_connector_of_compose_is_the_shop_of_the_services(compose: dict[str, Any], root: Path) -> None:
    connector = json.loads((root / "deploy/connectors/shop.json").read_text())
    source = compose["x-environment"]["TIDINGS_SOURCE"]
    assert connector["topic.prefix"] == source
    assert (connector["slot.name"], connector["publication.name"]) == ("tidings_shop", "tidings_shop")
    assert connector["database.hostname"] in compose["services"]
    assert connector["provide.transaction.metadata"] == "true"
    given = compose["services"]["capture"]["environment"]
    names = set(re.findall(r"\$\{env:(\w+)\}", json.dumps(connector)))
    assert names
    assert names <= set(given)
    properties = load_properties(root / "deploy/worker.properties")
    providers = read_config_providers(properties, {name: str(value) for name, value in given.items()})
    assert "${env:" not in "".join(providers.resolve(connector).values())
    tables = set(
        re.findall(r"^create table (\w+)", (root / "examples/shop/tidings_shop/schema.sql").read_text(), re.M)
    )
    assert set(connector["table.include.list"].split(",")) == {f"public.{table}" for table in tables}


def test_the_worker_of_compose_reaches_kafka_and_the_registry(compose: dict[str, Any], root: Path) -> None:
    lines = (root / "deploy/worker.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert properties["bootstrap.servers"] == compose["x-environment"]["TIDINGS_KAFKA"]
    assert urlsplit(properties["listeners"]).port == PORTS["capture"]
    for converter in ("key.converter", "value.converter"):
        assert properties[f"{converter}.schema.registry.url"] == compose["x-environment"]["TIDINGS_REGISTRY"]


def test_prometheus_scrapes_every_service(compose: dict[str, Any], root: Path) -> None:
    config = yaml.safe_load((root / "deploy/prometheus.yml").read_text())
    targets = {item["job_name"]: item["static_configs"][0]["targets"] for item in config["scrape_configs"]}
    for item in config["scrape_configs"]:
        assert set(item["static_configs"][0]["labels"]) == {"namespace", "release"}
    assert targets == {f"tidings-{name}": [f"{name}:{port}"] for name, port in PORTS.items()}
    mounts = dict(volume.split(":")[:2][::-1] for volume in compose["services"]["prometheus"]["volumes"])
    assert mounts["/etc/prometheus/rules"] == "./helm/tidings/rules"
    assert config["rule_files"] == ["/etc/prometheus/rules/*.yaml"]


@pytest.mark.tools
def test_docker_compose_accepts_the_file(tool: Callable[..., Any], root: Path) -> None:
    result = tool("docker-compose", "-f", root / "docker-compose.yml", "config", "--format", "json")
    assert result.returncode == 0, result.stderr
    assert "variable is not set" not in result.stderr
    services = json.loads(result.stdout)["services"]
    assert set(PORTS) < set(services)
    for name, service in services.items():
        for port in service.get("ports", []):
            assert port["host_ip"] == "127.0.0.1", name
    assert services["sequencer"]["build"]["args"] == {"REQUIREMENTS": "shop", "DOMAIN": "examples/shop"}
    assert services["sequencer"]["read_only"] is True


@pytest.mark.tools
def test_docker_compose_refuses_a_typo(tool: Callable[..., Any], root: Path, tmp_path: Path) -> None:
    text = (root / "docker-compose.yml").read_text().replace("stop_grace_period", "stop_grace_perod")
    (tmp_path / "docker-compose.yml").write_text(text)
    result = tool("docker-compose", "-f", tmp_path / "docker-compose.yml", "config", "--quiet")
    assert result.returncode != 0
    assert "stop_grace_perod" in result.stderr
