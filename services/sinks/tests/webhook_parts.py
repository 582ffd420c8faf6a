"""What the tests of the HTTP sink share: a receiver that makes the faults of real ones, and a sink that sends to it."""

import contextlib
import json
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self

from sink_targets import Sink

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.secured.authority import Authority

HTTP_SINK: Final = "io.aiven.kafka.connect.http.HttpSinkConnector"
TOLERANT: Final = {
    "errors.tolerance": "all",
    "errors.log.enable": "true",
    "errors.deadletterqueue.topic.name": "letters",
    "errors.deadletterqueue.context.headers.enable": "true",
}
EVENT: Final = {
    "ce_specversion": "1.0",
    "ce_type": "shop.order-placed.v1",
    "ce_source": "/tidings/shop/order",
    "content-type": "application/avro",
}


@dataclass(frozen=True)
class Answer:
    """What a receiver does about a request."""

    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    body: bytes = b""
    taken: bool = True
    """Whether it does what is asked, whatever it says of it."""
    lost: bool = False
    """Whether the connection ends without an answer."""
    until: threading.Event | None = None
    """Answers once it is set."""


TAKEN: Final = Answer()
LOST: Final = Answer(lost=True)


def refused(status: int, **headers: str) -> Answer:
    """An answer that takes nothing; underscores of headers are hyphens."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, named, b"no: secret-value", taken=False)


@dataclass
class Seen:
    """A request that came."""

    path: str
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes
    answer: Answer = TAKEN
    came: float = field(default_factory=time.monotonic)

    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)


class Receiver:
    """A server of HTTP on this machine. What it is to do about the next requests stands in `plan`; about others `decide` says."""

    def __init__(self, key: Path | None = None) -> None:
        self.seen: list[Seen] = []
        self.plan: deque[Answer] = deque()
        self.decide: Callable[[Seen], Answer] = lambda _: TAKEN
        self.busy = 0
        """How many requests are being worked on."""
        self._key, self._port = key, 0
        self._lock = threading.Lock()
        self.start()

    def start(self) -> None:
        """Listen, on the port that it had."""
        self._server = _Server(("127.0.0.1", self._port), _handler(self))
        self._port = self._server.server_address[1]
        if self._key is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections, and end those that are there."""
        self._server.shutdown()
        self._server.server_close()
        for connection in self._server.connections:
            with contextlib.suppress(OSError):  # it has ended already
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'http' if self._key is None else 'https'}://127.0.0.1:{self._port}/hook"

    @property
    def taken(self) -> list[Seen]:
        """The requests that it did what they asked for, in order."""
        return [seen for seen in self.seen if seen.answer.taken]

    def numbers(self) -> list[int]:
        """The member ``number`` of all records that it has taken, in order, as often as they came."""
        found = []
        for seen in self.taken:
            body = seen.body.decode().strip()
            found += [json.loads(line)["number"] for line in body.splitlines() if line]
        return found

    def look(self, seen: Seen) -> None:
        """Take in a request."""
        with self._lock:
            self.busy += 1
            seen.answer = self.plan.popleft() if self.plan else self.decide(seen)
            self.seen.append(seen)

    def answered(self) -> None:
        """A request is done with."""
        with self._lock:
            self.busy -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *given: Any) -> None:
        self.connections: list[socket.socket] = []
        super().__init__(*given)

    def handle_error(self, *given: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a sender that was killed
            super().handle_error(*given)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, client = super().get_request()
        self.connections.append(connection)
        return connection, client


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            seen = Seen(self.path, {name.lower(): text for name, text in self.headers.items()}, body)
            receiver.look(seen)
            answer = seen.answer
            if answer.until is not None:
                answer.until.wait(30)
            receiver.answered()
            if answer.lost:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, text in answer.headers.items():
                self.send_header(name, text)
            if answer.status != 204 and "content-length" not in answer.headers:
                self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body if answer.status != 204 else b"")

        do_OPTIONS = do_POST

    return Handler


class Webhooks(Sink):
    """A sink on a worker in memory, and its receiver."""

    def __init__(self, worker: MemoryWorker, receiver: Receiver) -> None:
        config = {
            "http.url": receiver.url,
            "http.authorization.type": "none",
            "retry.backoff.ms": "20",
            "errors.retry.delay.initial.ms": "20",
            "errors.retry.delay.max.ms": "100",
        }
        super().__init__(worker, config)
        self.receiver = receiver

    def event(self, number: int, **more: str) -> None:
        """A business event of a numbered order."""
        attributes = {**EVENT, "ce_id": f"e-{number}", "ce_subject": f"o-{number}", **more}
        headers = [(name, text.encode()) for name, text in attributes.items()]
        self.send(EVENT["ce_type"], f"o-{number}", {"number": number}, headers=headers)

    def letters(self) -> list[Any]:
        """The values of the dead letters."""
        return [json.loads(value) for _, value, _ in self.worker.kafka.topics.get("letters", [])]


def issued(directory: Path) -> tuple[Path, Path]:
    """A server's key with its certificate, and its authority's certificate: files of PEM."""
    authority = Authority()
    server = authority.issue("receiver")
    key, trusted = directory / "server.pem", directory / "authority.pem"
    key.write_text(server.key + server.chain)
    trusted.write_text(authority.certificate)
    return key, trusted
