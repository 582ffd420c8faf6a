"""The chart's manifests on the API server, what stands beside them in the namespace, and what the job's account may do there."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml
from kubelab.api_server import HOST, ApiServer, Refused
from kubelab.report import tell

from tidings_stack.s3 import S3Server
from tidings_stack.stack import Stack
from tidings_stack.tools import built_tool

ROOT = Path(__file__).parents[3]
NAMESPACE, NAME, DRIVER = "data", "shop-tidings-lakehouse", "shop-tidings-lakehouse-0"
EVENTS = "/var/lib/tidings/events"


def values(stack: Stack, s3: S3Server, api: ApiServer, catalog: str) -> dict[str, Any]:
    """Of the chart."""
    lake = "spark.sql.catalog.lake"
    return {
        "kafka": {"bootstrapServers": stack.kafka.bootstrap},
        "registry": {"url": stack.registry.url},
        "source": "shop",
        **{name: {"enabled": False} for name in ("capture", "sequencer", "translator")},
        "lakehouse": {
            "warehouse": f"s3://{s3.bucket}/lake",
            "catalog": {"uri": catalog, "user": "postgres", "existingSecret": "lake-catalog"},
            "sparkSecret": "lake-store",
            "sparkConf": {
                f"{lake}.s3.endpoint": s3.url,
                f"{lake}.s3.path-style-access": "true",
                f"{lake}.client.region": "us-east-1",
                "spark.eventLog.enabled": "true",
                "spark.eventLog.compress": "false",
                "spark.eventLog.dir": f"file://{EVENTS}",
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            },
            "heap": "768m",
            "executors": {
                "instances": 2,
                "cores": 1,
                "memory": "512m",
                "memoryOverhead": "384m",
                "apiServer": f"https://{HOST}:{api.port}",
            },
            # Small batches are written by the driver alone.
            "extraEnv": [{"name": "TIDINGS_LAKEHOUSE_SMALL_RECORDS", "value": "0"}],
        },
    }


def install(api: ApiServer, given: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Give the server what Helm makes of the chart; returns the pod that the Deployment's controller would make."""
    file = directory / "values.yaml"
    file.write_text(yaml.safe_dump(given))
    helm = built_tool("helm")
    assert helm is not None
    command: list[str | Path] = [
        helm,
        "template",
        "shop",
        ROOT / "helm/tidings",
        "--namespace",
        NAMESPACE,
        "--values",
        file,
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    manifests = [item for item in yaml.safe_load_all(text) if item]
    for item in manifests:
        api.create(item, NAMESPACE)
    tell("the API server took " + ", ".join(sorted({item["kind"] for item in manifests})))
    [deployment] = [item for item in manifests if item["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": DRIVER, **template["metadata"]},
        "spec": template["spec"],
    }


def prepare(api: ApiServer, secrets: dict[str, dict[str, str]]) -> None:
    """The namespace, and what others have made there."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}})
    root = {"ca.crt": api.authority.certificate}
    api.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}, "data": root},
        NAMESPACE,
    )
    for name, data in secrets.items():
        api.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}, NAMESPACE
        )


def check_rights(api: ApiServer) -> None:
    """That the job's account may do what it needs, and that the server refuses what it does not."""
    token = api.token(NAMESPACE, NAME)
    for verb in ("create", "get", "list", "watch", "delete", "deletecollection"):
        assert api.may(token, verb, "pods", NAMESPACE), verb
        assert not api.may(token, verb, "pods", "default"), verb
        for resource in ("secrets", "configmaps", "services", "serviceaccounts", "roles"):
            assert not api.may(token, verb, resource, NAMESPACE), (verb, resource)
    assert not api.may(token, "create", "pods", NAMESPACE, "exec")
    assert not api.may(api.token(NAMESPACE, "shop-tidings"), "get", "pods", NAMESPACE), (
        "the executors' account"
    )
    for path, body in [
        (f"/api/v1/namespaces/{NAMESPACE}/secrets", None),
        (f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "x"}}),
        ("/api/v1/namespaces/default/pods", None),
    ]:
        try:
            api.ask("GET" if body is None else "POST", path, body, token=token)
        except Refused as refused:
            assert refused.status == 403, path  # noqa: PT017 - not a test of pytest's
        else:
            raise AssertionError(f"{path} was let through")
    tell("the job's account may handle pods of its namespace, and is refused all else that was tried")
