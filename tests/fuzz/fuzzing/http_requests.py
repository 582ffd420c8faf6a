"""Random requests to a running worker, and slow, many and large ones."""

import contextlib
import json
import os
import socket
import time
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

from fuzzing.making import json_value, mutated, text
from fuzzing.target import Target

ANSWER_SECONDS = 1.0
"""On an idle machine; see `patience`."""


_LARGE_BYTES = 50 << 20


_MANY = 200


_SLOW = 20


_BOUNDARY = (
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "G\u0000T",
    "x" * 200,
)


def patience() -> float:
    """How long an answer may take now: a second where nothing else runs."""
    return ANSWER_SECONDS * max(3.0, 3.0 * os.getloadavg()[0] / (os.cpu_count() or 1))


_PATHS = ("/", "/health", "/connectors", "/connectors/{n}", "/connectors/{n}/config", "/connectors/{n}/status",
          "/connectors/{n}/restart", "/connectors/{n}/tasks", "/connectors/{n}/tasks/0/status", "/connectors/{n}/tasks/{t}/restart",
          "/connectors/{n}/topics", "/connectors/{n}/topics/reset", "/connectors/{n}/offsets", "/connector-plugins",
          "/connector-plugins/{n}/config", "/connector-plugins/{p}/config/validate", "/connectors/{n}/{t}", "/admin/loggers",
          "/admin/loggers/{t}", "/{t}", "/connectors/{n}/tidings/position", "/metrics", "/healthz", "/readyz", "/wal")  # fmt: skip


_PLUGINS = ("PostgresConnector", "io.debezium.connector.postgresql.PostgresConnector", "x", "")


_ONLY_OTHERS = ("DELETE", "PUT", "POST", "PATCH")
"""Methods that could stop the connector whose life is watched."""


def request(target: Target, rng: Random, seed: object) -> None:
    method = rng.choice(_BOUNDARY) if rng.random() < 0.3 else rng.choice(("GET", "PUT", "POST"))
    name = target.name if rng.random() < 0.3 and method not in _ONLY_OTHERS else _other_name(rng)
    path = rng.choice(_PATHS).format(
        n=quote(name, safe=""), t=quote(text(rng), safe=""), p=rng.choice(_PLUGINS)
    )
    if rng.random() < 0.1:
        path += "?" + quote(text(rng), safe="=&") + "=" + quote(text(rng))
    body = _body(target, rng) if method in _ONLY_OTHERS or rng.random() < 0.1 else b""
    if path.startswith("/connectors") and method in _ONLY_OTHERS and target.name.encode() in body:
        return
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
    if rng.random() < 0.1:
        head += f"{rng.choice(('X-A', 'Authorization', 'Expect', 'Transfer-Encoding', 'Content-Length', 'Accept-Encoding'))}: {text(rng)}\r\n"
    raw = head.encode("utf-8", "replace") + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if rng.random() < 0.1:
        # The HTTP server tells a client which bytes of its own are no HTTP.
        raw = mutated(rng, raw.replace(target.secrets["a password in requests"].encode(), b"x"))
    if target.name.encode() in raw and any(one.encode() in raw for one in _ONLY_OTHERS):
        return
    _exchange(target, raw, seed)


def _other_name(rng: Random) -> str:
    return (
        rng.choice(("other", "é", "a/b", "..", "\u202e", "x" * 300, "%2e", "a b", ""))
        if rng.random() < 0.7
        else text(rng)
    )


def _body(target: Target, rng: Random) -> bytes:
    """A connector's configuration, or what is none. It names a closed port, so that nothing is waited for."""
    kind = rng.random()
    password = target.secrets["a password in requests"]
    config: Any = {
        "connector.class": rng.choice(_PLUGINS), "database.hostname": "127.0.0.1", "database.port": "9",
        "database.user": "u", "database.password": password, "database.dbname": "d", "topic.prefix": text(rng) or "t",
        "sasl.jaas.config": f'x required username="u" password="{password}";', "producer.override.ssl.key.password": password,
        text(rng): text(rng), "transforms": text(rng), "tasks.max": text(rng), "database.sslpassword": password,
    }  # fmt: skip
    if kind < 0.4:
        made = json.dumps(config)
    elif kind < 0.6:
        made = json.dumps({"name": _other_name(rng), "config": config})
    elif kind < 0.8:
        made = json.dumps(json_value(rng))
    else:
        return mutated(rng, json.dumps(config).replace(password, "x").encode())
    return made.encode("utf-8", "surrogatepass")


def _exchange(target: Target, raw: bytes, seed: object) -> None:
    began = time.monotonic()
    limit = patience()
    answer = b""
    try:
        with _connected(target, limit + 30) as client:
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(1 << 16):
                answer += piece
    except TimeoutError:
        target.found(f"no answer in {limit + 30:.0f} s: {raw[:300]!r}", seed)
        return
    except OSError:
        return  # what cannot be understood may be hung up on
    spent = time.monotonic() - began
    target.answers += 1
    target.slowest = max(target.slowest, spent)
    if spent > limit:
        target.found(f"slow: an answer took {spent:.1f} s, more than {limit:.1f}: {raw[:300]!r}", seed)
    head, _, rest = answer.partition(b"\r\n\r\n")
    target.search(f"the answer to {raw[:60]!r}", answer.decode("utf-8", "replace"), seed)
    if b" 500 " in head[:20] and not _expected(rest):
        target.found(f"500 {rest[:60]!r}: {raw[:400]!r} gives {answer[-600:]!r}", seed)


def _expected(body: bytes) -> bool:
    """Kafka Connect answers 500 to a body that is not of its shape; then a message says what is wrong with it."""
    return b"Internal Server Error" not in body and b"Traceback" not in body and b"Unexpected" not in body


def _connected(target: Target, seconds: float) -> socket.socket:
    parts = urlsplit(target.worker.url)
    return socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 80), seconds)


def _asked(target: Target, what: str, seed: object) -> None:
    """A plain request is answered in time, whatever else is going on."""
    _exchange(target, b"GET /connectors HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", f"{seed} ({what})")


def slow_clients(target: Target, seed: object) -> None:
    """Some that send a byte now and then."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(_connected(target, 30)) for _ in range(_SLOW)]
        for rest in (b"GET /connectors HTTP/1.1\r\n", b"X-Slow: a", b"b", b"c"):
            for client in clients:
                with contextlib.suppress(OSError):
                    client.sendall(rest)
            _asked(target, "slow clients", seed)


def many_clients(target: Target, seed: object) -> None:
    """Many at once, each with a request."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(_connected(target, 60)) for _ in range(_MANY)]
        _asked(target, "many clients", seed)
        for client in clients:
            client.sendall(b"GET /connectors HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        for client in clients:
            if not client.recv(1 << 16).startswith(b"HTTP/1.1 200"):
                target.found("many clients: one of them was not answered", seed)


def large_bodies(target: Target, seed: object) -> None:
    """50 MB, as one text and as very many numbers; refused early or late, it may be."""
    for body in (b'{"name":"' + b"a" * _LARGE_BYTES + b'"}', b"[" + b"1," * (_LARGE_BYTES // 2) + b"1]"):
        for path in (b"/connectors", b"/connector-plugins/PostgresConnector/config/validate"):
            head = (
                b"%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            )
            with contextlib.suppress(OSError), _connected(target, 60) as client:
                client.sendall(head % (b"PUT" if b"validate" in path else b"POST", path, len(body)) + body)
                client.recv(1 << 16)
            _asked(target, "large bodies", seed)
