"""Any worker answers any request: what only the leader or a connector's worker can do is sent on to it.

As in Kafka Connect a request travels two hops at most, counted by the query parameter ``forward``: absent where a client
asks, ``true`` on the first hop, ``false`` on the second, where a worker that is not the right one either answers 409.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import unquote

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Middleware

from tidings_connect.errors import ConflictError, ConnectError
from tidings_connect.herder.herder import Herder
from tidings_connect.rest.warnings import WARNING
from tidings_service import get_logger

_LEADER: Final = frozenset(
    {
        ("POST", ""),
        ("DELETE", "*"),
        ("PUT", "*/config"),
        ("PATCH", "*/config"),
        ("PUT", "*/pause"),
        ("PUT", "*/resume"),
        ("PUT", "*/stop"),
        ("PATCH", "*/offsets"),
        ("DELETE", "*/offsets"),
        ("DELETE", "*/slot"),
    }
)
"""Those that write to the config topic, or to offsets, by method and path below ``/connectors``."""
_OWNER: Final = frozenset(
    {
        ("POST", "*/restart"),
        ("POST", "*/tasks/*/restart"),
        ("POST", "*/signals"),
        ("GET", "*/snapshot"),
    }
)
"""Those for the process that runs the connector."""
_PASSED_ON: Final = ("Authorization", "Content-Type", "Accept")
_ANSWER_SECONDS: Final = 90.0
_PLACE_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = get_logger(__name__)


def forwarding(supervisor: Herder, tls: ssl.SSLContext | None = None) -> Middleware:
    """The middleware; inside the one that words errors.

    Args:
        tls: for workers whose advertised listener is https.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        kind, name = place_of(request.method, request.rel_url.raw_path)
        if kind is None:
            return await handler(request)
        url = await _url(supervisor, kind, name)
        if url is None:
            return await handler(request)
        if request.query.get("forward") == "false":
            raise ConflictError(
                "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
            )
        answer = await _forward(request, url, tls)
        if kind == "leader" and supervisor.storage is not None:
            await supervisor.storage.settle()  # who asks this worker next finds it done
        return answer

    return middleware


def place_of(method: str, path: str) -> tuple[str | None, str]:
    """``leader`` or ``owner``, or None for a request that any worker answers itself; and the connector's name.

    Args:
        path: as it was sent, because a name may hold a slash.
    """
    parts = path.rstrip("/").split("/")[1:]
    if not parts or parts[0] != "connectors":
        return None, ""
    name = unquote(parts[1]) if len(parts) > 1 else ""
    shape = "/".join("*" if number in {0, 2} else part for number, part in enumerate(parts[1:]))
    if (method, shape) in _LEADER:
        return "leader", name
    if (method, shape) in _OWNER:
        return "owner", name
    return None, name


async def _url(supervisor: Herder, kind: str, name: str) -> str | None:
    """Where a request belongs; None: here. Waits while the group is finding out."""
    deadline = time.monotonic() + _PLACE_SECONDS
    while True:
        group = supervisor.group
        if group is not None and group.holds:
            if kind == "owner" and name not in supervisor.connectors:
                return None  # it will be told that there is no such connector
            owner = group.owner(name)
            url = group.leader_url if kind == "leader" else None if owner is None else group.url_of(owner)
            if url is not None:
                here = group.leads if kind == "leader" else owner == supervisor.worker_id
                return None if here else url
        if time.monotonic() > deadline:
            raise ConflictError(
                "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was "
                "underway."
            )
        await asyncio.sleep(_LOOK_SECONDS)


async def _forward(request: web.Request, url: str, tls: ssl.SSLContext | None) -> web.StreamResponse:
    query = dict(request.query) | {"forward": "false" if "forward" in request.query else "true"}
    headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    body = await request.read()
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, auto_decompress=True) as session,
            session.request(
                request.method,
                url + request.rel_url.raw_path,
                params=query,
                headers=headers,
                data=body,
                ssl=tls or True,
            ) as answer,
        ):
            content = await answer.read()
            made = web.Response(status=answer.status, body=content, content_type=answer.content_type)
            for warning in answer.headers.getall(WARNING, ()):
                made.headers.add(WARNING, warning)
            if "Location" in answer.headers:
                made.headers["Location"] = answer.headers["Location"].replace(url, _origin(request), 1)
            return made
    except (aiohttp.ClientError, TimeoutError) as error:
        _log.warning("a request could not be forwarded", worker=url, reason=type(error).__name__)
        raise RequestLostError(f"IO Error trying to forward REST request to {url}") from error


class RequestLostError(ConnectError):
    """The worker that a request belongs to did not answer; whether it did what was asked is not known."""

    code = "request_lost"


def _origin(request: web.Request) -> str:
    return str(request.url.origin())
