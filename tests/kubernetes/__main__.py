"""The lakehouse's executors on a real Kubernetes API server: ``python -m tests.kubernetes``, as root, two and a half minutes.

The chart's manifests go to the server, in a namespace that enforces the Pod Security Standard `restricted`. The pod of the chart's
Deployment is made from its template; what its kubelet would start runs here as a process, and so do the executors' pods, which the job has
the server make with its own account's token (`kubelab.kubelet` says what is not as in a cluster). Kafka, registry, S3 and the catalog's
PostgreSQL are real. An executor is killed on the way. Prints what it sees, and ends with 1 when something is not as it should be.

Needs etcd, kube-apiserver and helm, which `scripts/tools.sh etcd kube-apiserver helm` builds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[2] / "services/lakehouse/tests"))
sys.path.insert(0, str(Path(__file__).parent))

from kubelab.api_server import ApiServer, Etcd
from kubelab.chart import DRIVER, NAME, NAMESPACE, ROOT, check_rights, install, prepare, values
from kubelab.kubelet import Kubelet
from kubelab.report import tell
from lakelab.rows import order
from lakelab.topics import TableTopic, Topics

from tidings_jvm import PlainProgress, cache_directory
from tidings_stack.s3 import S3Server
from tidings_stack.stack import Stack
from tidings_stack.tools import built_tool
from tidings_stack.waiting import wait_for

ROWS = 20_000


def tasks(directory: Path) -> Counter[str]:
    """How many tasks have ended well, by executor, of the job's event log."""
    done: Counter[str] = Counter()
    for file in (directory / DRIVER / "lake/events").rglob("*"):
        if file.is_file():
            for line in file.read_text().splitlines():
                if line.startswith('{"Event":"SparkListenerTaskEnd"'):
                    event = json.loads(line)
                    if event["Task End Reason"]["Reason"] == "Success":
                        done[event["Task Info"]["Executor ID"]] += 1
    return done


def running_executors(kubelet: Kubelet) -> list[str]:
    """Names of executors' pods whose process is alive."""
    return [name for name, one in kubelet.running.items() if name != DRIVER and one.process.poll() is None]


def write(table: TableTopic, start: int, end: int) -> None:
    """Rows onto the topic."""
    for number in range(start, end):
        table.change("c", order(number), 10 + number, 10 + number)
    table.topics.flush()


def rows_in_lake(environment: dict[str, str]) -> dict[str, int]:
    """What `tidings-lakehouse tables` says, on this machine."""
    command = [str(ROOT / ".venv/bin/tidings-lakehouse"), "tables", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {}
    items = map(json.loads, done.stdout.splitlines())
    return {item["table"]: int(item["rows"]) for item in items}


def check_executor_pods(kubelet: Kubelet) -> None:
    """What the server has of the pods that the job has had made."""
    for name in running_executors(kubelet):
        pod = kubelet.specs[name]
        [container] = pod["spec"]["containers"]
        assert [*container["command"], *container["args"]] == ["tidings-lakehouse", "executor"], container[
            "args"
        ]
        assert pod["spec"]["serviceAccountName"] == "shop-tidings"
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert not [volume for volume in pod["spec"]["volumes"] if "projected" in volume]
        assert pod["metadata"]["ownerReferences"][0]["name"] == DRIVER
        assert container["resources"]["limits"]["memory"] == "896Mi", container["resources"]
        assert "not-to-be-seen" not in json.dumps(pod), "the store's key"
        assert all(volume["emptyDir"]["sizeLimit"] for volume in pod["spec"]["volumes"])
        tell(f"{name}: {container['resources']['limits']}, {pod['status'].get('qosClass')}")


@contextmanager
def playing(kubelet: Kubelet) -> Iterator[None]:
    """A kubelet that runs; the end of what the job said is shown where something goes wrong."""
    kubelet.start()
    try:
        yield
    except BaseException:
        for name, one in kubelet.running.items():
            print(f"--- {name}\n{one.log.read_text(errors='replace')[-6000:]}")
        raise
    finally:
        kubelet.close()


def run(stack: Stack, api: ApiServer, s3: S3Server, directory: Path) -> None:
    """All of it."""
    parts = urlsplit(stack.pg.url)
    catalog = f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}"
    keys = {"s3.access-key-id": "any", "s3.secret-access-key": "not-to-be-seen"}
    store = "".join(f"spark.sql.catalog.lake.{key}={value}\n" for key, value in keys.items())
    prepare(api, {"lake-catalog": {"password": parts.password or ""}, "lake-store": {"spark.conf": store}})
    pod = install(api, values(stack, s3, api, catalog), directory)
    check_rights(api)
    topics = Topics(stack.kafka.bootstrap, stack.registry.url)
    table = topics.table("shop.public.orders", partitions=2)
    write(table, 0, ROWS)
    kubelet = Kubelet(
        api,
        NAMESPACE,
        directory,
        image={
            "PATH": f"{ROOT}/.venv/bin:/usr/local/bin:/usr/bin:/bin",
            "TIDINGS_CACHE": "/opt/tidings",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "HOME": "/tmp",
        },
        code=ROOT,
        cache=cache_directory(),
    )
    kubelet.hosts[f"{NAME}.{NAMESPACE}.svc"] = "127.0.0.1"
    told = {item["name"]: item["value"] for item in pod["spec"]["containers"][0]["env"] if "value" in item}
    reader = {
        **os.environ,
        # S3Mock sends the whole object's checksum with a part of it, too.
        "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        **{
            name: told[name]
            for name in (
                "TIDINGS_LAKEHOUSE_WAREHOUSE",
                "TIDINGS_LAKEHOUSE_CATALOG",
                "TIDINGS_LAKEHOUSE_CATALOG_USER",
            )
        },
        "TIDINGS_LAKEHOUSE_CATALOG_PASSWORD": parts.password or "",
        "TIDINGS_LAKEHOUSE_SPARK_CONF": f"{store.strip().replace(chr(10), ';')};spark.sql.catalog.lake.s3.endpoint={s3.url}"
        ";spark.sql.catalog.lake.s3.path-style-access=true;spark.sql.catalog.lake.client.region=us-east-1",
    }
    lake = directory / DRIVER / "lake"
    with playing(kubelet):
        api.create(pod, NAMESPACE)
        tell("the pod of the job is admitted by the standard restricted")
        wait_for("the volume of the job", lake.exists, 30)
        (lake / "events").mkdir(exist_ok=True)
        os.chown(lake / "events", 10001, 10001)
        wait_for("two executors' pods", lambda: len(running_executors(kubelet)) == 2 or ended(kubelet), 300)
        tell("the job has had two executors' pods made")
        check_executor_pods(kubelet)
        wait_for("rows", lambda: rows_in_lake(reader).get("technical.orders") == ROWS or ended(kubelet), 400)
        first = tasks(directory)
        tell(f"{ROWS} rows are in the lake; tasks by executor: {dict(first)}")
        assert {"1", "2"} <= set(first), first
        assert "driver" not in first, first
        victim = running_executors(kubelet)[0]
        os.killpg(kubelet.running[victim].process.pid, signal.SIGKILL)
        tell(f"killed {victim}")
        wait_for(
            "a third executor", lambda: len(kubelet.running) == 4 and len(running_executors(kubelet)) == 2, 60
        )
        write(table, ROWS, 2 * ROWS)
        wait_for(
            "more rows",
            lambda: rows_in_lake(reader).get("technical.orders") == 2 * ROWS or ended(kubelet),
            180,
        )
        wait_for("tasks of the new executor", lambda: "3" in tasks(directory), 200)
        tell(f"{2 * ROWS} rows are in the lake; tasks by executor: {dict(tasks(directory))}")
        api.ask("DELETE", f"{kubelet.pods}/{DRIVER}")
        wait_for("the end of all pods", lambda: not api.ask("GET", kubelet.pods)["items"], 300)
        assert kubelet.running[DRIVER].process.returncode == 0
        tell("the pod of the job is deleted: it ends with 0, and has had its executors' pods deleted")
    asked = Counter(api.asked_by(f"system:serviceaccount:{NAMESPACE}:{NAME}"))
    for (verb, resource, status), times in sorted(asked.items()):
        tell(f"the job's account asked: {verb} {resource} -> {status}, {times} times")


def ended(kubelet: Kubelet) -> bool:
    """False; an error when the job has ended."""
    job = kubelet.running.get(DRIVER)
    assert job is None or job.process.poll() is None, "the job has ended"
    return False


def main() -> int:
    """Start what it takes; gives the exit code."""
    etcd, server = built_tool("etcd"), built_tool("kube-apiserver")
    if etcd is None or server is None or built_tool("helm") is None or os.getuid() != 0:
        print(
            "needs root, and etcd, kube-apiserver and helm: scripts/tools.sh etcd kube-apiserver helm",
            file=sys.stderr,
        )
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="tidings-kubernetes-") as name,
        Stack(("pg", "kafka", "registry"), progress=PlainProgress(print)) as stack,
    ):
        Path(name).chmod(0o755)
        store = stack.add(S3Server)
        keeper = stack.add(lambda place: Etcd(place, etcd))
        api = stack.add(lambda place: ApiServer(place, server, keeper))
        tell(f"Kubernetes {api.ask('GET', '/version')['gitVersion']} serves, with RBAC")
        run(stack, api, store, Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
