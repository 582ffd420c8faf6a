"""The alert rules: only metrics that exist, somebody who knows what to do, and a test for each."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml


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
