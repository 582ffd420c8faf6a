"""What the HTTP server itself refuses is answered in JSON, with the status that HTTP has for it."""

import asyncio
import json

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tidings_service import Health, HttpServer, serve_application, serve_http


async def exchange(server: HttpServer, data: bytes) -> tuple[int, str, bytes]:
    """Status, media type and body of the answer to what is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(data)
        async with asyncio.timeout(30):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = {n.lower(): v for n, _, v in (line.partition(": ") for line in head[1:])}
            body = await reader.readexactly(int(headers["content-length"]))
    finally:
        writer.close()
        await writer.wait_closed()
    return int(head[0].split()[1]), headers["content-type"].partition(";")[0], body


LONG = b"hush" * 2100


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % LONG, 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n\r\n" % LONG, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n%s: x\r\n\r\n" % LONG, 431),
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n%s\r\n"
            % b"".join(b"X%d: hush\r\n" % number for number in range(200)),
            431,
        ),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"GET / HTTP/1.2\r\nHost: x\r\n\r\n", 505),
        (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 505),
        (b"hush / HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"hush\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost hush\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"GET /hush HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: x\r\nExpect: hush\r\n\r\n", 417),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
    ],
)
async def test_what_the_server_refuses_is_json_and_repeats_nothing(
    request_: bytes, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    app = web.Application()

    async def page(_request: web.Request) -> web.Response:
        return web.json_response({})

    app.router.add_get("/", page)
    server = await serve_application(app, "127.0.0.1", 0)
    try:
        found, kind, body = await exchange(server, request_)
    finally:
        await server.close()
    assert (found, kind) == (status, "application/json")
    parsed = json.loads(body)
    if status != 200:
        assert parsed["error_code"] == status
        assert parsed["message"].startswith(f"HTTP {status} ")
    assert "hush" not in body.decode() + "".join(capfd.readouterr())


async def test_metrics_are_in_openmetrics_for_who_asks() -> None:
    registry = CollectorRegistry()
    Counter("tidings_example", "An example.", registry=registry).inc(3)
    server = await serve_http(Health(), "127.0.0.1", 0, registry=registry)

    async def get(accept: bytes) -> tuple[int, str, bytes]:
        return await exchange(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n" % accept)

    try:
        for accept in (
            b"application/openmetrics-text",
            b"text/plain;version=0.0.4;q=0.5, Application/OpenMetrics-Text; version=1.0.0;q=0.9",
            b"application/openmetrics-text;version=x",
        ):
            _, kind, body = await get(accept)
            assert kind == "application/openmetrics-text"
            assert body.endswith(b"# EOF\n")
            (family,) = text_string_to_metric_families(body.decode())
            assert family.name == "tidings_example"
        _, kind, body = await get(b"*/*")
        assert kind == "text/plain"
        assert b"# EOF" not in body
    finally:
        await server.close()
