"""What `tidings init` writes for containers: the chart takes its values, and docker compose its file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidings_cli.project.files import Seen, project_files
from tidings_domain.starting.database import Server
from tidings_domain.starting.proposal import propose
from tidings_domain.starting.tables import INTEGER, Column, Table

pytestmark = pytest.mark.tools


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project's files for containers."""
    tables = [
        Table("public.things", (Column("id", INTEGER, nullable=False),), ("id",), partitioned=True),
        Table("public.visits", (Column("id", INTEGER, nullable=False),), (), identity=False),
    ]
    server = Server("localhost", 5432, "it's me", "the things", 16, "logical", "verify-full")
    files = project_files(Seen("my-things", server, tables, propose(tables)))
    for name in ("values.yaml", "compose.yaml", ".env", "worker.properties", "connector.json", "Dockerfile"):
        (tmp_path / name).write_text(files[name])
    return tmp_path


def test_the_chart_takes_the_values(
    project: Path, chart: Path, render: Callable[..., list[dict[str, Any]]]
) -> None:
    manifests = render("minimal", "-f", project / "values.yaml")
    connectors = [
        json.loads(text)
        for one in manifests
        if one["kind"] == "ConfigMap"
        for name, text in one["data"].items()
        if name == "my-things.json"
    ]
    assert [one["publish.via.partition.root"] for one in connectors] == ["true"]
    assert connectors[0]["database.dbname"] == "the things"
    assert connectors[0]["database.password"] == "${env:TIDINGS_DATABASE_PASSWORD}"
    images = [
        container["image"]
        for one in manifests
        if one["kind"] in {"Deployment", "StatefulSet"}
        for container in one["spec"]["template"]["spec"]["containers"]
    ]
    assert images.count("my-things/translator:0.1.0") == 2


def test_docker_compose_takes_the_file(project: Path, tool: Callable[..., Any]) -> None:
    where = ("--project-directory", project, "-f", project / "compose.yaml")
    done = tool("docker-compose", *where, "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    capture = services["capture"]["environment"]
    assert capture["TIDINGS_DATABASE_USER"] == "it's me"
    assert capture["TIDINGS_DATABASE_HOST"] == "host.docker.internal"
    assert services["translator"]["environment"]["TIDINGS_DOMAIN"] == "my_things"
