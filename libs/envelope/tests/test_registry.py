"""The registry client against a real registry, and its one clear sentence where there is none."""

import socket
import subprocess
import sys

import pytest

from tidings_envelope.errors import RegistryError
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
    with pytest.raises(RegistryError, match="schema 999999"):
        client.schema_by_id(999_999)
    with pytest.raises(RegistryError, match=unique_name):
        client.latest(unique_name)
    client.close()


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
    with pytest.raises(RegistryError, match="is no http"):
        RegistryClient("registry:8080")


def test_the_command_line_of_httpx_is_not_loaded() -> None:
    """It would bring rich, click and pygments into every service, where another dependency has installed them."""
    loaded = "import sys, tidings_envelope.registry; print('rich' in sys.modules, 'httpx' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]
