"""A proxy before a server of MongoDB's protocol, which makes the faults that a real one makes: away, busy, cut off, encrypted.

Messages: https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/ (OP_MSG).
"""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from bson import decode, encode

_OP_MSG = 2013
_WRITES = frozenset(("update", "insert", "delete"))


class Proxy:
    """Hands messages on. Set a fault, and the next writes of a collection but the sink's own meet it."""

    def __init__(self, port: int, *, own: str, key: Path | None = None) -> None:
        self.port, self._own = port, own
        self.away = False
        """Whether connections are closed at once."""
        self.refused = 0
        """How many were."""
        self.busy = 0
        """How many writes are answered with an error of a server that steps down."""
        self.cut = 0
        """How many writes are done, and nobody is told."""
        self.before_write: Callable[[], None] = lambda: None
        """Called once before a write is handed on."""
        self.writes: list[str] = []
        """The commands of writes that came."""
        self._context: ssl.SSLContext | None = None
        if key is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: set[socket.socket] = set()
        self.url = f"mongodb://127.0.0.1:{self._listener.getsockname()[1]}"
        if key is not None:
            self.url += "/?tls=true"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Close every connection."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.away:
                self.refused += 1
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), contextlib.ExitStack() as closing:
            if self._context is not None:
                client = self._context.wrap_socket(client, server_side=True)
            server = socket.create_connection(("127.0.0.1", self.port))
            for each in (closing.enter_context(client), closing.enter_context(server)):
                self._connections.add(each)
            while not self.away:
                message = _read(client)
                command = _command(message)
                name = next(iter(command), "")
                of_documents = name in _WRITES and command[name] != self._own
                if of_documents:
                    self.writes.append(name)
                    before, self.before_write = self.before_write, lambda: None
                    before()
                if of_documents and self.busy:
                    self.busy -= 1
                    client.sendall(
                        _answer(
                            message, {"ok": 0, "code": 91, "codeName": "ShutdownInProgress", "errmsg": "x"}
                        )
                    )
                    continue
                server.sendall(message)
                answer = _read(server)
                if of_documents and self.cut:
                    self.cut -= 1
                    return
                client.sendall(answer)


def _read(connection: socket.socket) -> bytes:
    head = _exactly(connection, 16)
    return head + _exactly(connection, struct.unpack_from("<i", head)[0] - 16)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise EOFError
        found += part
    return bytes(found)


def _command(message: bytes) -> dict[str, Any]:
    """The command of a message; nothing of one that is none."""
    if struct.unpack_from("<i", message, 12)[0] != _OP_MSG or message[20] != 0:
        return {}
    size = struct.unpack_from("<i", message, 21)[0]
    return decode(message[21 : 21 + size])


def _answer(message: bytes, document: dict[str, Any]) -> bytes:
    body = struct.pack("<ib", 0, 0) + encode(document)
    request = struct.unpack_from("<i", message, 4)[0]
    return struct.pack("<iiii", 16 + len(body), 1, request, _OP_MSG) + body
