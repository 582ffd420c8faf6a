"""Headers of the REST API's answers by the worker's properties; `tests/conformance` compares them with Kafka Connect's."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime

import aiohttp
import pytest
from aiohttp import web

from tidings_connect.config.rest.headers import read_rest_headers
from tidings_connect.errors import WorkerConfigError
from tidings_service import serve_application

Headers = dict[str, list[str]]


@asynccontextmanager
async def served(properties: Mapping[str, str]) -> AsyncIterator[str]:
    """A page whose answers get what the properties say; its URL."""
    app = web.Application()
    signal = read_rest_headers(properties).signal()
    if signal is not None:
        app.on_response_prepare.append(signal)

    async def page(_request: web.Request) -> web.Response:
        return web.Response(headers={"X-Own": "page"})

    app.router.add_route("*", "/", page)
    server = await serve_application(app, "127.0.0.1", 0)
    try:
        yield server.url
    finally:
        await server.close()


async def ask(url: str, method: str = "GET", **headers: str) -> Headers:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=named) as answer:
        return {
            name: answer.headers.getall(name)
            for name in answer.headers
            if name.startswith(("Access-", "X-", "Vary", "Expires", "Cache-"))
        }


async def test_pages_of_some_origins_may_use_the_api() -> None:
    allowed = {
        "access.control.allow.origin": r"https://a\.example, https://.*\.b\.example",
        "access.control.allow.methods": "GET,PUT",
    }
    refused = {"X-Own": ["page"], "Vary": ["Origin"]}
    async with served(allowed) as url:
        for origin in ("https://a.example", "HTTPS://X.b.example", "https://evil https://a.example"):
            assert await ask(url, Origin=origin) == {**refused, "Access-Control-Allow-Origin": [origin]}
        for origin in ("", "null", "https://b.example", "https://axexample", "https://a.example.evil"):
            assert await ask(url, Origin=origin) == refused
        assert await ask(url) == refused
        preflight = {"Origin": "https://a.example", "Access_Control_Request_Method": "PUT"}
        assert await ask(url, "OPTIONS", **preflight) == {
            **refused,
            "Access-Control-Allow-Origin": ["https://a.example"],
            "Access-Control-Allow-Methods": ["GET,PUT"],
            "Access-Control-Allow-Headers": ["Content-Type"],
            "Access-Control-Max-Age": ["60"],
        }
        assert await ask(url, "OPTIONS", **preflight | {"Origin": "https://evil"}) == refused
    async with served({"access.control.allow.origin": "*"}) as url:
        answer = await ask(url, "OPTIONS", **preflight)
        assert answer["Access-Control-Allow-Methods"] == ["GET,POST,HEAD"]
    async with served({"access.control.allow.methods": "GET"}) as url:
        assert await ask(url, Origin="https://a.example") == {"X-Own": ["page"]}


def test_an_origin_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(WorkerConfigError, match=r"access\.control\.allow\.origin"):
        read_rest_headers({"access.control.allow.origin": "https://(a"})


async def test_headers_that_every_answer_has() -> None:
    rules = 'add X-Many: a,SET X-One: 1,"add X-Many: b, c", set X-One: 2,set x-own: ours,addDate Expires: 86400000'
    async with served({"response.http.headers.config": rules}) as url:
        answer = await ask(url)
    (expires,) = answer.pop("Expires")
    assert parsedate_to_datetime(expires).tzinfo is not None
    assert answer == {"X-Own": ["page"], "X-Many": ["a", "b, c"], "X-One": ["2"]}


@pytest.mark.parametrize(
    "rules",
    ["X: y", "put X: y", "set X", "set : y", "set X Y: z", "set X: y, z", "set X: a:b", "setDate X: soon"],
)
def test_a_rule_of_another_form_is_refused(rules: str) -> None:
    with pytest.raises(WorkerConfigError, match=r"response\.http\.headers\.config"):
        read_rest_headers({"response.http.headers.config": rules})
