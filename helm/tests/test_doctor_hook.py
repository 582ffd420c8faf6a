"""`tidings doctor` before an upgrade: a hook with the new values, which the command itself understands."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Manifests = list[dict[str, Any]]
Render = Callable[..., Manifests]

pytestmark = pytest.mark.tools

NOBODY = "127.0.0.1:1"
VALUES = {
    "kafka": {"bootstrapServers": NOBODY},
    "registry": {"url": f"http://{NOBODY}/apis/ccompat/v7"},
    "capture": {
        "doctor": {"enabled": True},
        "secretEnv": {"DATABASE_PASSWORD": {"secret": "shop-database", "key": "password"}},
        "connectors": {
            "shop": {
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "plugin.name": "pgoutput",
                "database.hostname": "127.0.0.1",
                "database.port": "1",
                "database.dbname": "shop",
                "database.user": "tidings",
                "database.password": "${env:DATABASE_PASSWORD}",
                "topic.prefix": "shop",
                "slot.name": "tidings_shop",
                "publication.name": "tidings_shop",
                "provide.transaction.metadata": "true",
            },
            "bikes": {"connector.class": "io.debezium.connector.mariadb.MariaDbConnector"},
        },
    },
}


@pytest.fixture
def values(tmp_path: Path) -> Path:
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(VALUES))
    return path


def hooks(manifests: Manifests) -> dict[str, dict[str, Any]]:
    return {
        document["kind"]: document
        for document in manifests
        if document["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-upgrade"
    }


def test_it_looks_before_anything_is_changed_and_only_when_it_is_asked(render: Render, values: Path) -> None:
    assert hooks(render("full")) == {}
    found = hooks(render("minimal", "-f", values))
    assert set(found) == {"ConfigMap", "Job"}
    weights = {
        kind: int(one["metadata"]["annotations"].get("helm.sh/hook-weight", 0)) for kind, one in found.items()
    }
    assert weights["ConfigMap"] < weights["Job"], "its files are there when it starts"
    job = found["Job"]["spec"]
    assert job["backoffLimit"] == 0
    assert [container["name"] for container in job["template"]["spec"]["containers"]] == ["doctor-0"]


def test_the_command_understands_its_files(render: Render, values: Path, tmp_path: Path) -> None:
    found = hooks(render("minimal", "-f", values, "--set", "capture.doctor.strict=true"))
    pod = found["Job"]["spec"]["template"]["spec"]
    assert pod["volumes"][0]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    for name, text in found["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text)
    (container,) = pod["containers"]
    command = [*container["command"], *container["args"]]
    assert command[:2] == ["tidings", "doctor"]
    assert "--strict" in command
    done = subprocess.run(
        [Path(sys.executable).with_name("tidings"), *(word.replace("/etc/tidings", str(tmp_path)) for word in command[1:]), "--json"],
        env={name: text for name, text in os.environ.items() if not name.startswith("TIDINGS_")} | {"DATABASE_PASSWORD": "x"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    found_there = {(one["place"], one["code"]) for one in json.loads(done.stdout)["findings"]}
    assert found_there == {(place, "unreachable") for place in ("database", "kafka", "registry")}


def test_its_pod_reaches_what_capture_reaches(render: Render, values: Path) -> None:
    policies = {
        document["metadata"]["name"]: document["spec"]
        for document in render("full", "-f", values)
        if document["kind"] == "NetworkPolicy"
    }
    doctor, capture = policies["shop-tidings-doctor"], policies["shop-tidings-capture"]
    assert doctor["egress"] == capture["egress"]
    assert doctor["ingress"] == []
    among = [
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for rule in capture["ingress"]
        if rule["ports"] == [{"port": "rest", "protocol": "TCP"}]
        for peer in rule["from"]
        if "app.kubernetes.io/component" in peer["podSelector"]["matchLabels"]
    ]
    assert set(among) == {"capture", "doctor", "register"}


def test_what_it_runs_in_is_confined(render: Render, values: Path) -> None:
    pod = hooks(render("full", "-f", values))["Job"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in pod["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["resources"]["limits"]["memory"]
