"""The chart: its values' schema, and what helm makes of it, checked against Kubernetes' own API description."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

KUBERNETES = "1.36.3"
VALUE_SETS = ("minimal", "full", "capture-only", "secured", "executors")
PORTS = {"capture": 8084, "sequencer": 8091, "translator": 8092, "lakehouse": 8093}


@pytest.fixture(scope="session")
def schema(chart: Path) -> dict[str, Any]:
    """values.schema.json."""
    document: dict[str, Any] = json.loads((chart / "values.schema.json").read_text())
    return document


def read_values(root: Path, name: str) -> dict[str, Any]:
    """One of the value sets of tests/values."""
    values: dict[str, Any] = yaml.safe_load((root / f"helm/tests/values/{name}.yaml").read_text())
    return values


def merged(base: Any, over: Any) -> Any:
    """`over` laid on `base`, as helm does it."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in over.items()}}
    return over


def of_kind(manifests: list[dict[str, Any]], *kinds: str) -> dict[str, dict[str, Any]]:
    """The manifests of these kinds, by name."""
    return {item["metadata"]["name"]: item for item in manifests if item["kind"] in kinds}


def pods(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod specs, by the name of what makes them."""
    return {
        name: item["spec"]["template"]["spec"]
        for name, item in of_kind(manifests, "Deployment", "StatefulSet", "Job").items()
    }


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_schema_accepts_the_defaults_and_the_value_sets(
    root: Path, chart: Path, schema: dict[str, Any], name: str
) -> None:
    defaults = yaml.safe_load((chart / "values.yaml").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(defaults, schema)
    jsonschema.validate(merged(defaults, read_values(root, name)), schema)


WRONG_VALUES = [
    {"captur": {"enabled": True}},
    {"capture": {"replicas": 0}},
    {"sequencer": {"replicas": 5}},
    {"kafka": {"bootstrapServers": "kafka"}},
    {"registry": {"url": "http://user:secret@registry:8080"}},
    {"domain": "tidings-shop/domain"},
    {"kafka": {"security": {"password": "plain"}}},
    {"kafka": {"security": {"mechanism": "GSSAPI"}}},
    {"log": {"level": "LOUD"}},
    {"lakehouse": {"persistence": {"size": "big"}}},
    {"lakehouse": {"executors": {"instances": -1}}},
    {"lakehouse": {"executors": {"memory": "2Gi"}}},
    {"lakehouse": {"executors": {"apiServer": "https://token@api:6443"}}},
    {"translator": {"resources": {"requests": {"memori": "1Gi"}}}},
    {"capture": {"connectors": {"shop": {"connector.class": "X", "database.password": "plain"}}}},
    {"capture": {"connectors": {"shop": {"database.hostname": "without-a-class"}}}},
    {"capture": {"connectors": {"shop": {"connector.class": "X", "tasks.max": 1}}}},
    {"capture": {"secretEnv": {"PASSWORD": {"secret": "x"}}}},
]


@pytest.mark.parametrize("wrong", WRONG_VALUES, ids=json.dumps)
def test_the_schema_refuses(root: Path, chart: Path, schema: dict[str, Any], wrong: dict[str, Any]) -> None:
    values = merged(yaml.safe_load((chart / "values.yaml").read_text()), read_values(root, "minimal"))
    jsonschema.validate(values, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(values, wrong), schema)


@pytest.mark.listing
def test_every_default_is_described_by_the_schema(chart: Path, schema: dict[str, Any]) -> None:
    def undescribed(values: dict[str, Any], node: dict[str, Any], path: str) -> set[str]:
        found = set()
        for key, value in values.items():
            child = node.get("properties", {}).get(key)
            if child is None:
                found.add(f"{path}{key}")
            elif isinstance(value, dict) and "properties" in child:
                found |= undescribed(value, child, f"{path}{key}.")
        return found

    assert undescribed(yaml.safe_load((chart / "values.yaml").read_text()), schema, "") == set()


@pytest.mark.listing
def test_no_chart_of_others_is_needed(chart: Path) -> None:
    assert "dependencies" not in yaml.safe_load((chart / "Chart.yaml").read_text())


@pytest.mark.tools
@pytest.mark.parametrize("name", VALUE_SETS)
def test_helm_lint(root: Path, chart: Path, tool: Callable[..., Any], name: str) -> None:
    result = tool(
        "helm",
        "lint",
        "--strict",
        "--kube-version",
        KUBERNETES,
        chart,
        "-f",
        root / f"helm/tests/values/{name}.yaml",
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.tools
def test_helm_itself_refuses_a_typo_and_what_is_missing(
    root: Path, chart: Path, tool: Callable[..., Any]
) -> None:
    minimal = root / "helm/tests/values/minimal.yaml"
    common = ("template", "shop", chart, "--kube-version", KUBERNETES)
    typo = tool("helm", *common, "-f", minimal, "--set", "capture.resorces.limits.memory=1Gi")
    assert typo.returncode != 0
    assert "resorces" in typo.stderr
    missing = tool("helm", *common)
    assert missing.returncode != 0
    for needed in ("kafka.bootstrapServers", "registry.url", "source", "domain"):
        assert f"  {needed} (" in missing.stderr
    without = tool("helm", *common, "-f", minimal, "--set", "domain=")
    assert without.returncode != 0
    assert "  domain (Python package of the translator's domain)" in without.stderr
    assert "kafka" not in without.stderr


@pytest.mark.tools
@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_manifests_are_what_kubernetes_takes(
    root: Path, chart: Path, tool: Callable[..., Any], tools_cache: Path, name: str
) -> None:
    schemas = tools_cache / "schemas"
    if not (schemas / "complete").exists():
        pytest.skip("the Kubernetes JSON schemas are not there: run `make tools` (needs Go)")
    values = root / f"helm/tests/values/{name}.yaml"
    manifests = tool(
        "helm", "template", "shop", chart, "--kube-version", KUBERNETES, "-n", "data", "-f", values
    )
    assert manifests.returncode == 0, manifests.stderr
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    check = ("kubeconform", "-strict", "-summary", "-output", "json", "-schema-location", location)
    good = tool(*check, stdin=manifests.stdout)
    assert good.returncode == 0, good.stdout + good.stderr
    summary = json.loads(good.stdout)["summary"]
    assert summary["valid"] >= 4
    assert summary["skipped"] == 0
    # The check would have found a typo, in our own kinds and in the operator's.
    for right, typo in (
        ("publishNotReadyAddresses:", "publishNotReadyAdresses:"),
        ("endpoints:", "endpoint:"),
    ):
        if right in manifests.stdout:
            bad = tool(*check, stdin=manifests.stdout.replace(right, typo))
            assert bad.returncode != 0


@pytest.mark.tools
@pytest.mark.parametrize("name", VALUE_SETS)
def test_every_pod_is_confined(render: Callable[..., list[dict[str, Any]]], name: str) -> None:
    manifests = render(name)
    found = pods(manifests)
    assert found
    made = of_kind(manifests, "ConfigMap").get("shop-tidings-lakehouse-executors")
    if made is not None:
        found["executor"] = yaml.safe_load(made["data"]["pod.yaml"])["spec"]
    for of, pod in found.items():
        assert pod["securityContext"]["runAsNonRoot"] is True
        # A job that has executors makes their pods.
        assert pod["automountServiceAccountToken"] is (made is not None and of == "shop-tidings-lakehouse")
        # Without this a Service named tidings-http would set TIDINGS_HTTP_PORT.
        assert pod["enableServiceLinks"] is False
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            if of == "executor":
                continue  # what it may take is among Spark's settings
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]


@pytest.mark.tools
def test_the_services_get_what_the_contract_says(render: Callable[..., list[dict[str, Any]]]) -> None:
    manifests = render("full")
    found = pods(manifests)
    services = of_kind(manifests, "Service")
    for component, port in PORTS.items():
        container = found[f"shop-tidings-{component}"]["containers"][0]
        environment = {item["name"]: item.get("value") for item in container["env"]}
        assert container["command"] == [f"tidings-{component}"]
        assert environment["TIDINGS_HTTP_HOST"] == "0.0.0.0"
        if component == "capture":
            # Metrics and probes have a port of their own.
            container["ports"].remove({"name": "rest", "containerPort": 8083})
            assert services["shop-tidings-capture"]["spec"]["ports"].pop(0)["targetPort"] == "rest"
        assert environment["TIDINGS_HTTP_PORT"] == str(port)
        assert container["ports"] == [{"name": "http", "containerPort": port}]
        assert services[f"shop-tidings-{component}"]["spec"]["ports"][0]["port"] == port
        for probe, path in (
            ("livenessProbe", "/healthz"),
            ("readinessProbe", "/readyz"),
            ("startupProbe", "/healthz"),
        ):
            assert container[probe]["httpGet"] == {"path": path, "port": "http"}
        if component != "capture":
            assert environment["TIDINGS_KAFKA"] == "kafka-0:9092,kafka-1:9092"
            assert environment["TIDINGS_SOURCE"] == "shop"
    properties = of_kind(manifests, "ConfigMap")["shop-tidings-capture"]["data"][
        "worker.properties"
    ].splitlines()
    assert "listeners=http://0.0.0.0:8083" in properties
    assert "producer.linger.ms=20" in properties
    assert all(re.fullmatch(r"[a-z.]+=\S+", line) for line in properties)


@pytest.mark.tools
@pytest.mark.parametrize("given", [(), ("--set", "capture.worker.topicPrefix=own.connect")])
def test_the_lakehouse_reads_the_offsets_where_the_worker_stores_them(
    render: Callable[..., list[dict[str, Any]]], given: tuple[str, ...]
) -> None:
    manifests = render("minimal", *given)
    properties = of_kind(manifests, "ConfigMap")["shop-tidings-capture"]["data"]["worker.properties"]
    (stored,) = re.findall(r"^offset\.storage\.topic=(.*)$", properties, re.MULTILINE)
    environment = pods(manifests)["shop-tidings-lakehouse"]["containers"][0]["env"]
    assert {"name": "TIDINGS_LAKEHOUSE_OFFSETS_TOPIC", "value": stored} in environment


@pytest.mark.tools
def test_workers_are_replaced_one_by_one_and_budgets_never_block_a_drain(
    render: Callable[..., list[dict[str, Any]]],
) -> None:
    manifests = render("full")
    deployments = of_kind(manifests, "Deployment")
    lakehouse, capture = (deployments[f"shop-tidings-{name}"]["spec"] for name in ("lakehouse", "capture"))
    assert (lakehouse["replicas"], lakehouse["strategy"]) == (1, {"type": "Recreate"})
    assert capture["replicas"] == 2
    assert capture["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    budgets = of_kind(manifests, "PodDisruptionBudget")
    assert len(budgets) == len(PORTS)
    for budget in budgets.values():
        assert budget["spec"]["maxUnavailable"] == 1
        assert "minAvailable" not in budget["spec"]


@pytest.mark.tools
def test_passwords_come_from_secrets_and_nowhere_else(render: Callable[..., list[dict[str, Any]]]) -> None:
    manifests = render("full")
    assert of_kind(manifests, "Secret") == {}
    passwords = 0
    for name, pod in pods(manifests).items():
        for item in pod["containers"][0]["env"]:
            if item["name"].endswith("_FILE"):
                assert item["value"].startswith("/run/secrets/tidings-")
            elif "PASSWORD" in item["name"]:
                passwords += 1
                assert name.startswith("shop-tidings-capture")
                assert item["valueFrom"]["secretKeyRef"] == {"name": "shop-database", "key": "password"}
    assert passwords == 1
    connector = json.loads(of_kind(manifests, "ConfigMap")["shop-tidings-connectors"]["data"]["shop.json"])
    assert connector["database.password"] == "${env:DATABASE_PASSWORD}"
    properties = of_kind(manifests, "ConfigMap")["shop-tidings-capture"]["data"]["worker.properties"]
    (pattern,) = re.findall(
        r"^config\.providers\.env\.param\.allowlist\.pattern=(.*)$", properties, re.MULTILINE
    )
    assert re.fullmatch(pattern, "DATABASE_PASSWORD")
    assert not re.fullmatch(pattern, "KAFKA_OPTS")


@pytest.mark.tools
def test_the_services_log_in_with_secrets_that_are_there(
    render: Callable[..., list[dict[str, Any]]],
) -> None:
    found = pods(render("full"))
    for component, secret in (
        ("sequencer", "kafka-login"),
        ("translator", "kafka-login"),
        ("lakehouse", "kafka-lakehouse"),
    ):
        pod = found[f"shop-tidings-{component}"]
        [container] = pod["containers"]
        given = {item["name"]: item for item in container["env"]}
        user = given["TIDINGS_KAFKA_SASL_USERNAME"]["valueFrom"]["secretKeyRef"]
        assert user == {"name": secret, "key": "username"}
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume.get("secret", {}).get("secretName") for volume in pod["volumes"]}
        for variable, holder in (
            ("TIDINGS_KAFKA_SASL_PASSWORD_FILE", secret),
            ("TIDINGS_KAFKA_CA_FILE", "kafka-ca"),
            ("TIDINGS_REGISTRY_TOKEN_FILE", "registry-login"),
            ("TIDINGS_REGISTRY_CA_FILE", "registry-ca"),
        ):
            directory = str(Path(given[variable]["value"]).parent)
            assert volumes[mounts[directory]] == holder
        assert given["TIDINGS_KAFKA_SECURITY_PROTOCOL"]["value"] == "SASL_SSL"


def test_the_services_take_tokens_and_certificates(render: Callable[..., list[dict[str, Any]]]) -> None:
    found = pods(
        render(
            "full",
            "--set=kafka.security.mechanism=OAUTHBEARER",
            "--set=kafka.security.tokenEndpoint=https://login.example.com/token",
            "--set=kafka.security.clientCertificate=true",
        )
    )
    [container] = found["shop-tidings-sequencer"]["containers"]
    names = {item["name"] for item in container["env"]}
    assert "TIDINGS_KAFKA_SASL_USERNAME" not in names
    assert names >= {
        "TIDINGS_KAFKA_OAUTH_CLIENT_ID",
        "TIDINGS_KAFKA_OAUTH_CLIENT_SECRET_FILE",
        "TIDINGS_KAFKA_OAUTH_TOKEN_ENDPOINT",
        "TIDINGS_KAFKA_CERTIFICATE_FILE",
        "TIDINGS_KAFKA_KEY_FILE",
    }


def test_the_registration_job_runs_again_when_something_changes_and_only_then(
    render: Callable[..., list[dict[str, Any]]],
) -> None:
    def job(*arguments: str) -> str:
        return next(iter(of_kind(render("full", *arguments), "Job")))

    first = job()
    assert job() == first
    assert job("--set", "translator.replicas=7") == first
    assert job("--set", r"capture.connectors.shop.snapshot\.mode=never") != first
    assert job("--set-string", "capture.image.tag=9") != first


@pytest.mark.tools
def test_the_dashboard_arrives_unchanged(chart: Path, render: Callable[..., list[dict[str, Any]]]) -> None:
    board = of_kind(render("full"), "ConfigMap")["shop-tidings-dashboards"]["data"]["tidings.json"]
    assert json.loads(board) == json.loads((chart / "dashboards/tidings.json").read_text())


@pytest.mark.tools
def test_without_the_operator_there_is_none_of_its_kinds(render: Callable[..., list[dict[str, Any]]]) -> None:
    assert {item["apiVersion"] for item in render("minimal")} <= {
        "v1",
        "apps/v1",
        "policy/v1",
        "batch/v1",
        "networking.k8s.io/v1",
    }
