"""Requests that a browser sends for a page of another origin change nothing."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from tidings_connect.config.rest.headers import read_rest_headers
from tidings_connect.rest.origins import same_origin
from tidings_service import serve_application


@asynccontextmanager
async def served(properties: Mapping[str, str]) -> AsyncIterator[str]:
    """A page that all methods reach; its URL."""
    app = web.Application(middlewares=[same_origin(read_rest_headers(properties).origins)])

    async def page(_request: web.Request) -> web.Response:
        return web.Response()

    app.router.add_route("*", "/{path:.*}", page)
    server = await serve_application(app, "127.0.0.1", 0)
    try:
        yield server.url
    finally:
        await server.close()


async def ask(url: str, method: str, headers: Mapping[str, str]) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{url}/connectors/x/restart", headers=headers) as answer,
    ):
        return answer.status


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://sister.example", "Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://connect.example:8084"},
        {"Origin": "http://connect.example:x"},
        {"Origin": "http://"},
        {"Origin": "ftp://connect.example"},
    ],
)
async def test_a_page_of_another_origin_changes_nothing(headers: dict[str, str]) -> None:
    async with served({}) as url:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert await ask(url, method, {"Host": "connect.example:8083", **headers}) == 403
        assert await ask(url, "GET", headers) == 200  # a browser keeps the answer from the page


@pytest.mark.parametrize(
    ("host", "headers"),
    [
        ("connect.example:8083", {}),  # curl, kcctl, Terraform: no browser
        ("connect.example:8083", {"Origin": "http://connect.example:8083"}),
        ("connect.example", {"Origin": "https://connect.example"}),  # a proxy has taken off the TLS
        ("connect.example:443", {"Origin": "https://connect.example"}),
        ("Connect.Example", {"Origin": "http://connect.example"}),
        ("inside:8083", {"Origin": "https://connect.example", "Sec-Fetch-Site": "same-origin"}),
        ("inside:8083", {"Sec-Fetch-Site": "none"}),  # what a person typed
        ("inside:8083", {"Origin": "https://console.example", "Sec-Fetch-Site": "cross-site"}),
        ("inside:8083", {"Origin": "https://console.example"}),
    ],
)
async def test_programs_own_pages_and_allowed_origins_may(host: str, headers: dict[str, str]) -> None:
    async with served({"access.control.allow.origin": r"https://console\.example"}) as url:
        assert await ask(url, "POST", {"Host": host, **headers}) == 200
