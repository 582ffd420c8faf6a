"""The Grafana dashboard: only metrics that exist, a tidy page, and queries that a real Prometheus answers."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import yaml

pytestmark = pytest.mark.listing

JOBS = ("capture", "sequencer", "translator", "lakehouse")


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every panel, rows too."""
    pending = list(dashboard["panels"])
    while pending:
        panel = pending.pop(0)
        pending[:0] = panel.get("panels", [])
        yield panel


def test_every_panel_uses_known_metrics_and_labels(
    dashboard: dict[str, Any], unknown_metrics: Callable[[str], set[str]]
) -> None:
    wrong = {
        panel["title"]: found
        for panel in panels(dashboard)
        for target in panel.get("targets", [])
        if (found := unknown_metrics(target["expr"]))
    }
    assert wrong == {}


def test_every_panel_is_of_one_release(dashboard: dict[str, Any], metrics: dict[str, Any]) -> None:
    variables = {item["name"]: item for item in dashboard["templating"]["list"]}
    for name in ("namespace", "release"):
        assert not variables[name]["multi"]
        assert not variables[name]["includeAll"]
    names = {*metrics, "up", *(f"{name}_{part}" for name in metrics for part in ("bucket", "sum", "count"))}
    queries = [target["expr"] for panel in panels(dashboard) for target in panel.get("targets", [])]
    for query in [*queries, variables["slot"]["definition"]]:
        for name, selector in re.findall(r"\b([a-zA-Z_]\w*)\b(?:\{([^}]*)\})?", query):
            if name in names:
                assert selector.startswith('namespace=~"$namespace",release=~"$release"'), query


def test_legends_do_not_say_again_what_a_label_says(dashboard: dict[str, Any]) -> None:
    """The label `version` is v1, not 1."""
    legends = [target["legendFormat"] for panel in panels(dashboard) for target in panel.get("targets", [])]
    assert any("{{version}}" in legend for legend in legends)
    assert not any("v{{version}}" in legend for legend in legends)


def test_figures_of_another_unit_have_an_axis_of_their_own(
    dashboard: dict[str, Any], metrics: dict[str, Any]
) -> None:
    """Else seconds since the last audit hide the rows that it found wrong."""
    wrong = [
        f"{panel['title']} [{target['refId']}]"
        for panel in panels(dashboard)
        if panel["type"] == "timeseries"
        for units in [{t["refId"]: _unit_of(t["expr"], metrics) for t in panel["targets"]}]
        for target in panel["targets"]
        if units[target["refId"]] != units[panel["targets"][0]["refId"]]
        and not _has_own_axis(panel, target["refId"])
    ]
    assert wrong == []


def _unit_of(query: str, metrics: dict[str, Any]) -> str:
    for name in re.findall(r"\b[a-zA-Z_]\w*\b", query):
        known = name if name in metrics else re.sub("_(sum|count|bucket)$", "", name)
        if known in metrics:
            unit = str(metrics[known].get("unit", "ratio" if known.endswith("_ratio") else "none"))
            return "seconds" if unit == "milliseconds" and "/ 1000" in query else unit
    return "none"


def _has_own_axis(panel: dict[str, Any], ref: str) -> bool:
    return any(
        one["matcher"] == {"id": "byFrameRefID", "options": ref}
        and {"unit", "custom.axisPlacement"} <= {shown["id"] for shown in one["properties"]}
        for one in panel["fieldConfig"]["overrides"]
    )


def test_every_service_and_nearly_every_metric_is_on_the_dashboard(
    dashboard: dict[str, Any], metrics: dict[str, Any]
) -> None:
    text = " ".join(target["expr"] for panel in panels(dashboard) for target in panel.get("targets", []))
    missing = {name for name in metrics if name not in text}
    assert missing == {"tidings_build_info"}


def test_panels_do_not_overlap_and_have_a_title_a_source_and_an_id_of_their_own(
    dashboard: dict[str, Any],
) -> None:
    taken: dict[tuple[int, int], str] = {}
    ids = [panel["id"] for panel in panels(dashboard)]
    assert len(ids) == len(set(ids))
    for panel in panels(dashboard):
        place = panel["gridPos"]
        assert panel["title"]
        assert place["x"] + place["w"] <= 24
        for cell in (
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ):
            assert cell not in taken, f"{panel['title']} lies on {taken.get(cell)}"
            taken[cell] = panel["title"]
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}", panel["title"]


def test_every_label_in_a_legend_is_one_of_its_query(
    dashboard: dict[str, Any], metrics: dict[str, Any]
) -> None:
    labels = {
        "stream",
        *(label for description in metrics.values() for label in description.get("labels", [])),
    }
    for panel in panels(dashboard):
        for target in panel.get("targets", []):
            names = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert names <= labels, panel["title"]


def test_grafana_finds_dashboard_and_datasource(root: Path, compose: dict[str, Any]) -> None:
    provisioning = root / "deploy/grafana/provisioning"
    source = yaml.safe_load((provisioning / "datasources/prometheus.yaml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    provider = yaml.safe_load((provisioning / "dashboards/tidings.yaml").read_text())["providers"][0]
    mounts = dict(volume.split(":")[:2][::-1] for volume in compose["services"]["grafana"]["volumes"])
    assert mounts[provider["options"]["path"]] == "./helm/tidings/dashboards"
    assert mounts["/etc/grafana/provisioning"] == "./deploy/grafana/provisioning"


@pytest.fixture
def pretended_services(root: Path) -> Iterator[list[str]]:
    """Servers that expose every metric of deploy/metrics.yaml, growing; yields the arguments for the check."""
    registries = {job: prometheus_client.CollectorRegistry() for job in JOBS}
    groups = yaml.safe_load((root / "deploy/metrics.yaml").read_text())
    for services, metrics in groups.items():
        names = JOBS if services == "every service" else services.split(" and ")
        for job in names:
            for name, description in metrics.items():
                _expose(registries[job], name, description)
    servers = [
        prometheus_client.start_http_server(0, "127.0.0.1", registry=registry)
        for registry in registries.values()
    ]
    yield [
        f"--target=tidings-{job}=127.0.0.1:{server.server_port}"
        for job, (server, _thread) in zip(JOBS, servers, strict=True)
    ]
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _expose(registry: prometheus_client.CollectorRegistry, name: str, description: dict[str, Any]) -> None:
    kind, labels = description["type"], description.get("labels", [])
    # Values that alerts look for say that all is well.
    values = {"state": "RUNNING", "status": "running", "wal_status": "reserved", "plugin": "postgres"}
    values |= {"context": "streaming", "outcome": "committed"}
    chosen = [values.get(label, "x") for label in labels]
    if kind == "counter":
        counter = prometheus_client.Counter(name, name, labels, registry=registry)
        child: Any = counter.labels(*chosen) if labels else counter
        _grow(registry, lambda: child.inc(0 if description.get("rare") else 1))
    elif kind == "histogram":
        histogram = prometheus_client.Histogram(name, name, labels, registry=registry)
        observer: Any = histogram.labels(*chosen) if labels else histogram
        _grow(registry, lambda: observer.observe(0.1))
    else:
        gauge = prometheus_client.Gauge(name, name, labels, registry=registry)
        good = 100_000 if "seconds_to_" in name or "limit_bytes" in name or "safe" in name else 1
        (gauge.labels(*chosen) if labels else gauge).set(
            0 if any(word in name for word in ("failed", "failing", "wrong")) else good
        )


def _grow(registry: prometheus_client.CollectorRegistry, step: Callable[[], None]) -> None:
    """Call `step` at every scrape."""

    class Step:
        def collect(self) -> Iterator[Any]:
            step()
            return iter(())

    registry.register(Step())


@pytest.mark.tools
def test_a_real_prometheus_answers_every_panel(
    root: Path, tool: Callable[..., Any], pretended_services: list[str]
) -> None:
    program = tool("prometheus", "--version").args[0]
    result = subprocess.run(
        [
            sys.executable,
            root / "scripts/check_dashboards.py",
            f"--prometheus={program}",
            *pretended_services,
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert ", 0 bad" in result.stdout


@pytest.mark.tools
def test_a_service_that_is_away_is_reported(
    root: Path, tool: Callable[..., Any], pretended_services: list[str]
) -> None:
    program = tool("prometheus", "--version").args[0]
    arguments = [f"--prometheus={program}", "--seconds=12", *pretended_services[:-1]]
    result = subprocess.run(
        [sys.executable, root / "scripts/check_dashboards.py", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 1
    assert "BAD Rows by table [A]: empty" in result.stdout
    assert "BAD Rows by topic" not in result.stdout
