"""The registry as it stands in a place where everything is locked: behind a proxy with TLS and a login."""

import asyncio
import base64
import contextlib
import secrets
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import aiohttp
from aiohttp import web

from tidings_stack.secured.authority import Authority


def header(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@contextlib.contextmanager
def guarded(
    registry_url: str, authority: Authority, directory: Path, users: dict[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """The real registry behind a proxy with TLS and basic authentication, as nginx stands before one; URL, password.

    Args:
        users: passwords by user, which may change; without it `reg` has the one that is told.
    """
    own = authority.issue("registry")
    users = {"reg": secrets.token_urlsafe(12)} if users is None else users
    (directory / "registry.pem").write_text(own.key + own.chain)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "registry.pem")
    root = registry_url.removesuffix("/apis/ccompat/v7")
    started: Future[int] = Future()
    stop = asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with aiohttp.ClientSession() as session:

            async def forward(request: web.Request) -> web.Response:
                if request.headers.get("Authorization") not in [header(*user) for user in users.items()]:
                    return web.json_response({"error_code": 401, "message": "Unauthorized"}, status=401)
                body = await request.read()
                passed = ("Content-Type", "Accept", "X-Registry-")
                kind = {k: v for k, v in request.headers.items() if k.startswith(passed)}
                async with session.request(
                    request.method, root + request.path_qs, data=body, headers=kind
                ) as answer:
                    return web.Response(
                        body=await answer.read(), status=answer.status, content_type=answer.content_type
                    )

            app = web.Application()
            app.router.add_route("*", "/{path:.*}", forward)
            runner = web.AppRunner(app)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            started.set_result(runner.addresses[0][1])
            await stop.wait()
            await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield f"https://127.0.0.1:{started.result(60)}/apis/ccompat/v7", users["reg"]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        loop.close()
