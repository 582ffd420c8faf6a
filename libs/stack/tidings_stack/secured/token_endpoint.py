"""A token endpoint of OAuth 2.0's client credentials grant; its tokens are signed as `SecuredKafka` wants them."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tidings_stack.ports import LOOPBACK
from tidings_stack.secured.signing import signed


class TokenEndpoint:
    """A context manager. `clients` have their secrets, and may get others."""

    def __init__(self, clients: dict[str, str], *, life_seconds: int = 60) -> None:
        self.clients = clients
        self.asked: list[dict[str, list[str]]] = []
        """The forms that were sent so far."""
        self.life_seconds = life_seconds
        self.broken = False
        """Answer something that is not a token."""

    @property
    def url(self) -> str:
        """Where tokens are asked for."""
        return f"http://{LOOPBACK}:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, answer = endpoint._answer(self.headers.get("Authorization", ""), form)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, authorization: str, form: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(urllib.parse.parse_qs(form))
        for client, secret in self.clients.items():
            if authorization == "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode():
                if self.broken:
                    return 200, {"token": 1}
                token = _token(client, self.life_seconds)
                return 200, {
                    "access_token": token,
                    "expires_in": self.life_seconds,
                    "token_type": "Bearer",
                }
        return 401, {"error": "invalid_client"}


def _token(subject: str, life_seconds: int) -> str:
    now = int(time.time())
    return signed({"sub": subject, "iat": now, "exp": now + life_seconds, "scope": "kafka"})
