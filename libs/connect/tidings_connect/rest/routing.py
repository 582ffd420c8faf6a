"""How Kafka Connect's REST server treats requests before a handler sees them: methods, media types, trailing slashes.

Each path has a table of handlers by method. HEAD follows GET; OPTIONS answers with ``Allow``; another method is 405;
a request that says a content type other than JSON is 415, as is a body without one where the handler reads it (elsewhere a
body means nothing); one that takes no JSON is 406; an unknown path is 404. Bodies of errors: `rest.errors`. What Jersey 3 under Kafka Connect 4.3.1 does was observed, and is compared in
``tests/conformance/rest/test_rest.py``.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from tidings_connect.rest.errors import HttpError, MalformedBodyError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Handlers = Mapping[str, Handler]
"""By method, in capitals."""
ENDPOINTS: Final = web.AppKey("endpoints", dict[str, list[str]])
"""The methods of each path that an application serves, for the page of them."""
_JSON: Final = "application/json"
_JSON_RANGES: Final = frozenset({"*/*", "application/*", _JSON, "*", ""})


def add_endpoint(app: web.Application, path: str, handlers: Handlers) -> None:
    """Serve a path, with and without a slash at its end."""
    methods = dict(handlers)
    app.setdefault(ENDPOINTS, {})[path] = list(methods)
    if "GET" in methods:
        methods["HEAD"] = methods["GET"]
    allowed = ", ".join([*methods, "OPTIONS"])

    async def options(_request: web.Request) -> web.Response:
        return web.Response(text=allowed, headers={"Allow": allowed})

    async def dispatch(request: web.Request) -> web.StreamResponse:
        if request.method == "OPTIONS":
            return await options(request)
        handler = methods.get(request.method)
        if handler is None:
            raise HttpError(405, headers={"Allow": allowed})
        if "Content-Type" in request.headers and not _says_json(request):
            raise HttpError(415)
        if not _takes_json(request):
            raise HttpError(406)
        return await handler(request)

    app.router.add_route("*", path if path == "/" else path + "{slash:/?}", dispatch)


def _says_json(request: web.Request) -> bool:
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower() == _JSON


def _takes_json(request: web.Request) -> bool:
    ranges = request.headers.get("Accept", "*/*").split(",")
    return any(part.partition(";")[0].strip().lower() in _JSON_RANGES for part in ranges)


async def read_json(request: web.Request) -> Any:
    """The body's value; numbers are text as they were written, because every option is text.

    Raises:
        MalformedBodyError: there is no body, or it is not JSON.
        HttpError: it does not say that it is JSON.
    """
    return await _parsed(request, lambda body: json.loads(body, parse_int=str, parse_float=str))


async def read_body(request: web.Request) -> Any:
    """The body's value as it is; raises as `read_json`."""
    return await _parsed(request, json.loads)


async def read_nullable(request: web.Request) -> Any:
    """As `read_json`; None where there is no body."""
    return await read_json(request) if await request.read() else None


async def _parsed(request: web.Request, parse: Callable[[bytes], Any]) -> Any:
    body = await request.read()
    if not body:
        raise MalformedBodyError("the request has no body")
    if "Content-Type" not in request.headers:
        raise HttpError(415)
    try:
        return parse(body)
    except (ValueError, RecursionError) as error:
        raise MalformedBodyError("the request's body is not JSON") from error


async def read_object(request: web.Request, fields: frozenset[str] | None = None) -> dict[str, Any]:
    """The body, an object.

    Args:
        fields: the only fields it may have; None: any.

    Raises:
        MalformedBodyError: it is something else, or has another field.
    """
    body = await read_json(request)
    if not isinstance(body, dict):
        raise MalformedBodyError("the request's body is not a JSON object")
    unknown = sorted(body.keys() - fields) if fields is not None else []
    if unknown:
        raise MalformedBodyError(
            f"the request's body has {', '.join(unknown)}, but may only have {', '.join(sorted(fields or ()))}"
        )
    return body


def string_map(value: object, what: str) -> dict[str, str | None]:
    """Options from JSON: numbers and booleans become text, null stays.

    Raises:
        MalformedBodyError: it is not an object, or an option is an object or a list.
    """
    if not isinstance(value, dict):
        raise MalformedBodyError(f"{what} must be a JSON object of options")
    wrong = sorted(key for key, item in value.items() if isinstance(item, dict | list))
    if wrong:
        raise MalformedBodyError(f"{', '.join(wrong)} must be a string")
    return {key: json.dumps(item) if isinstance(item, bool) else item for key, item in value.items()}


def flag(request: web.Request, name: str) -> bool:
    """A query parameter that is true only where it says so, as Java's ``Boolean.valueOf``."""
    return request.query.get(name, "false").lower() == "true"
