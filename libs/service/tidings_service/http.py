"""The HTTP server every service has: ``/metrics``, ``/healthz``, ``/readyz``.

Metrics in Prometheus's text format, or in OpenMetrics for who asks for it. Both health pages answer 200 or 503 with a JSON body that says why.
"""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from tidings_service.errors import SettingsError
from tidings_service.health import Health
from tidings_service.http_errors import JsonErrorRunner

_START_DEADLINE_SECONDS = 30.0
_OPENMETRICS = "application/openmetrics-text"


class HttpServer:
    """A running server; `port` is the one it listens on."""

    def __init__(self, runner: web.AppRunner, host: str, port: int, *, scheme: str = "http") -> None:
        self._runner = runner
        self.host = host
        self.port = port
        self._scheme = scheme

    @property
    def url(self) -> str:
        """The server's base address, with a host that can be connected to."""
        host = "127.0.0.1" if self.host in {"0.0.0.0", ""} else self.host  # noqa: S104 - compared, not bound
        return f"{self._scheme}://{host}:{self.port}"

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Serve the same pages at a further address; its port.

        Raises:
            SettingsError: when the address cannot be listened on.
        """
        return await _listen(self._runner, host, port, tls)

    async def close(self) -> None:
        """Stop listening and end open requests."""
        await self._runner.cleanup()


def add_observability(app: web.Application, health: Health, registry: CollectorRegistry = REGISTRY) -> None:
    """Add the three pages to an application that has its own routes."""

    # A thread of their own: asyncio's are the service's, and may all wait for servers that do not answer.
    threads = ThreadPoolExecutor(2, "metrics")

    async def end_threads(_app: web.Application) -> None:
        threads.shutdown(wait=False)

    app.on_cleanup.append(end_threads)

    async def metrics(request: web.Request) -> web.Response:
        asked = _asks_for_openmetrics(request)
        made = openmetrics.generate_latest if asked else generate_latest
        # Collectors may read counters under locks or ask a server: keep them off the event loop.
        body = await asyncio.get_running_loop().run_in_executor(threads, made, registry)
        kind = openmetrics.CONTENT_TYPE_LATEST if asked else CONTENT_TYPE_LATEST
        return web.Response(body=body, headers={"Content-Type": kind})

    async def healthz(_request: web.Request) -> web.Response:
        return _answer(health, ok=health.alive())

    async def readyz(_request: web.Request) -> web.Response:
        return _answer(health, ok=health.ready())

    pages: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
        "/metrics": metrics,
        "/healthz": healthz,
        "/readyz": readyz,
    }
    for path, handler in pages.items():
        app.router.add_get(path, handler)


async def serve_http(
    health: Health,
    host: str,
    port: int,
    *,
    registry: CollectorRegistry = REGISTRY,
    routes: Iterable[web.RouteDef] = (),
) -> HttpServer:
    """Listen on `host` and `port` (0 takes a free one).

    Raises:
        SettingsError: when the address cannot be listened on.
    """
    app = web.Application()
    add_observability(app, health, registry)
    app.router.add_routes(routes)
    return await serve_application(app, host, port)


async def serve_application(
    app: web.Application, host: str, port: int, tls: ssl.SSLContext | None = None
) -> HttpServer:
    """Serve an application that is complete.

    Args:
        tls: for https; None: http.

    Raises:
        SettingsError: when the address cannot be listened on.
    """
    runner = JsonErrorRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        bound = await _listen(runner, host, port, tls)
    except SettingsError:
        await runner.cleanup()
        raise
    return HttpServer(runner, host, bound, scheme="http" if tls is None else "https")


async def _listen(runner: web.AppRunner, host: str, port: int, tls: ssl.SSLContext | None) -> int:
    before = len(runner.addresses)
    site = web.TCPSite(runner, host, port, ssl_context=tls)
    try:
        await site.start()
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="choose another port with TIDINGS_HTTP_PORT (for a capture worker: listeners)",
        ) from error
    return int(runner.addresses[before][1]) if len(runner.addresses) > before else port


def _asks_for_openmetrics(request: web.Request) -> bool:
    kinds = ",".join(request.headers.getall("Accept", ())).split(",")
    return any(kind.partition(";")[0].strip().lower() == _OPENMETRICS for kind in kinds)


def _answer(health: Health, *, ok: bool) -> web.Response:
    return web.json_response({"ok": ok, **health.snapshot()}, status=200 if ok else 503)


class serve_http_in_thread:  # noqa: N801 - used like the function beside it
    """The same server for a service whose main thread is not asyncio's; a context manager, or `close` it."""

    def __init__(
        self,
        health: Health,
        host: str,
        port: int,
        *,
        registry: CollectorRegistry = REGISTRY,
        routes: Iterable[web.RouteDef] = (),
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="http", daemon=True)
        self._thread.start()
        future = asyncio.run_coroutine_threadsafe(
            serve_http(health, host, port, registry=registry, routes=routes), self._loop
        )
        try:
            self._server = future.result(_START_DEADLINE_SECONDS)
        except BaseException:
            self._stop_loop()
            raise
        self.port = self._server.port
        self.url = self._server.url

    def close(self) -> None:
        """Stop listening and end the thread."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(_START_DEADLINE_SECONDS)
        self._stop_loop()

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_DEADLINE_SECONDS)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
