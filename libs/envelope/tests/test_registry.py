"""The registry client against a real registry, and its one clear sentence where there is none."""

import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tidings_envelope.errors import RegistryError, UnknownSchemaError
from tidings_envelope.registry import RegistryClient

SCHEMA = '{"type":"record","name":"T","namespace":"a","fields":[{"name":"id","type":"long"}]}'
WIDER = {
    "type": "record",
    "name": "T",
    "namespace": "a",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
INCOMPATIBLE = '{"type":"record","name":"T","namespace":"a","fields":[{"name":"id","type":"string"}]}'


def test_schemas_are_registered_once_and_read_back(registry_url: str, unique_name: str) -> None:
    client = RegistryClient(registry_url)
    subject = f"{unique_name}-value"
    first = client.register(subject, SCHEMA)
    assert client.register(subject, SCHEMA) == first
    with RegistryClient(registry_url) as another:
        assert another.register(subject, SCHEMA) == first
    assert client.schema_by_id(first)["name"] == "a.T"
    second = client.register(subject, WIDER)
    assert second != first
    latest_id, latest = client.latest(subject)
    assert (latest_id, [field["name"] for field in latest["fields"]]) == (second, ["id", "note"])
    client.close()


def test_a_text_whose_default_is_an_empty_json_object_is_taken(registry_url: str, unique_name: str) -> None:
    """As a jsonb column has it with ``DEFAULT '{}'``."""
    schema = {
        "type": "record",
        "name": "Settings",
        "fields": [
            {"name": "attributes", "type": {"type": "string", "connect.default": "{}"}, "default": "{}"}
        ],
    }
    with RegistryClient(registry_url) as registry:
        known = registry.register(f"{unique_name}-value", schema)
        assert registry.register(f"{unique_name}-value", schema) == known
        (field,) = registry.schema_by_id(known)["fields"]
        assert field["default"] == "{}"
        assert field["type"]["connect.default"] == "{}"


def test_an_incompatible_schema_is_refused_by_subject(registry_url: str, unique_name: str) -> None:
    client = RegistryClient(registry_url)
    subject = f"{unique_name}-value"
    client.register(subject, SCHEMA)
    client.set_compatibility(subject, "FULL_TRANSITIVE")
    with pytest.raises(RegistryError, match=subject):
        client.register(subject, INCOMPATIBLE)
    client.close()


def test_an_unknown_id_and_an_unknown_subject_are_errors(registry_url: str, unique_name: str) -> None:
    client = RegistryClient(registry_url)
    with pytest.raises(UnknownSchemaError, match="schema 999999"):
        client.schema_by_id(999_999)
    with pytest.raises(RegistryError, match=unique_name):
        client.latest(unique_name)
    client.close()


class Answer(http.server.BaseHTTPRequestHandler):
    """What a proxy or a wrong path answers."""

    status, body = 200, b"<html>please log in</html>"

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


def refusal(status: int, body: bytes, authorization: Callable[[], str] | None = None) -> RegistryError:
    """What a client makes of this answer."""
    handler = type("Handler", (Answer,), {"status": status, "body": body})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            with (
                RegistryClient(url, timeout_seconds=5, authorization=authorization) as client,
                pytest.raises(RegistryError) as caught,
            ):
                client.schema_by_id(7)
        finally:
            server.shutdown()
            thread.join()
    return caught.value


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>please log in</html>"), (404, b"<html>not here</html>"), (401, b"{}"), (403, b"{}")],
)
def test_somebody_else_s_answer_does_not_say_that_the_schema_is_unknown(status: int, body: bytes) -> None:
    """That would make a dead letter of each record; it is the way to the registry that is to be mended."""
    assert not isinstance(refusal(status, body), UnknownSchemaError)


def test_a_login_that_may_change_is_tried_again() -> None:
    """The registry may have the new password before the file has it; a right that is missing is a person's to give."""
    assert refusal(401, b"{}", lambda: "Basic x").retry == "timed"
    assert refusal(401, b"{}").retry == "manual"
    assert refusal(403, b"{}", lambda: "Basic x").retry == "manual"


def test_an_unreachable_registry_is_named() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    client = RegistryClient(f"http://127.0.0.1:{port}/apis/ccompat/v7", timeout_seconds=1)
    with pytest.raises(RegistryError, match=f"127.0.0.1:{port}.*is not reachable") as caught:
        client.register("s", SCHEMA)
    assert caught.value.retry == "timed"
    assert caught.value.hint is not None
    assert "TIDINGS_REGISTRY" in caught.value.hint
    client.close()


def test_an_address_that_is_no_url_is_refused() -> None:
    with pytest.raises(RegistryError, match="is not an http"):
        RegistryClient("registry:8080")


def test_the_command_line_of_httpx_is_not_loaded() -> None:
    """It would bring rich, click and pygments into every service, where another dependency has installed them."""
    loaded = "import sys, tidings_envelope.registry; print('rich' in sys.modules, 'httpx' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]


OAUTH = """
import sys
import tidings_envelope.registry as ours
print([name for name in ("authlib", "joserfc", "cryptography") if name in sys.modules])
settings = {"bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.issuer.endpoint.url": "http://127.0.0.1:1/token"}
for name in ("client.id", "client.secret", "scope", "logical.cluster", "identity.pool.id"):
    settings[f"bearer.auth.{name}"] = "x"
ours.RegistryClient("http://127.0.0.1:1", settings=settings)
print("authlib.integrations.httpx_client" in sys.modules)
"""


def test_oauth_s_libraries_are_loaded_by_whoever_logs_in_with_it_only() -> None:
    """They were a tenth of the time that a service takes to start."""
    done = subprocess.run([sys.executable, "-c", OAUTH], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[]", "True"], done.stderr
