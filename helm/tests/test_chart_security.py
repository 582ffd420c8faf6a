"""What the chart lets in and out, where secrets stand, and whose connectors the registration removes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidings_capture.postgres.settings.worker_options import spool_bounds
from tidings_connect.config.rest.security import read_rest_security
from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.limits import ConnectorLimits, read_limits
from tidings_stack.secured.authority import Authority

Render = Callable[..., list[dict[str, Any]]]
COMPONENTS = ("capture", "sequencer", "translator", "lakehouse")
pytestmark = pytest.mark.tools


def policies(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The specs of the NetworkPolicies by component."""
    return {
        item["metadata"]["labels"]["app.kubernetes.io/component"]: item["spec"]
        for item in manifests
        if item["kind"] == "NetworkPolicy"
    }


def selected(peers: list[dict[str, Any]]) -> list[Any]:
    """Peers in short: the component of pods of the chart, else the peer."""
    key = "app.kubernetes.io/component"
    return [peer.get("podSelector", {}).get("matchLabels", {}).get(key, peer) for peer in peers]


def ways_out(policy: dict[str, Any]) -> set[tuple[int, str]]:
    """Ports that a policy lets out."""
    return {(port["port"], port["protocol"]) for rule in policy["egress"] for port in rule["ports"]}


def pod(manifests: list[dict[str, Any]], component: str, kind: str = "") -> dict[str, Any]:
    """The pod of a component; its kind where there are several."""
    (found,) = (
        item["spec"]["template"]["spec"]
        for item in manifests
        if item["kind"] in (kind or "Deployment StatefulSet Job")
        and item["metadata"]["labels"].get("app.kubernetes.io/component") == component
        and "helm.sh/hook" not in item["metadata"].get("annotations", {})
    )
    return found


def test_every_pod_has_a_policy_and_captures_rest_is_closed_to_the_cluster(render: Render) -> None:
    manifests = render("minimal")
    found = policies(manifests)
    assert set(found) == {*COMPONENTS, "register"}
    for component, policy in found.items():
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        labels = policy["podSelector"]["matchLabels"]
        pods = [item for item in manifests if item["kind"] in {"Deployment", "StatefulSet", "Job"}]
        matched = [
            item["metadata"]["name"]
            for item in pods
            if labels.items() <= item["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert matched, f"the policy of {component} is for no pod"
    assert found["register"]["ingress"] == []
    rest = [rule["from"] for rule in found["capture"]["ingress"] if rule["ports"][0]["port"] == "rest"]
    assert [selected(peers) for peers in rest] == [["register", "capture"]]
    for component in COMPONENTS:
        metrics = [rule for rule in found[component]["ingress"] if rule["ports"][0]["port"] == "http"]
        assert [rule["from"] for rule in metrics] == [[{"namespaceSelector": {}}]]


def test_a_plain_install_reaches_what_it_needs_and_no_other_port(render: Render) -> None:
    found = policies(render("minimal"))
    dns = {(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")}
    kafka, registry = (9092, "TCP"), (8080, "TCP")
    assert ways_out(found["capture"]) == {*dns, kafka, registry, (5432, "TCP"), (8083, "TCP")}
    for component in ("sequencer", "translator", "lakehouse"):
        assert ways_out(found[component]) == {*dns, kafka, registry}
    assert ways_out(found["register"]) == {*dns, (8083, "TCP")}


def test_the_lakehouse_reaches_the_database_only_to_audit_it(render: Render) -> None:
    asked = ("--set", "lakehouse.audit.seconds=86400", "--set", "lakehouse.audit.secret=reader")
    manifests = render("minimal", *asked)
    assert (5432, "TCP") in ways_out(policies(manifests)["lakehouse"])
    environment = {one["name"]: one for one in pod(manifests, "lakehouse")["containers"][0]["env"]}
    assert environment["TIDINGS_LAKEHOUSE_AUDIT_SECONDS"]["value"] == "86400"
    database = environment["TIDINGS_LAKEHOUSE_AUDIT_DATABASE"]["valueFrom"]
    assert database == {"secretKeyRef": {"name": "reader", "key": "url"}}


def test_a_lakehouse_in_an_object_store(render: Render) -> None:
    values = {
        "warehouse": "s3://lake/warehouse",
        "catalog.uri": "jdbc:postgresql://db/catalog",
        "catalog.user": "lake",
        "catalog.existingSecret": "catalog",
        "sparkConf.spark\\.sql\\.catalog\\.lake\\.client\\.region": "eu-central-1",
        "sparkSecret": "store",
    }
    manifests = render(
        "minimal",
        *(part for name, value in values.items() for part in ("--set", f"lakehouse.{name}={value}")),
    )
    spec = pod(manifests, "lakehouse")
    environment = {one["name"]: one for one in spec["containers"][0]["env"]}
    told = {name.removeprefix("TIDINGS_LAKEHOUSE_"): one.get("value") for name, one in environment.items()}
    assert told["CHECKPOINT"] == "/var/lib/tidings/checkpoints", "on the volume"
    assert (told["CATALOG"], told["CATALOG_USER"]) == ("jdbc:postgresql://db/catalog", "lake")
    assert environment["TIDINGS_LAKEHOUSE_CATALOG_PASSWORD"]["valueFrom"] == {
        "secretKeyRef": {"name": "catalog", "key": "password"}
    }
    assert told["SPARK_CONF"] == "spark.sql.catalog.lake.client.region=eu-central-1"
    assert told["SPARK_CONF_FILE"] == "/run/tidings/spark/spark.conf"
    mounts = {one["name"]: one["mountPath"] for one in spec["containers"][0]["volumeMounts"]}
    assert mounts["spark-conf"] == "/run/tidings/spark"
    assert (443, "TCP") in ways_out(policies(manifests)["lakehouse"])


def test_ways_in_and_out_by_values(render: Render) -> None:
    found = policies(render("full"))
    ui = {"podSelector": {"matchLabels": {"app": "kafka-ui"}}}
    rest = [rule["from"] for rule in found["capture"]["ingress"] if rule["ports"][0]["port"] == "rest"]
    assert selected(rest[0]) == ["register", "capture", ui]
    rules = {json.dumps(rule, sort_keys=True) for rule in found["capture"]["egress"]}
    brokers = {
        "to": [{"podSelector": {"matchLabels": {"app": "kafka"}}}],
        "ports": [{"port": 9092, "protocol": "TCP"}, {"port": 9094, "protocol": "TCP"}],
    }
    database = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 5432, "protocol": "TCP"}]}
    assert json.dumps(brokers, sort_keys=True) in rules
    assert json.dumps(database, sort_keys=True) in rules
    assert (443, "TCP") in ways_out(found["lakehouse"]), "the object store"
    assert policies(render("full", "--set", "networkPolicy.enabled=false")) == {}
    open_ways = policies(render("full", "--set", "networkPolicy.egress.enabled=false"))
    assert all("Egress" not in policy["policyTypes"] for policy in open_ways.values())
    https = policies(render("secured"))["capture"]
    assert {(9093, "TCP"), (443, "TCP")} <= ways_out(https)


def test_rest_with_tls_and_a_password_also_for_the_registration(render: Render, tmp_path: Path) -> None:
    manifests = render("secured")
    worker, job = pod(manifests, "capture"), pod(manifests, "register")
    properties = worker_properties(manifests)
    assert properties["listeners"] == "https://0.0.0.0:8083"
    mounts = {mount["mountPath"] for mount in worker["containers"][0]["volumeMounts"]}
    files = [value for name, value in properties.items() if name.endswith((".location", "credentials.file"))]
    assert len(files) == 4
    for file in files:
        assert str(Path(file).parent) in mounts, file
    # The worker understands them.
    own = Authority("Issuer").issue("shop-tidings-capture")
    for path, text in {
        "rest-tls/keystore.pem": own.key + own.chain,
        "rest-tls/ca.crt": own.chain,
        "rest-users/users.properties": "chart=hush",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    here = {name: value.replace("/run/tidings", str(tmp_path)) for name, value in properties.items()}
    security = read_rest_security(here, {})
    assert security.tls is not None
    assert security.users == {"chart": "hush"}
    # Probes and metrics go to a port without either.
    assert worker["containers"][0]["readinessProbe"]["httpGet"]["port"] == "http"
    (monitor,) = (item for item in manifests if item["kind"] == "ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["port"] == "http"
    environment = {item["name"]: item["value"] for item in job["containers"][0]["env"]}
    assert job["containers"][0]["args"][0] == "https://shop-tidings-capture:8083"
    assert environment["TIDINGS_REGISTER_CA"] == "/run/tidings/rest-ca/ca.crt"
    assert environment["TIDINGS_REGISTER_PASSWORD_FILE"] == "/run/tidings/rest-login/password"
    secrets = {volume["name"]: volume["secret"] for volume in job["volumes"] if "secret" in volume}
    assert [item["key"] for item in secrets["rest-ca"]["items"]] == ["ca.crt"], "not the worker's key"
    assert [item["key"] for item in secrets["rest-login"]["items"]] == ["username", "password"]


def test_a_worker_that_wants_certificates_gets_one_from_the_registration(
    render: Render, tmp_path: Path
) -> None:
    manifests = render("secured", "--set", "capture.rest.tls.clientSecret=registration-tls")
    worker, job = worker_properties(manifests), pod(manifests, "register")
    assert worker["listeners.https.ssl.client.auth"] == "required"
    assert "listeners.https.ssl.client.auth" not in worker_properties(render("secured"))
    environment = {item["name"]: item["value"] for item in job["containers"][0]["env"]}
    assert environment["TIDINGS_REGISTER_CERTIFICATE"] == "/run/tidings/rest-client/tls.crt"
    assert environment["TIDINGS_REGISTER_KEY"] == "/run/tidings/rest-client/tls.key"
    assert "/run/tidings/rest-client" in {m["mountPath"] for m in job["containers"][0]["volumeMounts"]}
    (volume,) = (v["secret"] for v in job["volumes"] if v["name"] == "rest-client")
    assert volume["secretName"] == "registration-tls"
    assert [item["key"] for item in volume["items"]] == ["tls.crt", "tls.key"]


def test_the_worker_takes_every_bound_that_the_values_show(render: Render, chart: Path) -> None:
    lines = (chart / "values.yaml").read_text().splitlines()
    shown = yaml.safe_load("\n".join(line.strip()[1:].strip() for line in lines if "#  tidings." in line))
    assert len(shown) == 7
    values: list[str] = []
    for name, value in shown.items():
        escaped = name.replace(".", "\\.")
        values += "--set-string", f"capture.worker.properties.{escaped}={value}"
    properties = worker_properties(render("minimal", *values))
    assert shown.items() <= properties.items()
    worker = read_worker_config(properties)
    assert not [name for name in worker.unknown if name.startswith("tidings.")]
    assert (worker.most_connectors, worker.most_topics) == (200, 2000)
    assert spool_bounds(worker.connector_properties) == (8 << 30, 1 << 30)
    assert worker.limits == read_limits(properties) != ConnectorLimits()


def worker_properties(manifests: list[dict[str, Any]]) -> dict[str, str]:
    """The worker.properties that the chart makes."""
    (text,) = (
        item["data"]["worker.properties"]
        for item in manifests
        if item["kind"] == "ConfigMap" and "worker.properties" in item["data"]
    )
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_registration_removes_what_is_gone_and_only_its_own(render: Render) -> None:
    manifests = render("full")
    job = pod(manifests, "register")["containers"][0]
    environment = {item["name"]: item["value"] for item in job["env"]}
    assert environment["TIDINGS_REGISTER_OWNER"] == "data/shop"
    assert environment["TIDINGS_REGISTER_ON_REMOVE"] == "keep"
    (connectors,) = (
        item["data"] for item in manifests if item["kind"] == "ConfigMap" and "shop.json" in item["data"]
    )
    assert json.loads(connectors["shop.json"])["tidings.managed.by"] == "data/shop"
    # Without a connector there is still a job: the last one may have been removed.
    assert pod(render("minimal"), "register")
    (hook,) = (item for item in manifests if item["metadata"]["name"].endswith("-unregister"))
    assert hook["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    last = {item["name"]: item["value"] for item in hook["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert last["TIDINGS_REGISTER_UNINSTALL"] == "1"
    dropping = pod(render("secured"), "register")["containers"][0]["env"]
    assert {"name": "TIDINGS_REGISTER_ON_REMOVE", "value": "drop"} in dropping


PLAIN = [
    ({"capture": {"connectors": {"shop": {"connector.class": "X", "database.passwd": "hush"}}}}, "database.passwd"),
    ({"capture": {"connectors": {"shop": {"connector.class": "X", "x.api.key": "hush"}}}}, "x.api.key"),
    ({"capture": {"connectors": {"shop": {"connector.class": "X", "Auth.TOKEN": "hush"}}}}, "Auth.TOKEN"),
    ({"capture": {"connectors": {"shop": {"connector.class": "X", "u": "http://a:hush@b/"}}}}, "shop: u"),
    ({"capture": {"worker": {"properties": {"ssl.key.password": "hush"}}}}, "ssl.key.password"),
    ({"capture": {"worker": {"properties": {"sasl.jaas.config": "x password=hush;"}}}}, "sasl.jaas.config"),
    ({"translator": {"extraEnv": [{"name": "KAFKA_PASSWORD", "value": "hush"}]}}, "translator.extraEnv"),
    (
        {"lakehouse": {"extraEnv": [{"name": "TIDINGS_LAKEHOUSE_SPARK_CONF", "value": "s3.secret-access-key=hush"}]}},
        "lakehouse.extraEnv",
    ),
    ({"lakehouse": {"sparkConf": {"spark.sql.catalog.lake.s3.secret-access-key": "hush"}}}, "s3.secret-access-key"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "named"), PLAIN, ids=[named for _, named in PLAIN])
def test_a_secret_in_values_is_refused_and_not_repeated(
    root: Path, chart: Path, tool: Callable[..., Any], tmp_path: Path, values: dict[str, Any], named: str
) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    minimal = root / "helm/tests/values/minimal.yaml"
    result = tool("helm", "template", "shop", chart, "-f", minimal, "-f", tmp_path / "values.yaml")
    assert result.returncode != 0
    assert named in result.stderr
    assert "hush" not in result.stderr


def test_what_only_says_where_a_secret_is_is_taken(render: Render, tmp_path: Path) -> None:
    values = {
        "capture": {
            "connectors": {
                "shop": {
                    "connector.class": "X",
                    "database.password": "${env:P}",
                    "value.converter.basic.auth.credentials.source": "USER_INFO",
                }
            },
            "worker": {
                "properties": {"sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token"}
            },
        },
        "translator": {
            "extraEnv": [
                {"name": "TIDINGS_KAFKA_SASL_PASSWORD_FILE", "value": "/run/secrets/p"},
                {"name": "TIDINGS_KAFKA_OAUTH_TOKEN_ENDPOINT", "value": "https://login.example.com/token"},
            ]
        },
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    assert render("minimal", "-f", tmp_path / "values.yaml")


@pytest.mark.parametrize("name", ["minimal", "full"])
def test_no_directory_on_a_node_is_without_a_limit(render: Render, name: str) -> None:
    for item in render(name):
        for volume in item.get("spec", {}).get("template", {}).get("spec", {}).get("volumes", []):
            if "emptyDir" in volume:
                assert volume["emptyDir"]["sizeLimit"], item["metadata"]["name"]


@pytest.mark.parametrize(("size", "most"), [("20Gi", 17_179_869_184), ("1.5G", 1_200_000_000)])
def test_a_full_disk_is_the_services_error_before_it_is_the_pods_end(
    render: Render, size: str, most: int
) -> None:
    documents = render("minimal", "--set", f"capture.tmpSize={size},sequencer.tmpSize={size}")
    config = next(item["data"] for item in documents if "worker.properties" in item.get("data", {}))
    assert f"tidings.spool.max.bytes={most}" in config["worker.properties"].splitlines()
    sequencer = next(
        item
        for item in documents
        if item["metadata"]["name"].endswith("-sequencer") and item["kind"] == "StatefulSet"
    )
    env = sequencer["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "TIDINGS_SPILL_MAX_BYTES", "value": str(most)} in env


def test_releases_on_one_kafka_are_groups_of_their_own(
    root: Path, chart: Path, tool: Callable[..., Any]
) -> None:
    def properties(release: str) -> dict[str, str]:
        values = root / "helm/tests/values/minimal.yaml"
        result = tool("helm", "template", release, chart, "-f", values, "-s", "templates/capture-config.yaml")
        config = next(yaml.safe_load_all(result.stdout))["data"]["worker.properties"]
        return dict(line.split("=", 1) for line in config.splitlines())

    one, two = properties("one"), properties("two")
    for name in ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic"):
        assert one[name] != two[name], name
    # As they were before there was a choice, for a release of this name.
    assert properties("tidings")["group.id"] == "tidings-capture"
    assert properties("tidings")["offset.storage.topic"] == "tidings.connect.offsets"


def test_several_workers_with_https_are_refused_with_the_reason(
    root: Path, chart: Path, tool: Callable[..., Any]
) -> None:
    values = root / "helm/tests/values/secured.yaml"
    result = tool("helm", "template", "shop", chart, "-f", values, "--set", "capture.replicas=2")
    assert result.returncode != 0
    assert "which no certificate names" in result.stderr
