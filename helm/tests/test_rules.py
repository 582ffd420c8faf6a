"""The alert rules: only metrics that exist, somebody who knows what to do, and a test for each."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.listing


def test_every_alert_uses_known_metrics_and_labels(
    rules: list[dict[str, Any]], unknown_metrics: Callable[[str], set[str]]
) -> None:
    assert len(rules) > 20
    assert {rule["alert"]: wrong for rule in rules if (wrong := unknown_metrics(rule["expr"]))} == {}


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("tidings_capture_lag_second > 1", {"tidings_capture_lag_second"}),
        ('tidings_capture_lag_seconds{slot="s"} > 1', {"tidings_capture_lag_seconds{slot}"}),
        ("sum by (stagge) (tidings_consumer_lag_records)", {"by (stagge)"}),
        ("rate(tidings_translator_event_latency_seconds[5m])", {"tidings_translator_event_latency_seconds"}),
        ('max(up{job="tidings-capture"} offset 5m) unless on (job) vector(1)', set()),
    ],
)
def test_the_check_itself_finds_what_is_wrong(
    unknown_metrics: Callable[[str], set[str]], expression: str, wrong: set[str]
) -> None:
    assert unknown_metrics(expression) == wrong


def test_every_alert_says_how_bad_it_is_and_has_a_runbook(root: Path, rules: list[dict[str, Any]]) -> None:
    headings = {
        match.lower() for match in re.findall(r"^### (\w+)$", (root / "docs/runbooks.md").read_text(), re.M)
    }
    names = [rule["alert"] for rule in rules]
    assert len(names) == len(set(names))
    for rule in rules:
        assert rule["labels"]["severity"] in {"critical", "warning"}, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, rule["alert"]
        page, anchor = rule["annotations"]["runbook_url"].split("#")
        assert (page, anchor) == ("docs/runbooks.md", rule["alert"].lower())
        assert anchor in headings, f"docs/runbooks.md has no section {rule['alert']}"
    assert headings == {name.lower() for name in names}, "a section for an alert that does not exist"


def test_every_alert_is_tested_both_ways(chart: Path, rules: list[dict[str, Any]]) -> None:
    fires: set[str] = set()
    quiet: set[str] = set()
    for path in (chart / "rules/tests").glob("*.yaml"):
        for test in yaml.safe_load(path.read_text())["tests"]:
            for case in test["alert_rule_test"]:
                (fires if case["exp_alerts"] else quiet).add(case["alertname"])
    names = {rule["alert"] for rule in rules}
    assert fires == names
    assert quiet == names


def test_every_number_that_is_a_threshold_is_a_value_with_the_same_default(
    chart: Path, rules: list[dict[str, Any]]
) -> None:
    written = {
        rule["alert"]: found
        for rule in rules
        if (found := re.findall(r"\(([0-9][0-9.e+*^ ]*)\)", rule["expr"]))
    }
    values = yaml.safe_load((chart / "values.yaml").read_text())["prometheusRule"]["thresholds"]
    assert {name: [str(value)] for name, value in values.items()} == written
    # What compares with another number than 0 or 1 has a threshold.
    for rule in rules:
        if re.search(r"[<>]=? *(?!0\b|0$)[0-9]", re.sub(r"tidings_wal_guard_level >= 2", "", rule["expr"])):
            assert rule["alert"] in values or rule["alert"] in {"TidingsSlotFallingBehind"}, rule["expr"]


def test_every_grouping_keeps_the_release(rules: list[dict[str, Any]]) -> None:
    for rule in rules:
        for grouping in re.findall(r"\b(?:by|on|ignoring|without) *\(([^)]*)\)", rule["expr"]):
            assert {"namespace", "release"} <= set(re.findall(r"\w+", grouping)), rule["alert"]
        aggregations = re.findall(r"\b(?:sum|max|min|count|avg)\b(?! (?:by|without))", rule["expr"])
        assert aggregations == [], f"{rule['alert']} adds up several releases"


@pytest.mark.tools
def test_the_charts_alerts_are_about_its_own_release(
    render: Callable[..., Any], metrics: dict[str, Any], tool: Callable[..., Any], tmp_path: Path
) -> None:
    (found,) = (item for item in render("full") if item["kind"] == "PrometheusRule")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": found["spec"]["groups"]}))
    result = tool("promtool", "check", "rules", tmp_path / "rules.yaml")
    assert result.returncode == 0, result.stdout + result.stderr
    names = {*metrics, "up", *(f"{name}_{part}" for name in metrics for part in ("bucket", "sum", "count"))}
    for group in found["spec"]["groups"]:
        for rule in group["rules"]:
            selectors = re.findall(r"\b([a-zA-Z_]\w*)\b(?:\{([^}]*)\})?", rule["expr"])
            own = [matchers for name, matchers in selectors if name in names]
            assert own, rule["expr"]
            for matchers in own:
                assert matchers.startswith('namespace="data",release="shop"'), rule["expr"]


@pytest.mark.tools
def test_every_enabled_service_has_an_alert_that_misses_it(render: Callable[..., Any]) -> None:
    def missing(name: str) -> dict[str, str]:
        (rule,) = (item for item in render(name) if item["kind"] == "PrometheusRule")
        alerts = {rule["alert"]: rule["expr"] for group in rule["spec"]["groups"] for rule in group["rules"]}
        return {name: expr for name, expr in alerts.items() if expr.startswith("absent(")}

    assert missing("full") == {
        f"Tidings{name.capitalize()}Missing": f'absent(up{{namespace="data",release="shop",job="tidings-{name}"}})'
        for name in ("capture", "sequencer", "translator", "lakehouse")
    }
    assert set(missing("secured")) == {"TidingsCaptureMissing"}


@pytest.mark.tools
def test_thresholds_durations_and_severities_by_values(
    render: Callable[..., Any], rules: list[dict[str, Any]]
) -> None:
    (found,) = (item for item in render("secured") if item["kind"] == "PrometheusRule")
    alerts = {rule["alert"]: rule for group in found["spec"]["groups"] for rule in group["rules"]}
    assert "TidingsSlotWalHigh" not in alerts
    assert alerts["TidingsSlotWalCritical"]["expr"].rstrip().endswith("> (0.5)")
    assert "> (2 * 1024 ^ 3) unless" in alerts["TidingsSlotWalUnbounded"]["expr"]
    lag = alerts["TidingsCaptureLag"]
    assert (lag["for"], lag["labels"]["severity"]) == ("20m", "critical")
    (plain,) = (
        item
        for item in render("full", "--set", "prometheusRule.scoped=false")
        if item["kind"] == "PrometheusRule"
    )
    assert {rule["alert"]: rule["expr"] for group in plain["spec"]["groups"] for rule in group["rules"]} == {
        rule["alert"]: rule["expr"] for rule in rules
    }
    links = [
        rule["annotations"]["runbook_url"] for group in plain["spec"]["groups"] for rule in group["rules"]
    ]
    assert all(link.startswith("https://example.com/tidings/runbooks.md#tidings") for link in links)


@pytest.mark.tools
def test_promtool_accepts_the_rules(chart: Path, tool: Callable[..., Any]) -> None:
    result = tool("promtool", "check", "rules", *sorted((chart / "rules").glob("*.yaml")))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.tools
def test_promtool_unit_tests(chart: Path, tool: Callable[..., Any]) -> None:
    result = tool("promtool", "test", "rules", *sorted((chart / "rules/tests").glob("*.yaml")))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.tools
def test_promtool_accepts_the_configuration_of_compose(
    root: Path, chart: Path, tool: Callable[..., Any], tmp_path: Path
) -> None:
    config = (
        (root / "deploy/prometheus.yml").read_text().replace("/etc/prometheus/rules", str(chart / "rules"))
    )
    (tmp_path / "prometheus.yml").write_text(config)
    result = tool("promtool", "check", "config", tmp_path / "prometheus.yml")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "rules found" in result.stdout
