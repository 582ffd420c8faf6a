"""The lakehouse's executors in pods of their own: what the job may do, what it is told, and what is refused.

That pods are made so and run batches is seen by hand, on a real API server: `python -m tests.kubernetes`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Manifests = list[dict[str, Any]]
Render = Callable[..., Manifests]
NAME = "shop-tidings-lakehouse"
COMPONENT = "app.kubernetes.io/component"
pytestmark = pytest.mark.tools


def named(manifests: Manifests, kind: str, name: str = NAME) -> dict[str, Any]:
    """The manifest of a kind and a name."""
    (found,) = (item for item in manifests if (item["kind"], item["metadata"]["name"]) == (kind, name))
    return found


def environment(manifests: Manifests) -> dict[str, str]:
    """What the job is told."""
    (container,) = named(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value") for item in container["env"]}


def settings(manifests: Manifests) -> dict[str, str]:
    """Spark's settings."""
    entries = environment(manifests)["TIDINGS_LAKEHOUSE_SPARK_CONF"].split(";")
    return dict(entry.split("=", 1) for entry in entries)


def rules(manifests: Manifests, name: str, way: str) -> set[tuple[tuple[str, ...], tuple[int | str, ...]]]:
    """Components of this chart that a policy names, with the ports."""
    peers = {"ingress": "from", "egress": "to"}[way]
    return {
        (
            tuple(peer["podSelector"]["matchLabels"][COMPONENT] for peer in rule[peers]),
            tuple(port["port"] for port in rule["ports"]),
        )
        for rule in named(manifests, "NetworkPolicy", name)["spec"][way]
        if "podSelector" in rule.get(peers, [{}])[0]
    }


def test_the_job_may_make_pods_in_its_namespace_and_nothing_else(render: Render) -> None:
    manifests = render("executors")
    pod = named(manifests, "Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == NAME
    (rule,) = named(manifests, "Role")["rules"]
    assert (rule["apiGroups"], rule["resources"]) == ([""], ["pods"])
    assert not {"*", "update", "patch"} & set(rule["verbs"])
    binding = named(manifests, "RoleBinding")
    assert binding["roleRef"]["name"] == NAME
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "data"}]
    assert not [item for item in manifests if item["kind"].startswith("Cluster")]
    # Both read and write the store, by the role of their accounts.
    for account in (NAME, "shop-tidings"):
        assert named(manifests, "ServiceAccount", account)["metadata"]["annotations"] == {
            "example.com/role": "tidings-lake"
        }


def test_executors_are_of_the_jobs_image_and_without_a_token(render: Render) -> None:
    manifests = render("executors", "--set", "imageRegistry=images.example.com")
    conf = settings(manifests)
    pod = named(manifests, "Deployment")["spec"]["template"]["spec"]
    assert conf["spark.kubernetes.executor.container.image"] == pod["containers"][0]["image"]
    assert conf["spark.kubernetes.authenticate.executor.serviceAccountName"] == "shop-tidings"
    assert conf["spark.kubernetes.namespace"] == "data"
    assert conf["spark.kubernetes.driver.pod.name"] == "$(TIDINGS_POD)"
    names = [item["name"] for item in pod["containers"][0]["env"]]
    # Kubernetes knows a variable in those that stand behind it.
    assert names.index("TIDINGS_POD") < names.index("TIDINGS_LAKEHOUSE_SPARK_CONF")
    assert environment(manifests)["TIDINGS_LAKEHOUSE_MASTER"] == "k8s://https://kubernetes.default.svc"
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    template = Path(conf["spark.kubernetes.executor.podTemplateFile"])
    assert mounts["executors"] == str(template.parent)
    executor = yaml.safe_load(named(manifests, "ConfigMap", f"{NAME}-executors")["data"][template.name])
    (container,) = executor["spec"]["containers"]
    assert container["name"] == conf["spark.kubernetes.executor.podTemplateContainerName"]
    assert container["command"] == ["tidings-lakehouse"], "Spark adds the argument: executor"
    assert executor["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert executor["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert all(volume["emptyDir"]["sizeLimit"] for volume in executor["spec"]["volumes"])
    # A selector of the job's must not find the executors.
    selector = named(manifests, "Deployment")["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= executor["metadata"]["labels"].items()


def test_sparks_settings_of_the_values_count_more(render: Render) -> None:
    conf = settings(render("executors"))
    assert conf["spark.executor.memory"] == "3g"
    assert (conf["spark.executor.instances"], conf["spark.executor.cores"]) == ("3", "2")
    assert (conf["spark.authenticate"], conf["spark.network.crypto.enabled"]) == ("true", "true")


def test_the_job_and_its_executors_reach_one_another(render: Render) -> None:
    manifests = render("executors")
    conf = settings(manifests)
    service = named(manifests, "Service")
    assert conf["spark.driver.host"] == f"{NAME}.data.svc"
    assert service["spec"]["clusterIP"] == "None"
    driver, blocks = int(conf["spark.driver.port"]), int(conf["spark.blockManager.port"])
    assert {driver, blocks} < {port["port"] for port in service["spec"]["ports"]}
    executor = "lakehouse-executor"
    assert rules(manifests, NAME, "ingress") == {((executor,), ("driver", "blocks"))}
    assert rules(manifests, NAME, "egress") == {((executor,), (blocks,))}
    assert rules(manifests, f"{NAME}-executor", "ingress") == {(("lakehouse", executor), (blocks,))}
    assert rules(manifests, f"{NAME}-executor", "egress") == {
        (("lakehouse",), (driver, blocks)),
        ((executor,), (blocks,)),
    }
    ways = {
        name: {
            port["port"]
            for rule in named(manifests, "NetworkPolicy", name)["spec"]["egress"]
            for port in rule["ports"]
        }
        for name in (NAME, f"{NAME}-executor")
    }
    assert 6443 in ways[NAME], "the API server"
    assert {9092, 443} < ways[f"{NAME}-executor"], "Kafka and the store"
    assert not {6443, 8080} & ways[f"{NAME}-executor"], "neither the API server nor the registry"


def test_pods_of_new_values_take_the_place_of_the_old_ones(render: Render) -> None:
    def annotations(*arguments: str) -> dict[str, str]:
        template = named(render("executors", *arguments), "Deployment")["spec"]["template"]
        return dict(template["metadata"]["annotations"])

    assert annotations("--set", "lakehouse.executors.tmpSize=1Gi") != annotations()
    assert annotations("--set", "lakehouse.podAnnotations.x=y").items() > annotations().items()


def test_without_executors_there_is_no_right_and_no_way(render: Render) -> None:
    manifests = render("executors", "--set", "lakehouse.executors.instances=0")
    assert not {item["kind"] for item in manifests} & {"Role", "RoleBinding"}
    assert named(manifests, "Deployment")["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert environment(manifests)["TIDINGS_LAKEHOUSE_MASTER"] == "local[2]"
    assert not [name for name in settings(manifests) if "kubernetes" in name]
    assert "executor" not in str(named(manifests, "NetworkPolicy"))


REFUSED = {
    "lakehouse.warehouse=/var/lib/lake": "lakehouse.warehouse: /var/lib/lake is a directory of one pod",
    "lakehouse.warehouse=file:///lake": "lakehouse.warehouse: file:///lake is a directory of one pod",
    "lakehouse.catalog.uri=": "lakehouse.catalog.uri: a catalog that is not a file",
    "lakehouse.catalog.uri=jdbc:sqlite:/lake/catalog.db": "lakehouse.catalog.uri: a catalog that is not a file",
    "lakehouse.master=spark://host:7077": "lakehouse.master: spark://host:7077",
    "serviceAccount.create=false": "lakehouse.executors.serviceAccount: the job's account",
    "kafka.security.mechanism=OAUTHBEARER,kafka.security.existingSecret=x": "kafka.security.mechanism: executors cannot",
}


@pytest.mark.parametrize("given", REFUSED)
def test_what_cannot_work_is_refused_with_the_reason(
    root: Path, chart: Path, tool: Callable[..., Any], given: str
) -> None:
    values = root / "helm/tests/values/executors.yaml"
    result = tool("helm", "template", "shop", chart, "-n", "data", "-f", values, "--set", given)
    assert result.returncode != 0
    assert "lakehouse.executors.instances above 0 needs:" in result.stderr
    assert REFUSED[given] in result.stderr


def test_accounts_that_are_there(render: Render) -> None:
    given = ("--set", "serviceAccount.create=false,lakehouse.executors.serviceAccount=lake-driver")
    manifests = render("executors", *given, "--set", "serviceAccount.name=lake")
    assert not [item for item in manifests if item["kind"] == "ServiceAccount"]
    assert named(manifests, "RoleBinding")["subjects"][0]["name"] == "lake-driver"
    assert settings(manifests)["spark.kubernetes.authenticate.executor.serviceAccountName"] == "lake"


def test_a_catalog_by_sparks_settings_is_one(render: Render) -> None:
    assert render(
        "executors",
        *(
            "--set",
            "lakehouse.catalog.uri=",
            "--set",
            r"lakehouse.sparkConf.spark\.sql\.catalog\.lake\.type=glue",
        ),
    )
