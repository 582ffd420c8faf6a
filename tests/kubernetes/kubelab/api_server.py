"""A real kube-apiserver on etcd, with RBAC and Pod Security admission, and requests to it.

Both programs are built from the Go modules by `scripts/tools.sh etcd kube-apiserver` (the latter takes a quarter of an hour).
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tidings_stack.ports import LOOPBACK
from tidings_stack.secured.authority import Authority
from tidings_stack.server import Place, Server

HOST: Final = "kubernetes.default.svc"
ADMIN: Final = "admin-of-the-lab"
_AUDIT: Final = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}


class Refused(Exception):
    """The API server has said no; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Etcd(Server):
    """etcd, for one API server."""

    name = "etcd"
    title = "etcd"

    def __init__(self, place: Place, program: Path) -> None:
        super().__init__(place)
        self._program = program
        self.port, self._peers = place.ports.reserve(), place.ports.reserve()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"http://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        pass

    def _command(self) -> Sequence[str]:
        peers = f"http://{LOOPBACK}:{self._peers}"
        options = {
            "data-dir": str(self.directory / "data"),
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "unsafe-no-fsync": "true",
        }
        return [str(self._program), *(f"--{name}={value}" for name, value in options.items())]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                return bool(json.load(answer)["health"] == "true")
        except OSError:
            return False


class ApiServer(Server):
    """kube-apiserver; nobody runs its pods."""

    name = "kube-apiserver"
    title = "kube-apiserver"

    def __init__(self, place: Place, program: Path, etcd: Etcd) -> None:
        super().__init__(place)
        self._program, self._etcd = program, etcd
        self.port = place.ports.reserve()
        self.authority = Authority("Cluster")
        self._context = ssl.create_default_context(cadata=self.authority.certificate)

    @property
    def url(self) -> str:
        """Where this process connects."""
        return f"https://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        issued = self.authority.issue(HOST, hosts=(HOST, LOOPBACK))
        (self.directory / "tls.crt").write_text(issued.chain)
        (self.directory / "tls.key").write_text(issued.key)
        accounts = self.authority.issue("service-accounts")
        (self.directory / "accounts.key").write_text(accounts.key)
        (self.directory / "accounts.crt").write_text(accounts.certificate)
        (self.directory / "tokens.csv").write_text(f"{ADMIN},admin,admin,system:masters\n")
        (self.directory / "audit.json").write_text(json.dumps(_AUDIT))

    def _command(self) -> Sequence[str]:
        at = self.directory
        options = {
            "etcd-servers": self._etcd.url,
            "bind-address": LOOPBACK,
            "advertise-address": "192.0.2.1",  # of documentation; nobody asks it
            "endpoint-reconciler-type": "none",
            "secure-port": str(self.port),
            "tls-cert-file": str(at / "tls.crt"),
            "tls-private-key-file": str(at / "tls.key"),
            "service-account-issuer": f"https://{HOST}",
            "service-account-key-file": str(at / "accounts.crt"),
            "service-account-signing-key-file": str(at / "accounts.key"),
            "service-cluster-ip-range": "198.51.100.0/24",
            "authorization-mode": "RBAC",
            "token-auth-file": str(at / "tokens.csv"),
            "audit-policy-file": str(at / "audit.json"),
            "audit-log-path": str(at / "audit.log"),
        }
        return [str(self._program), *(f"--{name}={value}" for name, value in options.items())]

    def _is_ready(self) -> bool:
        try:
            self.ask("GET", "/readyz")
        except (OSError, Refused):
            return False
        return True

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = ADMIN,
        content: str = "application/json",
    ) -> Any:
        """The answer to a request.

        Raises:
            Refused: with what the server says.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": content}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._context) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            said = error.read()
            message = json.loads(said).get("message", "") if said.startswith(b"{") else said.decode()
            raise Refused(error.code, message) from error
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def create(self, manifest: dict[str, Any], namespace: str) -> Any:
        """Make what a manifest says; its fields have to be known to the server."""
        version, kind = manifest["apiVersion"], manifest["kind"].lower()
        group = "/api/v1" if version == "v1" else f"/apis/{version}"
        plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
        return self.ask("POST", f"{group}/namespaces/{namespace}/{plural}?fieldValidation=Strict", manifest)

    def token(self, namespace: str, account: str) -> str:
        """One of a service account, as the kubelet asks for it."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return str(self.ask("POST", path, body)["status"]["token"])

    def may(self, token: str, verb: str, resource: str, namespace: str, subresource: str = "") -> bool:
        """Whether the owner of a token may do something."""
        attributes = {"verb": verb, "resource": resource, "namespace": namespace, "subresource": subresource}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return bool(self.ask("POST", path, body, token=token)["status"]["allowed"])

    def asked_by(self, user: str) -> list[tuple[str, str, int]]:
        """Verb, resource and HTTP status of all that a user has asked for until now."""
        found = []
        for line in (self.directory / "audit.log").read_text().splitlines():
            event = json.loads(line)
            if event["user"]["username"] == user and event["stage"] == "ResponseComplete":
                what = event.get("objectRef", {}).get("resource", event["requestURI"])
                found.append((event["verb"], what, event["responseStatus"]["code"]))
        return found
