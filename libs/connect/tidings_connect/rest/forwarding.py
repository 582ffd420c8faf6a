"""Any worker answers any request: what only the leader or a connector's worker can do is sent on to it.

As in Kafka Connect a request travels two hops at most, counted by the query parameter ``forward``: absent where a client
asks, ``true`` on the first hop, ``false`` on the second, where a worker that is not the right one either answers 409.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import quote, unquote

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Middleware

from tidings_connect.config.plugins import removable
from tidings_connect.errors import ConflictError, ConnectError
from tidings_connect.herder.herder import Herder
from tidings_connect.rest.warnings import WARNING
from tidings_connect.task_id import TaskId
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
    }
)
"""Those that write to the config topic, or to offsets, by method and path below ``/connectors``; `removable` ones as well."""
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
_BAD_REQUEST: Final = 400

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = get_logger(__name__)


def forwarding(supervisor: Herder, tls: ssl.SSLContext | None = None) -> Middleware:
    """The middleware; inside the one that words errors.

    Args:
        tls: for workers whose advertised listener is https.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        kind, task = place_of(request.method, request.rel_url.raw_path)
        if kind is None:
            return await handler(request)
        url = await _url(supervisor, kind, task)
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


async def restart_elsewhere(
    request: web.Request, supervisor: Herder, task: TaskId, tls: ssl.SSLContext | None
) -> None:
    """Have another worker restart its task, as part of a request to restart a connector.

    Raises:
        ConflictError: nobody runs it at the moment, or its worker refused.
        RequestLostError: its worker did not answer.
    """
    owner = None if supervisor.group is None else supervisor.group.owner(task)
    url = None if owner is None or supervisor.group is None else supervisor.group.url_of(owner)
    answer = None
    if url is not None:
        path = f"/connectors/{quote(task.connector, safe='')}/tasks/{task.task}/restart"
        answer = await _ask(request, url, path, {"forward": "false"}, b"", tls)
    if answer is None or answer.status >= _BAD_REQUEST:
        raise ConflictError(
            "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
        )


def place_of(method: str, path: str) -> tuple[str | None, TaskId]:
    """``leader`` or ``owner``, or None for a request that any worker answers itself; and the connector, with the number of
    the task where the path has one.

    Args:
        path: as it was sent, because a name may hold a slash.
    """
    parts = path.rstrip("/").split("/")[1:]
    if not parts or parts[0] != "connectors":
        return None, TaskId("")
    name = unquote(parts[1]) if len(parts) > 1 else ""
    shape = "/".join("*" if number in {0, 2} else part for number, part in enumerate(parts[1:]))
    number = parts[3] if len(parts) > 3 and parts[2] == "tasks" else "0"
    task = TaskId(name, int(number) if number.isascii() and number.isdigit() else 0)
    if (method, shape) in _LEADER or (method == "DELETE" and shape.removeprefix("*/") in removable()):
        return "leader", task
    if (method, shape) in _OWNER:
        return "owner", task
    return None, task


async def _url(supervisor: Herder, kind: str, task: TaskId) -> str | None:
    """Where a request belongs; None: here. Waits while the group is finding out."""
    deadline = time.monotonic() + _PLACE_SECONDS
    while True:
        group = supervisor.group
        if group is not None and group.holds:
            stored = supervisor.connectors.get(task.connector)
            if kind == "owner" and (stored is None or task.task >= max(1, stored.tasks_now)):
                return None  # it will be told that there is no such connector, or task
            owner = group.owner(task)
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
    return await _ask(request, url, request.rel_url.raw_path, query, await request.read(), tls)


async def _ask(
    request: web.Request,
    url: str,
    path: str,
    query: Mapping[str, str],
    body: bytes,
    tls: ssl.SSLContext | None,
) -> web.Response:
    """What another worker answers to whoever has asked this one."""
    headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, auto_decompress=True) as session,
            session.request(
                request.method,
                url + path,
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
