"""A running worker: random requests and signals, slow and many clients, and a search for secrets in all that it says.

What is planted: the database's password, which the connector refers to in a file; another one that stands in requests; and
a cell. None of them may be in an answer, in the log or in the metrics; the first one and the cell not in Kafka Connect's
topics either.
"""

import contextlib
import json
import os
import resource
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition

from fuzzing.making import json_value, mutated, text
from fuzzing.running import MOST_FINDINGS, Outcome
from tidings_stack import Stack
from tidings_stack.capture import CaptureWorker, CaptureWorkers
from tidings_stack.connect import connector_settings
from tidings_stack.postgres import create_database
from tidings_stack.waiting import wait_for

ANSWER_SECONDS = 1.0
"""On an idle machine; see `patience`."""
GROWTH_BYTES = 150 << 20
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
_FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


def patience() -> float:
    """How long an answer may take now: a second where nothing else runs."""
    return ANSWER_SECONDS * max(3.0, 3.0 * os.getloadavg()[0] / (os.cpu_count() or 1))


@dataclass
class Target:
    """A worker with a connector, and what must stay secret."""

    worker: CaptureWorker
    bootstrap: str
    database: str
    name: str
    signal_file: Path
    secrets: dict[str, str]
    outcome: Outcome
    answers: int = 0
    slowest: float = 0.0
    seen: set[str] = field(default_factory=set)

    def found(self, what: str, seed: object) -> None:
        kind = what.split(":", maxsplit=1)[0]
        if kind not in self.seen:
            self.seen.add(kind)
            self.outcome.findings.append(f"seed {seed}: {what}")


@contextlib.contextmanager
def opened(
    workers: CaptureWorkers, bootstrap: str, database: str, name: str, directory: Path
) -> Iterator[Target]:
    """A worker of its own, with a connector that streams."""
    cell, stated = f"cell-{secrets.token_hex(8)}", f"stated-{secrets.token_hex(8)}"
    parts = psycopg.conninfo.conninfo_to_dict(database)
    password = str(parts["password"])
    (directory / "secrets.properties").write_text(f"password={password}\n")
    signal_file = directory / "signals"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE rows (id int PRIMARY KEY, v text)")
        connection.execute("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
        connection.execute("INSERT INTO rows VALUES (1, %s)", (cell,))
    properties = workers.properties(
        name,
        {"config.providers": "file", "config.providers.file.class": _FILE_PROVIDER, "tidings.signal.directory": str(directory), "offset.flush.interval.ms": "500",
         "producer.max.block.ms": "60000"},
    )  # fmt: skip
    worker = workers.start(properties)
    config = connector_settings(database, **_connector(name, directory, signal_file))
    status, answer = worker.request("PUT", f"/connectors/{name}/config", config)
    assert status == 201, answer
    worker.wait_task(name, "RUNNING")
    known = {"the database's password": password, "a password in requests": stated, "a cell": cell}
    target = Target(worker, bootstrap, database, name, signal_file, known, Outcome("worker"))
    try:
        yield target
    finally:
        worker.request("DELETE", f"/connectors/{name}")


def _connector(name: str, directory: Path, signal_file: Path) -> dict[str, str]:
    return {
        "database.password": f"${{file:{directory / 'secrets.properties'}:password}}",
        "topic.prefix": name,
        "slot.name": name.replace("-", "_"),
        "publication.name": name.replace("-", "_"),
        "publication.autocreate.mode": "all_tables",
        "signal.data.collection": "public.signals",
        "signal.enabled.channels": "source,file,kafka",
        "signal.file": str(signal_file),
        "signal.kafka.topic": f"{name}-signals",
        "signal.poll.interval.ms": "200",
        "errors.retry.delay.max.ms": "500",
        "slot.drop.on.stop": "true",
    }


def run(target: Target, seed: int, seconds: float) -> Outcome:
    """Everything, for about so long."""
    before = _rss(target)
    deadline = time.monotonic() + seconds
    large_at, number = time.monotonic() + seconds / 3, 0
    crowds = [_slow_clients, _many_clients, _large_bodies]
    while time.monotonic() < deadline and len(target.outcome.findings) < MOST_FINDINGS:
        rng = Random(f"{seed}/worker/{number}")
        if crowds and time.monotonic() > large_at:
            crowds.pop()(target, f"{seed}/{number}")
        else:
            _request(target, rng, f"{seed}/{number}")
            if number % 5 == 0:
                _signal(target, rng)
        number += 1
        if target.worker.process.poll() is not None:
            target.found(f"the worker has ended with {target.worker.process.poll()}", f"{seed}/{number}")
            return target.outcome
    target.outcome.cases = number
    target.outcome.slowest_seconds = target.slowest
    _after(target, seed, before)
    return target.outcome


def _after(target: Target, seed: int, before: int) -> None:
    """The worker works, has not grown, and has said nothing that it should not."""
    with psycopg.connect(target.database, autocommit=True) as connection:
        connection.execute("INSERT INTO rows VALUES (2, 'after') ON CONFLICT DO NOTHING")
    state = target.worker.task(target.name)
    if state["state"] != "RUNNING":
        target.found(f"the connector is {str(state)[:1500]}", seed)
    with contextlib.suppress(AssertionError):
        wait_for("memory", lambda: _rss(target) - before < GROWTH_BYTES, 10)
    grown = _rss(target) - before
    if grown > GROWTH_BYTES:
        target.found(f"memory: the worker takes {grown >> 20} MB more", seed)
    log = target.worker.log.read_text("utf-8", "replace")
    _search(target, "the log", log, seed)
    at = log.find("Traceback (most recent call last)")
    if at >= 0:
        target.found(f"the log has a trace: {log[max(0, at - 300) : at + 1500]}", seed)
    for path in (
        "/metrics",
        "/connectors?expand=status&expand=info",
        f"/connectors/{target.name}/config",
        "/admin/loggers",
    ):
        _search(target, path, str(target.worker.request("GET", path)[1]), seed)
    _search_topics(target, seed)


def _search(target: Target, where: str, said: str, seed: object) -> None:
    for what, secret in target.secrets.items():
        if secret in said:
            at = said.find(secret)
            target.found(f"{where} says {what}: ...{said[max(0, at - 200) : at]}", seed)


def _search_topics(target: Target, seed: int) -> None:
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": "fuzz", "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "fetch.wait.max.ms": 20})  # fmt: skip
    try:
        topics = consumer.list_topics(timeout=30).topics
        for topic in (t for t in topics if t.startswith(target.name)):
            data = topic in {
                f"{target.name}.public.rows",
                f"{target.name}.public.signals",
                f"{target.name}-signals",
            }
            places = [TopicPartition(topic, number, 0) for number in topics[topic].partitions]
            left = sum(high - low for low, high in (consumer.get_watermark_offsets(p, 30) for p in places))
            consumer.assign(places)
            until = time.monotonic() + 5
            while left > 0 and time.monotonic() < until:
                for message in consumer.consume(500, 0.2):
                    left -= 1
                    whole = repr((message.key(), message.value(), message.headers()))
                    for what, secret in target.secrets.items():
                        allowed = (what == "a cell" and data) or what == "a password in requests"
                        if secret in whole and not allowed:
                            target.found(f"topic {topic} holds {what}", seed)
    finally:
        consumer.close()


def _rss(target: Target) -> int:
    """Of the worker's processes."""
    total = 0
    for pid in {target.worker.process.pid, *_descendants(target.worker.process.pid)}:
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    return total


def _descendants(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [*children, *(deeper for child in children for deeper in _descendants(child))]
    return []


# Requests

_PATHS = ("/", "/health", "/connectors", "/connectors/{n}", "/connectors/{n}/config", "/connectors/{n}/status",
          "/connectors/{n}/restart", "/connectors/{n}/tasks", "/connectors/{n}/tasks/0/status", "/connectors/{n}/tasks/{t}/restart",
          "/connectors/{n}/topics", "/connectors/{n}/topics/reset", "/connectors/{n}/offsets", "/connector-plugins",
          "/connector-plugins/{n}/config", "/connector-plugins/{p}/config/validate", "/connectors/{n}/{t}", "/admin/loggers",
          "/admin/loggers/{t}", "/{t}", "/connectors/{n}/tidings/position", "/metrics", "/healthz", "/readyz", "/wal")  # fmt: skip
_PLUGINS = ("PostgresConnector", "io.debezium.connector.postgresql.PostgresConnector", "x", "")
_ONLY_OTHERS = ("DELETE", "PUT", "POST", "PATCH")
"""Methods that could stop the connector whose life is watched."""


def _request(target: Target, rng: Random, seed: object) -> None:
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
    _search(target, f"the answer to {raw[:60]!r}", answer.decode("utf-8", "replace"), seed)
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


def _slow_clients(target: Target, seed: object) -> None:
    """Some that send a byte now and then."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(_connected(target, 30)) for _ in range(_SLOW)]
        for rest in (b"GET /connectors HTTP/1.1\r\n", b"X-Slow: a", b"b", b"c"):
            for client in clients:
                with contextlib.suppress(OSError):
                    client.sendall(rest)
            _asked(target, "slow clients", seed)


def _many_clients(target: Target, seed: object) -> None:
    """Many at once, each with a request."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(_connected(target, 60)) for _ in range(_MANY)]
        _asked(target, "many clients", seed)
        for client in clients:
            client.sendall(b"GET /connectors HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        for client in clients:
            if not client.recv(1 << 16).startswith(b"HTTP/1.1 200"):
                target.found("many clients: one of them was not answered", seed)


def _large_bodies(target: Target, seed: object) -> None:
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


# Signals


def _signal(target: Target, rng: Random) -> None:
    """Through one of the channels."""
    data = {"data-collections": [rng.choice(("public.rows", "public.rows", text(rng), "(a+)+$"))], "type": "incremental",
            "additional-conditions": [{"data-collection": "public.rows", "filter": text(rng)}], "message": text(rng)}  # fmt: skip
    if rng.random() < 0.5:
        data = {**data, rng.choice(list(data)): json_value(rng)}
    kind = rng.choice(
        ("log", "log", "execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", text(rng))
    )
    whole = {"id": text(rng)[:40] + str(rng.randrange(10**9)), "type": kind, "data": data}
    line = json.dumps(whole)
    match rng.randrange(3):
        case 0:
            with psycopg.connect(target.database, autocommit=True) as connection:
                connection.execute(
                    "INSERT INTO signals VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    (whole["id"].replace("\0", ""), kind.replace("\0", ""), json.dumps(data)),
                )
        case 1:
            with target.signal_file.open("ab") as file:
                file.write((mutated(rng, line.encode()) if rng.random() < 0.5 else line.encode()) + b"\n")
        case _:
            producer = Producer({"bootstrap.servers": target.bootstrap, "log_level": 0})
            value = mutated(rng, line.encode()) if rng.random() < 0.5 else line.encode()
            producer.produce(f"{target.name}-signals", key=target.name.encode(), value=value)
            producer.flush(10)


def run_with_servers(seed: int, seconds: float) -> Outcome:
    """With servers of its own, by hand."""
    with (
        tempfile.TemporaryDirectory() as directory,
        Stack(("pg", "kafka")) as stack,
        CaptureWorkers(Path(directory), stack.kafka.url) as workers,
        opened(
            workers, stack.kafka.url, create_database(stack.pg.url, "fuzz"), f"fuzz{seed}", Path(directory)
        ) as target,
    ):
        outcome = run(target, seed, seconds)
        print(f"worker: {target.answers} answers", flush=True)
        return outcome
