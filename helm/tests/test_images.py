"""The Dockerfiles, as BuildKit's own parser reads them: no step is lost, and each image has what its service needs."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.listing

DISTRIBUTIONS = ("libs/*", "services/*", "examples/*")
IMAGES = {"capture": "services", "translator": "services", "lakehouse": "services", "shop": "examples"}
HOSTED = {"sinks": "capture", "cli": "capture"}
"""What has no image of its own: the worker of another one's has the sinks' connectors, and the doctor, which the chart runs before
an upgrade."""
PROJECTS = {"rental"}
"""Examples whose Dockerfile is that of a project of one's own: built in its directory, upon the translator's image."""
PORTS = {"capture": ["8083"], "translator": ["8091", "8092"], "lakehouse": ["8093"], "shop": []}
START = {
    "capture": ["tidings-capture", "/etc/tidings/worker.properties"],
    "translator": ["tidings-translator"],
    "lakehouse": ["tidings-lakehouse", "run"],
    "shop": ["tidings-shop", "--help"],
}
BASE = r"python:3\.11-slim-bookworm@sha256:[0-9a-f]{64}"
Image = dict[str, Any]


@pytest.fixture(scope="session")
def read_dockerfiles(tool: Callable[..., Any]) -> Callable[..., list[Image]]:
    """Reads Dockerfiles by BuildKit's parser (scripts/dockerfile)."""

    def read(*paths: Path) -> list[Image]:
        result = tool("dockerfile", *paths)
        assert result.returncode == 0, result.stderr
        images: list[Image] = json.loads(result.stdout)
        return images

    return read


@pytest.fixture(scope="session")
def images(root: Path, read_dockerfiles: Callable[..., list[Image]]) -> dict[str, Image]:
    """Every image's Dockerfile by the image's name."""
    paths = [root / directory / name / "Dockerfile" for name, directory in IMAGES.items()]
    return dict(zip(IMAGES, read_dockerfiles(*paths), strict=True))


@pytest.fixture(scope="session")
def commands(root: Path) -> set[str]:
    """Every command the distributions install."""
    return {
        command
        for project in projects(root)
        for command in tomllib.loads(project.read_text())["project"].get("scripts", {})
    }


def projects(root: Path) -> list[Path]:
    """The pyproject.toml of every distribution."""
    return [path for pattern in DISTRIBUTIONS for path in sorted(root.glob(f"{pattern}/pyproject.toml"))]


def steps(stage: dict[str, Any], name: str) -> list[Any]:
    """What BuildKit understands of a stage's instructions of this name."""
    return [item["parsed"] for item in stage["instructions"] if item["name"] == name]


def copied(image: Image) -> dict[str, str]:
    """Where each path of the build context is put, over all stages; build arguments have their defaults."""
    found = {}
    for stage in image["stages"]:
        arguments = {item["Key"]: item["Value"] or "" for arg in steps(stage, "ARG") for item in arg["Args"]}
        for copy in steps(stage, "COPY"):
            if not copy["From"]:
                for source in copy["SourcePaths"]:
                    path = re.sub(r"\$\{(\w+)\}", lambda match, known=arguments: known[match[1]], source)
                    found[path] = copy["DestPath"]
    return found


def test_there_is_a_dockerfile_for_every_service(root: Path) -> None:
    services = {path.parent.name for path in root.glob("services/*/pyproject.toml")}
    assert services <= set(IMAGES) | set(HOSTED)
    assert {path.parent.name for path in root.glob("*/*/Dockerfile")} == set(IMAGES) | PROJECTS


@pytest.mark.tools
@pytest.mark.parametrize("name", IMAGES)
def test_buildkit_has_nothing_to_warn_of(images: dict[str, Image], name: str) -> None:
    assert images[name]["warnings"] == []


@pytest.mark.tools
def test_the_check_finds_an_instruction_that_a_backslash_eats(
    root: Path, read_dockerfiles: Callable[..., list[Image]], tmp_path: Path
) -> None:
    good = (root / "services/translator/Dockerfile").read_text()
    bad = good.replace("/usr/sbin/nologin tidings\n", "/usr/sbin/nologin tidings \\\n\n")
    assert bad != good
    (tmp_path / "Dockerfile").write_text(bad)
    (image,) = read_dockerfiles(tmp_path / "Dockerfile")
    assert any("Empty continuation line" in warning for warning in image["warnings"])
    assert "schemas" in copied(image), "it is still copied for the wheels"
    assert copied(image)["schemas"] != "/etc/tidings/schemas"


@pytest.mark.tools
@pytest.mark.parametrize("name", IMAGES)
def test_no_instruction_is_part_of_another_ones_arguments(images: dict[str, Image], name: str) -> None:
    for stage in images[name]["stages"]:
        for item in stage["instructions"]:
            words = item["text"].split()[1:]
            assert not {"COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD", "WORKDIR"} & set(words), item[
                "text"
            ]


@pytest.mark.tools
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_starts_its_command_without_root(
    images: dict[str, Image], commands: set[str], name: str
) -> None:
    last = images[name]["stages"][-1]
    order = [item["name"] for item in last["instructions"]]
    assert [user["User"] for user in steps(last, "USER")] == ["10001:10001"]
    assert any("useradd --uid 10001" in run["CmdLine"][0] for run in steps(last, "RUN"))
    start = [step for word in ("ENTRYPOINT", "CMD") for step in steps(last, word)]
    assert [word for step in start for word in step["CmdLine"]] == START[name]
    assert START[name][0] in commands
    # In the exec form the service is process 1 and gets SIGTERM itself.
    assert not any(step["PrependShell"] for step in start)
    assert order.index("USER") < order.index("CMD")
    assert [port for step in steps(last, "EXPOSE") for port in step["Ports"]] == PORTS[name]
    assert [step["Signal"] for step in steps(last, "STOPSIGNAL")] == ["SIGTERM"]


@pytest.mark.tools
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_holds_what_its_service_needs(root: Path, images: dict[str, Image], name: str) -> None:
    image, paths = images[name], copied(images[name])
    for source in paths:
        assert (root / source).exists(), source
    runs = [run["CmdLine"][0] for stage in image["stages"] for run in steps(stage, "RUN")]
    for run in runs:
        if "pip install" in run:
            assert "--require-hashes" in run or "--no-index" in run, run
    # Every distribution of ours that the service needs is among the wheels.
    distributions = {
        tomllib.loads(item.read_text())["project"]["name"]: item.parent for item in projects(root)
    }
    needed = {root / IMAGES[name] / name} | {
        root / "services" / hosted for hosted, host in HOSTED.items() if host == name
    }
    while True:
        more = {
            distributions[requirement]
            for item in needed
            for requirement in tomllib.loads((item / "pyproject.toml").read_text())["project"]["dependencies"]
            if requirement in distributions
        }
        if more <= needed:
            break
        needed |= more
    wheels = {path for run in runs if "pip wheel" in run for path in re.findall(r" \./([\w/]+)", run)}
    assert {root / path for path in wheels} == needed
    for path in wheels:
        assert path in paths, f"{path} is not copied for its wheel"
    if name == "translator":
        assert paths["schemas"] == "/etc/tidings/schemas", "the contracts that events are encoded with"
    if name == "lakehouse":
        assert any(
            "prefetch(['lakehouse', 'iceberg-aws', 'catalog-postgresql'])" in word
            for run in steps(image["stages"][-1], "RUN")
            for word in run["CmdLine"]
        )


@pytest.mark.tools
def test_every_stage_is_on_one_base_image_that_is_named_by_its_digest(images: dict[str, Image]) -> None:
    assert {stage["base"] for image in images.values() for stage in image["stages"]} == {"${PYTHON_IMAGE}"}
    (base,) = {image["arguments"]["PYTHON_IMAGE"] for image in images.values()}
    assert re.fullmatch(BASE, base)


def test_the_newest_base_image_is_pinned_in_every_dockerfile(root: Path, tmp_path: Path) -> None:
    paths = [f"{directory}/{name}/Dockerfile" for name, directory in IMAGES.items()]
    for path in [*paths, "scripts/build_images.sh", "helm/tidings/Chart.yaml"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, tmp_path / path)
    digest = f"sha256:{'a' * 64}"
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()

    def pin(answer: str) -> subprocess.CompletedProcess[str]:
        docker.write_text(f"#!/bin/sh\necho '{answer}'\n")
        docker.chmod(0o755)
        environment = os.environ | {"PATH": f"{docker.parent}:{os.environ['PATH']}"}
        command = [tmp_path / "scripts/build_images.sh", "--pin"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert pin(digest).returncode == 0
    for path in paths:
        text = (tmp_path / path).read_text()
        assert f"\nARG PYTHON_IMAGE=python:3.11-slim-bookworm@{digest}\n" in text
        assert text.count("\n") == (root / path).read_text().count("\n")
    refused = pin("no such manifest")
    assert refused.returncode == 1
    assert "tells no digest" in refused.stderr
    assert digest in (tmp_path / paths[0]).read_text()


@pytest.mark.tools
@pytest.mark.parametrize("name", IMAGES)
def test_the_build_context_has_what_is_copied_and_no_more(
    root: Path, images: dict[str, Image], tool: Callable[..., Any], name: str
) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True)
    files = listed.stdout.splitlines()
    private = [".env", ".git/config", "tls.key", "docs/security.md", "services/capture/build/x"]
    private += [
        "services/capture/.env",
        "libs/jvm/.venv/bin/python",
        "examples/shop/server.key",
        "services/x.pem",
    ]
    result = tool("dockerfile", "-context", root, stdin="\n".join([*files, *private]))
    assert result.returncode == 0, result.stderr
    admitted = set(json.loads(result.stdout))
    assert admitted & set(private) == set()
    for source in copied(images[name]):
        needed = {path for path in files if path == source or path.startswith(f"{source}/")}
        assert needed, source
        # Hidden files, such as a project's .env, are local settings wherever they are.
        missing = {path for path in needed - admitted if "/tests/" not in path and "/." not in path}
        assert missing == set(), source


def test_the_requirements_of_the_images_have_hashes_and_no_host(root: Path) -> None:
    for name in ("build", "capture", "translator", "lakehouse", "shop"):
        text = (root / f"requirements/{name}.txt").read_text()
        pins = re.findall(r"^[a-z][\w.-]*==", text, re.M)
        assert pins
        assert text.count("--hash=sha256:") >= len(pins)
        assert "://" not in text
