"""Runs every panel's PromQL and every alert rule on a real Prometheus that scrapes a running pipeline.

    scripts/check_dashboards.py --target tidings-capture=127.0.0.1:8083 --target tidings-sequencer=127.0.0.1:8091 \\
        --target tidings-translator=127.0.0.1:8092 --target tidings-lakehouse=127.0.0.1:8093

Starts a Prometheus of its own (from PATH or the cache of scripts/tools.sh) on a free loopback port, scrapes the targets
every second, and waits until every panel shows a number, every rule evaluates, and every metric of deploy/metrics.yaml
is there with its labels. Needs traffic meanwhile: a rate of nothing is nothing. Exit codes: 0 all is well, 1 something
is wrong (said panel by panel), 77 there is no Prometheus to run.
"""

import argparse
import contextlib
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
METRICS: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load((ROOT / "deploy/metrics.yaml").read_text())
NO_TOOL = 77
RATE_WINDOW = "5m"
"""In place of Grafana's rate interval: all that has happened since this Prometheus started."""
SEVERITY_OF_HEALTHY = "critical"
"""A healthy pipeline under traffic fires no alert of this severity."""


@dataclass(frozen=True, slots=True)
class Query:
    """One target of a panel, with Grafana's variables replaced."""

    panel: str
    expression: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What Prometheus said to a query, or what is wrong with a rule or a metric."""

    subject: str
    ok: bool
    text: str


def queries_of(dashboard: Path) -> list[Query]:
    """Every query of every panel, rows included."""
    document = json.loads(dashboard.read_text())
    found = []
    pending = list(document["panels"])
    while pending:
        panel = pending.pop(0)
        pending[:0] = panel.get("panels", [])
        for target in panel.get("targets", []):
            expression = re.sub(r"\$\{?__(rate_interval|interval|range)\}?", RATE_WINDOW, target["expr"])
            expression = re.sub(r"\$\{?[a-z]\w*(:\w+)?\}?", ".*", expression)
            found.append(Query(f"{panel['title']} [{target['refId']}]", expression))
    return found


class Prometheus:
    """A Prometheus server of our own, and its HTTP API."""

    def __init__(self, binary: str, targets: dict[str, str], directory: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in sorted((ROOT / "helm/tidings/rules").glob("*.yaml"))],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [address]}]}
                for job, address in targets.items()
            ],
        }
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.url = f"http://127.0.0.1:{port}"
        self._log = (directory / "log").open("wb")
        self._process = subprocess.Popen(
            [
                binary,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._directory = directory

    def close(self) -> None:
        """Stop the server."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def get(self, path: str, **parameters: str) -> Any:
        """The `data` of an answer; a RuntimeError with Prometheus's own words when it refuses."""
        if self._process.poll() is not None:
            raise RuntimeError(f"Prometheus ended:\n{(self._directory / 'log').read_text()[-2000:]}")
        url = f"{self.url}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error

    def ready(self) -> bool:
        """Whether it answers queries."""
        try:
            self.get("/api/v1/query", query="1")
        except (OSError, RuntimeError):
            if self._process.poll() is not None:
                raise
            return False
        return True


def panel_verdict(prometheus: Prometheus, query: Query, rare: set[str]) -> Verdict:
    """Whether the query is understood and shows at least one number; one of a rare metric may show none."""
    try:
        series = prometheus.get("/api/v1/query", query=query.expression)["result"]
    except RuntimeError as error:
        return Verdict(query.panel, False, f"refused: {error}: {query.expression}")
    values = [float(item["value"][1]) for item in series]
    if not values:
        excused = any(name in query.expression for name in rare)
        return Verdict(query.panel, excused, f"empty: {query.expression}")
    if all(math.isnan(value) for value in values):
        return Verdict(query.panel, False, f"not a number: {query.expression}")
    return Verdict(query.panel, True, f"{len(values)} series")


def rule_verdicts(prometheus: Prometheus) -> list[Verdict]:
    """Whether every rule evaluates, and that no critical alert is on."""
    verdicts = []
    for group in prometheus.get("/api/v1/rules")["groups"]:
        for rule in group["rules"]:
            firing = [alert["labels"] for alert in rule["alerts"] if alert["state"] == "firing"]
            bad = rule["health"] != "ok" or (firing and rule["labels"].get("severity") == SEVERITY_OF_HEALTHY)
            text = f"{rule['health']}, {rule.get('lastError', '')} firing: {firing}" if bad else rule["state"]
            verdicts.append(Verdict(rule["name"], not bad, text))
    return verdicts


def metric_verdicts(prometheus: Prometheus, jobs: set[str]) -> list[Verdict]:
    """Whether every metric of the list is exposed by its service, with its labels."""
    verdicts = []
    for services, metrics in METRICS.items():
        names = (
            jobs if services == "every service" else {f"tidings-{name}" for name in services.split(" and ")}
        )
        for name, description in metrics.items():
            sample = f"{name}_count" if description["type"] == "histogram" else name
            for job in sorted(names & jobs):
                series = prometheus.get("/api/v1/query", query=f'{sample}{{job="{job}"}}')["result"]
                missing = {
                    label
                    for label in description.get("labels", [])
                    for item in series
                    if label not in item["metric"]
                }
                ok = not missing and bool(series or description.get("rare"))
                text = f"without {sorted(missing)}" if missing else f"{len(series)} series"
                verdicts.append(Verdict(f"{job} {name}", ok, text))
    return verdicts


def all_verdicts(prometheus: Prometheus, queries: list[Query], jobs: set[str]) -> list[Verdict]:
    """Everything that is checked, once."""
    verdicts = [
        Verdict(
            f"{target['labels']['job']} is scraped", target["health"] == "up", target["lastError"] or "up"
        )
        for target in prometheus.get("/api/v1/targets")["activeTargets"]
    ]
    rare = {name for metrics in METRICS.values() for name, about in metrics.items() if about.get("rare")}
    verdicts += [panel_verdict(prometheus, query, rare) for query in queries]
    verdicts += rule_verdicts(prometheus)
    verdicts += metric_verdicts(prometheus, jobs)
    return verdicts


def find_prometheus() -> str | None:
    """The prometheus on PATH, or the one that scripts/tools.sh has built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tidings"
    built = Path(os.environ.get("TIDINGS_CACHE", cache)) / "tools/bin/prometheus"
    return shutil.which("prometheus") or (str(built) if built.exists() else None)


@contextlib.contextmanager
def running(binary: str, targets: dict[str, str]) -> Iterator[Prometheus]:
    """A Prometheus that answers queries, stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="tidings-prometheus-") as directory:
        prometheus = Prometheus(binary, targets, Path(directory))
        try:
            deadline = time.monotonic() + 30
            while not prometheus.ready():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"Prometheus does not answer at {prometheus.url}")
                time.sleep(0.2)
            yield prometheus
        finally:
            prometheus.close()


def main() -> int:
    """Read the arguments, wait for the best verdicts, and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--target",
        action="append",
        required=True,
        metavar="JOB=HOST:PORT",
        help="e.g. tidings-capture=127.0.0.1:8083",
    )
    parser.add_argument(
        "--seconds", type=float, default=90.0, help="how long to wait for all to be well (default 90)"
    )
    parser.add_argument("--prometheus", default=find_prometheus(), help="the program to run")
    parser.add_argument("--verbose", action="store_true", help="say what is well, too")
    arguments = parser.parse_args()
    if not arguments.prometheus:
        print(
            "there is no prometheus on PATH or in the cache: run scripts/tools.sh prometheus", file=sys.stderr
        )
        return NO_TOOL
    targets = dict(item.split("=", 1) for item in arguments.target)
    queries = [
        query
        for path in sorted((ROOT / "helm/tidings/dashboards").glob("*.json"))
        for query in queries_of(path)
    ]
    with running(arguments.prometheus, targets) as prometheus:
        deadline = time.monotonic() + arguments.seconds
        while True:
            verdicts = all_verdicts(prometheus, queries, set(targets))
            bad = [verdict for verdict in verdicts if not verdict.ok]
            if not bad or time.monotonic() > deadline:
                break
            time.sleep(1)
    for verdict in verdicts if arguments.verbose else bad:
        print(f"{'ok ' if verdict.ok else 'BAD'} {verdict.subject}: {verdict.text}")
    print(f"{len(verdicts)} checks ({len(queries)} queries), {len(bad)} bad")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
