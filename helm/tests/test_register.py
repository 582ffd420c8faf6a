"""The registration of connectors against a worker that answers as told."""

import base64
import json
import ssl
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from tidings_stack.secured.authority import Authority


class Worker(BaseHTTPRequestHandler):
    """A capture worker's REST API, as far as the registration needs it."""

    configs: ClassVar[dict[str, Any]] = {}
    busy: ClassVar[list[int]] = []
    states: ClassVar[list[str]] = []
    wants: ClassVar[str] = ""

    def do_PUT(self) -> None:
        if self._refused():
            return None
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.busy:
            return self._answer(self.busy.pop(0), {"message": "rebalancing"})
        if "connector.class" not in body:
            return self._answer(400, {"error_code": 400, "message": "connector.class is missing"})
        self.configs[self.path] = body
        return self._answer(201, {})

    def do_GET(self) -> None:
        if self._refused():
            return None
        if self.path == "/connectors?expand=info":
            return self._answer(200, {})
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        tasks = [{"id": 0, "state": state, **({"trace": "slot is in use"} if state == "FAILED" else {})}]
        return self._answer(200, {"connector": {"state": "RUNNING"}, "tasks": tasks})

    def _refused(self) -> bool:
        refused = bool(self.wants) and self.headers.get("Authorization") != self.wants
        if refused:
            self._answer(401, {"message": "who are you?"})
        return refused

    def _answer(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """IdleTimeout."""


@pytest.fixture
def authority() -> Authority:
    """Signs the worker's certificate."""
    return Authority("Issuer")


@pytest.fixture(params=["http", "https", "mutual"])
def register(chart: Path, tmp_path: Path, request: pytest.FixtureRequest, authority: Authority) -> Any:
    """Runs the registration against a worker that answers as told; returns its outcome and what was configured.

    With https also with a password, `mutual` also with certificates of clients.
    """
    scheme = "http" if request.param == "http" else "https"
    server = HTTPServer(("127.0.0.1", 0), Worker)
    login = {}
    Worker.wants = ""
    if request.param != "http":
        own = authority.issue("worker")
        for name, text in {"own.pem": own.key + own.chain, "ca.crt": authority.certificate}.items():
            (tmp_path / name).write_text(text)
        for name, text in {"username": "chart", "password": "hush\n"}.items():
            (tmp_path / name).write_text(text)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "own.pem")
        if request.param == "mutual":
            context.load_verify_locations(tmp_path / "ca.crt")
            context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Worker.wants = f"Basic {base64.b64encode(b'chart:hush').decode()}"
        login = {
            "TIDINGS_REGISTER_CA": str(tmp_path / "ca.crt"),
            "TIDINGS_REGISTER_USER_FILE": str(tmp_path / "username"),
            "TIDINGS_REGISTER_PASSWORD_FILE": str(tmp_path / "password"),
        }
    if request.param == "mutual":
        client = authority.issue("registration")
        for name, text in {"tls.crt": client.chain, "tls.key": client.key}.items():
            (tmp_path / name).write_text(text)
        login |= {
            "TIDINGS_REGISTER_CERTIFICATE": str(tmp_path / "tls.crt"),
            "TIDINGS_REGISTER_KEY": str(tmp_path / "tls.key"),
        }
    thread = Thread(target=server.serve_forever)
    thread.start()

    def run(
        config: dict[str, str], *, busy: tuple[int, ...] = (), states: tuple[str, ...] = ("RUNNING",)
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        Worker.configs, Worker.busy, Worker.states = {}, list(busy), list(states)
        (tmp_path / "shop.json").write_text(json.dumps(config))
        program = chart / "files/register_connector.py"
        address = f"{scheme}://127.0.0.1:{server.server_port}"
        environment = {"TIDINGS_REGISTER_SECONDS": "20", "DATABASE_PASSWORD": "from the secret", **login}
        result = subprocess.run(
            [sys.executable, program, address, tmp_path],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return result, Worker.configs

    yield run
    server.shutdown()
    thread.join(10)
    server.server_close()


def test_registration_leaves_secrets_to_the_worker_and_waits_for_the_task(register: Any) -> None:
    config = {"connector.class": "X", "database.password": "${env:DATABASE_PASSWORD}"}
    result, configured = register(config, busy=(409,), states=("UNASSIGNED", "RUNNING"))
    assert result.returncode == 0, result.stderr
    assert configured == {"/connectors/shop/config": config}
    assert "from the secret" not in result.stdout + result.stderr


def test_registration_reports_a_failed_task(register: Any) -> None:
    result, _ = register({"connector.class": "X"}, states=("FAILED",))
    assert result.returncode == 1
    assert "shop: FAILED: slot is in use" in result.stderr


def test_registration_reports_what_the_worker_refuses(register: Any) -> None:
    result, _ = register({"tasks.max": "1"})
    assert result.returncode == 1
    assert "shop: 400" in result.stderr
    assert "connector.class is missing" in result.stderr
