"""A proxy before the search server, which makes the faults that a real cluster makes: busy, cut off, locked, encrypted."""

import http.client
import json
import ssl
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from tidings_stack.secured.authority import Authority


class Proxy:
    """Hands requests on. Set a fault, and the next bulk requests meet it."""

    def __init__(self, port: int, *, login: tuple[str, str] | None = None, key: Path | None = None) -> None:
        self.port, self.busy, self.some_busy, self.cut, self.most_bytes = port, 0, 0, 0, 0
        self.denied = ""
        """What a path holds that nobody has a right to."""
        self.login = "" if login is None else "Basic " + b64encode(":".join(login).encode()).decode()
        self.requests: list[int] = []
        """The operations of each bulk request that came."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        if key is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if key is None else 'https'}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _hand_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if proxy.login and self.headers.get("authorization") != proxy.login:
                return self._answer(401, b"{}")
            if proxy.denied and proxy.denied in self.path:
                return self._answer(
                    403, b'{"error": {"type": "security_exception", "reason": "no permissions"}}'
                )
            if not self.path.startswith("/_bulk"):
                return self._answer(*self._ask(body))
            proxy.requests.append(body.count(b'"_index"'))
            if proxy.most_bytes and len(body) > proxy.most_bytes:
                return self._answer(413, b"")
            if proxy.busy:
                proxy.busy -= 1
                return self._answer(429, b"{}")
            if proxy.some_busy:
                proxy.some_busy -= 1
                return self._answer(200, self._without_the_first(body))
            status, data = self._ask(body)
            if proxy.cut:
                proxy.cut -= 1
                self.close_connection = True  # it was done, and nobody is told
                return None
            return self._answer(status, data)

        do_GET = do_PUT = do_POST = do_HEAD = _hand_on

        def _without_the_first(self, body: bytes) -> bytes:
            """As a full queue of one shard does it: the first operation is refused, the others are done."""
            lines = body.splitlines(keepends=True)
            said = json.loads(self._ask(b"".join(lines[2:]))[1])
            error = {"type": "rejected_execution_exception", "reason": "queue"}
            said["items"].insert(0, {"index": {"status": 429, "error": error}})
            return json.dumps(said | {"errors": True}).encode()

        def _ask(self, body: bytes) -> tuple[int, bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
            try:
                kind = {"content-type": self.headers.get("content-type") or "application/json"}
                connection.request(self.command, self.path, body, kind)
                answer = connection.getresponse()
                return answer.status, answer.read()
            finally:
                connection.close()

        def _answer(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    return Handler


def issued(directory: Path) -> tuple[Path, Path]:
    """A server's key with its certificate, and its authority's certificate: files of PEM."""
    authority = Authority()
    server = authority.issue("search")
    key, trusted = directory / "server.pem", directory / "authority.pem"
    key.write_text(server.key + server.chain)
    trusted.write_text(authority.certificate)
    return key, trusted
