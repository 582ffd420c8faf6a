"""The HTTP server's own errors as JSON, ``{"error_code": 414, "message": "HTTP 414 URI Too Long"}``: programs that speak to a
REST API read every answer as JSON.

What aiohttp's parser refuses is 400 in plain text there, whatever it is, and quotes what was sent. Here it has the status
that HTTP has for it (RFC 9110), and neither answer nor log repeats a request: a header may be a password.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, LineTooLong

from tidings_service.logs import get_logger

LONGEST_LINE_BYTES: Final = 8_192
"""Of a request's first line."""
LONGEST_HEADER_BYTES: Final = 8_190
"""Another number than that of lines: aiohttp's error tells the limit, not what was too long."""
_TOO_MANY: Final = "Too many headers"
_NO_VERSION: Final = "Invalid HTTP version"
_METHOD: Final = re.compile(r"b'[!#$%&*+.^_`|~0-9A-Za-z-]+ \S+ HTTP/1\.[01]'")
"""A request's first line in the parser's message, where the method is a word that it does not know."""
_PHRASES: Final = {414: "URI Too Long"}
"""Those that RFC 9110 has changed."""
_VERSIONS: Final = frozenset({HttpVersion10, HttpVersion11})

_Handler = Callable[[Any], Awaitable[web.StreamResponse]]

_log = get_logger(__name__)


def http_error(status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    """An error in HTTP's own words."""
    message = f"HTTP {status} {_PHRASES.get(status) or HTTPStatus(status).phrase}"
    text = f'{{"error_code":{status},"message":"{message}"}}'
    return web.Response(status=status, text=text, content_type="application/json", headers=headers)


class JsonErrorRunner(web.AppRunner):
    """Runs an application on a server whose own errors are JSON."""

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(
            _worded(made.request_handler),
            request_factory=made.request_factory,
            loop=asyncio.get_running_loop(),
            max_line_size=LONGEST_LINE_BYTES,
            max_field_size=LONGEST_HEADER_BYTES,
            **self._kwargs,
        )


def _worded(handler: _Handler) -> _Handler:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.version not in _VERSIONS:
            return _closing(http_error(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED))
        try:
            return await handler(request)
        except web.HTTPClientError as error:
            allowed = error.headers.get("Allow")
            return http_error(error.status, {} if allowed is None else {"Allow": allowed})

    return handle


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what the parser refuses, and to what a handler has not answered; closes the connection."""
        if exc is not None and not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        refused = _status_of(status, exc, message or "")
        _log.debug("a request could not be understood", status=refused)
        return _closing(http_error(refused))


def _status_of(status: int, error: BaseException | None, message: str) -> int:
    if isinstance(error, LineTooLong):
        too_long = error.args[1] == LONGEST_LINE_BYTES
        return HTTPStatus.REQUEST_URI_TOO_LONG if too_long else HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    if message.startswith(_TOO_MANY):
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    if _NO_VERSION in message and not isinstance(error, BadHttpMethod):
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
    if isinstance(error, BadHttpMethod) and _METHOD.search(message):
        return HTTPStatus.METHOD_NOT_ALLOWED
    return status


def _closing(answer: web.Response) -> web.Response:
    answer.force_close()
    return answer
