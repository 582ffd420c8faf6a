"""What the registry's password is given to, and what an answer may be: tiny HTTP servers that answer as they like."""

import io
import json
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from tidings_client import ClientError
from tidings_client.decoding import Decoder
from tidings_client.registry import Registry, _Redirects

SCHEMA = b'{"schema": "{\\"type\\": \\"record\\", \\"name\\": \\"A\\", \\"fields\\": []}"}'


@dataclass
class Plain:
    a: list[None]


class Answering(BaseHTTPRequestHandler):
    """Answers as its server was told, and notes who was asked with which login."""

    answers: ClassVar[dict[int, tuple[int, dict[str, str], bytes]]] = {}
    logins: ClassVar[list[tuple[int, str | None]]] = []

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        self.logins.append((port, self.headers.get("Authorization")))
        status, headers, body = self.answers[port]
        if headers.get("Location") == "/there" and len([one for one in self.logins if one[0] == port]) > 1:
            status, headers, body = 200, {}, SCHEMA
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def servers() -> Iterator[list[int]]:
    """The ports of two."""
    made = [ThreadingHTTPServer(("127.0.0.1", 0), Answering) for _ in range(2)]
    threads = [threading.Thread(target=one.serve_forever, args=(0.01,)) for one in made]
    for thread in threads:
        thread.start()
    Answering.logins.clear()
    yield [one.server_address[1] for one in made]
    for one, thread in zip(made, threads, strict=True):
        one.shutdown()
        thread.join()
        one.server_close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_password_goes_to_no_other_server(servers: list[int], host: str) -> None:
    ours, other = servers
    Answering.answers = {
        ours: (302, {"Location": f"http://{host}:{other}/elsewhere"}, b""),
        other: (401, {}, b""),
    }
    with pytest.raises(ClientError) as refused:
        Registry(f"http://me:sesame@127.0.0.1:{ours}").latest("a.b.v1")
    assert [login for port, login in Answering.logins if port == other] == [None]
    assert f"{host}:{other}" in str(refused.value)
    assert "not given" in str(refused.value)
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "goes_along"),
    [
        ("https://registry/b", True),
        ("https://registry:443/b", True),
        ("http://registry/b", False),
        ("http://registry:443/b", False),
        ("https://registry:8443/b", False),
        ("https://registry.evil.example/b", False),
        ("https://registry@evil.example/b", False),
    ],
)
def test_where_the_password_goes_along_to(url: str, goes_along: bool) -> None:
    request = urllib.request.Request("https://registry/a", headers={"Authorization": "Basic x"})
    following = _Redirects().redirect_request(request, io.BytesIO(), 302, "Found", HTTPMessage(), url)
    assert following is not None
    assert following.has_header("Authorization") == goes_along


def test_the_password_goes_along_on_the_same_server(servers: list[int]) -> None:
    ours, _ = servers
    Answering.answers = {ours: (302, {"Location": "/there"}, b"")}
    assert Registry(f"http://me:sesame@127.0.0.1:{ours}").latest("a.b.v1")["name"] == "A"
    assert [login is not None for _, login in Answering.logins] == [True, True]


def test_a_server_without_a_password_may_send_on_elsewhere(servers: list[int]) -> None:
    ours, other = servers
    Answering.answers = {
        ours: (302, {"Location": f"http://127.0.0.1:{other}/"}, b""),
        other: (200, {}, SCHEMA),
    }
    assert Registry(f"http://127.0.0.1:{ours}").latest("a.b.v1")["name"] == "A"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((302, {"Location": "file:///etc/passwd"}, b""), "answers 302"),
        ((302, {"Location": "ftp://127.0.0.1/x"}, b""), "answers 302"),
        ((200, {}, b"[" * 100_000), "is not a schema"),
        ((200, {}, b"[]"), "is not a schema"),
        ((200, {}, b"{}"), "is not a schema"),
        ((200, {}, b'{"schema": 7}'), "is not a schema"),
        ((200, {}, b'{"schema": "{"}'), "is not a schema"),
        ((200, {}, b"\xff"), "is not a schema"),
        ((200, {}, b" " * (11 << 20)), "is not a schema"),
        ((200, {}, b'{"schemaType": "PROTOBUF", "schema": "{}"}'), "is not a schema"),
    ],
)
def test_an_answer_that_is_no_schema(servers: list[int], answer: Any, says: str) -> None:
    ours, _ = servers
    Answering.answers = {ours: answer}
    registry = Registry(f"http://127.0.0.1:{ours}")
    for ask in (lambda: registry.latest("a.b.v1"), lambda: registry.schema(1)):
        with pytest.raises(ClientError, match=says) as refused:
            ask()
        assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "schema",
    ['{"type": "record", "name": "A", "fields": [{"name": "a", "type": "double", "default": 1%s}]}' % ("0" * 400),
     '{"type": "record", "name": "A", "fields": 7}', '{"type": "no.such"}', "7", '[{"type": "array"}]',
     '{"type": "array", "items": ' * 500 + '"int"' + "}" * 500, '{"type": "record", "fields": []}'],
)  # fmt: skip
def test_a_schema_that_is_none(servers: list[int], schema: str) -> None:
    ours, _ = servers
    Answering.answers = {ours: (200, {}, json.dumps({"schema": schema}).encode())}
    with pytest.raises(ClientError, match="is not a schema"):
        Registry(f"http://127.0.0.1:{ours}").schema(1)


@pytest.mark.parametrize(
    "url", ["", "ftp://h", "http://", "http://h:port", "http://[::1", "http://h:99999", "http://h\n.x"]
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ClientError, match="is not an http"):
        Registry(url)


def test_an_address_of_version_six_keeps_its_brackets() -> None:
    assert Registry("http://[::1]:8080/x").url == "http://[::1]:8080/x"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
        (["null", "A"], b"\x02" * 1_000_000),
    ],
)  # fmt: skip
def test_a_schema_by_which_a_few_bytes_take_all_memory_or_the_stack(
    servers: list[int], kind: Any, body: bytes
) -> None:
    ours, _ = servers
    schema = {"type": "record", "name": "A", "fields": [{"name": "a", "type": kind}]}
    Answering.answers = {ours: (200, {}, json.dumps({"schema": json.dumps(schema)}).encode())}
    decoder = Decoder(Plain, Registry(f"http://127.0.0.1:{ours}"))
    with pytest.raises(ClientError, match="is not a schema"):
        decoder.decode(
            b"\0\0\0\0\1" + body, {"ce_type": b"a.v1", "ce_id": b"1", "ce_time": b"2026-01-01"}, "t/0 1"
        )
