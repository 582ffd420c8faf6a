"""What the tests of the deployment files share: the files, parsed, and the command-line tools.

Tests with the fixture `tool` need a program that no Python package brings. They find it on PATH or where
scripts/tools.sh has built it, and skip with a reason where it is not.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

KUBERNETES = "1.36.3"
ROOT = Path(__file__).resolve().parent.parent.parent
Tool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def tools_cache() -> Path:
    """Where scripts/tools.sh puts what it builds."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings"
    return Path(os.environ.get("TIDINGS_CACHE", cache)) / "tools"


@pytest.fixture(scope="session")
def tool(tools_cache: Path) -> Tool:
    """Runs a command-line tool: ``tool("helm", "lint", ...)``; skips the test where there is none."""

    def run(name: str, *arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{tools_cache / 'bin'}")
        if program is None:
            pytest.skip(f"there is no {name}: run `make tools` (needs Go), or put one on PATH")
        return subprocess.run(
            [program, *map(str, arguments)],
            cwd=ROOT,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def chart(root: Path) -> Path:
    """The chart's directory."""
    return root / "helm/tidings"


@pytest.fixture(scope="session")
def compose(root: Path) -> dict[str, Any]:
    """docker-compose.yml, parsed."""
    document: dict[str, Any] = yaml.safe_load((root / "docker-compose.yml").read_text())
    return document


@pytest.fixture(scope="session")
def metrics(root: Path) -> dict[str, dict[str, Any]]:
    """Every metric of deploy/metrics.yaml by name."""
    by_service = yaml.safe_load((root / "deploy/metrics.yaml").read_text())
    return {name: description for group in by_service.values() for name, description in group.items()}


@pytest.fixture(scope="session")
def rules(chart: Path) -> list[dict[str, Any]]:
    """Every alert rule."""
    documents = [yaml.safe_load(path.read_text()) for path in sorted((chart / "rules").glob("*.yaml"))]
    return [rule for document in documents for group in document["groups"] for rule in group["rules"]]


@pytest.fixture(scope="session")
def dashboard(chart: Path) -> dict[str, Any]:
    """The Grafana dashboard."""
    document: dict[str, Any] = json.loads((chart / "dashboards/tidings.json").read_text())
    return document


@pytest.fixture(scope="session")
def render(root: Path, chart: Path, tool: Callable[..., Any]) -> Callable[..., list[dict[str, Any]]]:
    """The manifests of a value set: ``render("full")``, also with ``--set`` arguments."""

    rendered: dict[tuple[str | Path, ...], str] = {}

    def template(name: str, *arguments: str | Path) -> list[dict[str, Any]]:
        values = root / f"helm/tests/values/{name}.yaml"
        given = (values, *arguments)
        if given not in rendered:
            common = ("template", "shop", chart, "--kube-version", KUBERNETES, "-n", "data")
            result = tool("helm", *common, "-f", *given)
            assert result.returncode == 0, result.stderr
            rendered[given] = result.stdout
        return [document for document in yaml.safe_load_all(rendered[given]) if document]

    return template


_WORDS = frozenset(
    [
        "and",
        "or",
        "unless",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "offset",
        "bool",
        "inf",
        "nan",
        "Inf",
        "NaN",
    ]
)


@pytest.fixture(scope="session")
def unknown_metrics(metrics: dict[str, dict[str, Any]]) -> Callable[[str], set[str]]:
    """What a PromQL expression uses that deploy/metrics.yaml does not have: metrics, and labels matched or grouped by."""
    everywhere = {"job", "instance", "namespace", "release"}
    series = {"up": everywhere}
    for name, description in metrics.items():
        labels = {*description.get("labels", []), *everywhere}
        if description["type"] == "histogram":
            series |= {f"{name}_bucket": {*labels, "le"}, f"{name}_sum": labels, f"{name}_count": labels}
        else:
            series[name] = labels

    def check(expression: str) -> set[str]:
        text = re.sub(r'"[^"]*"', '""', expression)
        groupings = re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", text)
        grouped = {label.strip() for grouping in groupings for label in grouping.split(",") if label.strip()}
        plain = re.sub(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", text)
        selectors = re.findall(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}", plain)
        plain = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", plain)
        plain = re.sub(r"\boffset\s+\w+", " ", plain)
        used = {
            word
            for word in re.findall(r"(?<![\w.$])([a-zA-Z_:][\w:]*)\b(?!\s*\()", plain)
            if word not in _WORDS
        }
        wrong = {name for name in used if name not in series}
        for name, matchers in selectors:
            wrong |= {
                f"{name}{{{label}}}"
                for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)
                if label not in series.get(name, {label})
            }
        known = {label for name in used for label in series.get(name, set())}
        return wrong | {f"by ({label})" for label in grouped - known}

    return check
