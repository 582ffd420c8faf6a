"""Plays the kubelet: what the API server has as a pod runs here as a process.

A pod's container is this machine's files, read-only, under a root of its own (an overlay in a mount namespace), with the pod's volumes, its
user and its environment, and nothing else of this process's. All share the machine's network: each pod has an address of 127.0.0.0/8, and
the names of Services are in its /etc/hosts. So there is no scheduler, no image, no cgroup, no seccomp and no network policy.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubelab.api_server import HOST, ApiServer, Refused

_SCRIPT: Final = Path(__file__).with_name("container.sh")
_PATCH: Final = "application/merge-patch+json"
_LOOK_SECONDS: Final = 0.3


@dataclass
class Running:
    """A pod's process."""

    process: subprocess.Popen[bytes]
    log: Path
    told_to_end: bool = False


class Kubelet:
    """Runs every pod of a namespace until it is closed.

    Args:
        directory: for volumes and logs.
        image: environment that the image sets.
        code: the directory that stays visible where it is, below a pod's own /tmp.
        cache: what the image has at /opt/tidings.
    """

    def __init__(
        self,
        api: ApiServer,
        namespace: str,
        directory: Path,
        *,
        image: dict[str, str],
        code: Path,
        cache: Path,
    ) -> None:
        self._api, self._namespace, self._directory = api, namespace, directory
        self._image, self._code, self._cache = image, code, cache
        self._addresses = iter(range(2, 255))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="kubelet")
        self.running: dict[str, Running] = {}
        self.specs: dict[str, dict[str, Any]] = {}
        """Of all pods that there have been, as the API server had them."""
        self.hosts: dict[str, str] = {HOST: "127.0.0.1"}

    def start(self) -> None:
        """Begin to run pods."""
        self._thread.start()

    def close(self) -> None:
        """End all processes."""
        self._stop.set()
        self._thread.join(60)
        for one in self.running.values():
            if one.process.poll() is None:
                os.killpg(one.process.pid, signal.SIGKILL)
                one.process.wait(20)

    @property
    def pods(self) -> str:
        """Path of the namespace's pods."""
        return f"/api/v1/namespaces/{self._namespace}/pods"

    def _look(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            for pod in self._api.ask("GET", self.pods)["items"]:
                try:
                    self._care(pod)
                except Refused as refused:
                    if refused.status != 404:  # somebody else has deleted it
                        raise

    def _care(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        one = self.running.get(name)
        ended = one is not None and one.process.poll() is not None
        if "deletionTimestamp" in pod["metadata"]:
            if one is not None and not ended:
                if not one.told_to_end:
                    one.process.terminate()  # the script has become the pod's command
                    one.told_to_end = True
            else:
                self._api.ask("DELETE", f"{self.pods}/{name}?gracePeriodSeconds=0")
        elif one is None:
            self._run(pod)
        elif ended and pod["status"]["phase"] == "Running":
            self._say(name, "Succeeded" if one.process.returncode == 0 else "Failed", one.process.returncode)

    def _run(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        self.specs[name] = pod
        address = f"127.0.1.{next(self._addresses)}"
        [container] = pod["spec"]["containers"]
        at = self._directory / name
        at.mkdir()
        mounts = []
        for mount in container["volumeMounts"]:
            source = at / mount["name"]
            if not source.exists():
                source.mkdir()
                [volume] = [item for item in pod["spec"]["volumes"] if item["name"] == mount["name"]]
                self._fill(source, volume, pod)
            mode = "ro" if mount.get("readOnly") else "rw"
            mounts.append(f"{source}:{mount['mountPath']}:{mode}")
        (at / "hosts").write_text(
            f"127.0.0.1 localhost\n{address} {name}\n"
            + "".join(f"{of} {host}\n" for host, of in self.hosts.items())
        )
        context = pod["spec"]["securityContext"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        user = f"{context['runAsUser']}:{context['runAsGroup']}"
        command = [*container.get("command", ["tidings-lakehouse"]), *container.get("args", [])]
        log = at / "log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["unshare", "--mount", "--uts", "sh", str(_SCRIPT), name, user, str(self._code), str(self._cache), str(at / "hosts"),
                 str(len(mounts)), *mounts, *command],
                env=self._image | self._environment(container, pod, address),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                process_group=0,
            )  # fmt: skip
        self.running[name] = Running(process, log)
        # As a scheduler does: a pod that has no node is removed by the API server at once.
        node = {"apiVersion": "v1", "kind": "Node", "name": "this-machine"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": node}
        self._api.ask("POST", f"{self.pods}/{name}/binding", binding)
        self._say(name, "Running", None, address)

    def _say(self, name: str, phase: str, code: int | None, address: str | None = None) -> None:
        state = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
        status: dict[str, Any] = {
            "phase": phase,
            "containerStatuses": [
                {"name": self.specs[name]["spec"]["containers"][0]["name"], "ready": code is None, "state": state,
                 "image": "", "imageID": "", "restartCount": 0}
            ],
            "conditions": [{"type": "Ready", "status": str(code is None)}],
        }  # fmt: skip
        if address is not None:
            status |= {"podIP": address, "podIPs": [{"ip": address}]}
        self._api.ask("PATCH", f"{self.pods}/{name}/status", {"status": status}, content=_PATCH)

    def _environment(self, container: dict[str, Any], pod: dict[str, Any], address: str) -> dict[str, str]:
        found = {"KUBERNETES_SERVICE_HOST": HOST, "KUBERNETES_SERVICE_PORT": str(self._api.port)}
        fields = {"metadata.name": pod["metadata"]["name"], "status.podIP": address}
        for item in container.get("env", []):
            if "valueFrom" not in item:
                value = re.sub(
                    r"\$\((\w+)\)", lambda match: found.get(match[1], match[0]), item.get("value", "")
                )
            elif "fieldRef" in item["valueFrom"]:
                value = fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
            else:
                of = item["valueFrom"]["secretKeyRef"]
                value = self._secret(of["name"])[of["key"]]
            found[item["name"]] = value
        return found

    def _secret(self, name: str) -> dict[str, str]:
        data = self._api.ask("GET", f"/api/v1/namespaces/{self._namespace}/secrets/{name}")["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def _config(self, name: str) -> dict[str, str]:
        path = f"/api/v1/namespaces/{self._namespace}/configmaps/{name}"
        return dict(self._api.ask("GET", path)["data"])

    def _fill(self, directory: Path, volume: dict[str, Any], pod: dict[str, Any]) -> None:
        files: dict[str, str] = {}
        if "configMap" in volume:
            files = self._config(volume["configMap"]["name"])
        elif "secret" in volume:
            files = self._secret(volume["secret"]["secretName"])
        elif "projected" in volume:
            account = pod["spec"]["serviceAccountName"]
            files = {
                "token": self._api.token(self._namespace, account),
                "ca.crt": self._config("kube-root-ca.crt")["ca.crt"],
                "namespace": self._namespace,
            }
        else:
            assert "emptyDir" in volume or "persistentVolumeClaim" in volume, volume
        for name, text in files.items():
            (directory / name).write_text(text)
        for path in (directory, *directory.iterdir()):
            os.chown(path, 10001, 10001)
