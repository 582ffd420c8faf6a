"""Records as HTTP requests: our sink's task beside a bare loop of aiohttp, the client library that the task uses.

Both send the same rows of ten columns to the same receiver, a process of its own that reads a request and answers 204. The task gets
decoded records: it makes JSON of Connect's values, ids, lanes of keys and, in one round, signatures; the loop is given bodies that
are ready, and looks at no answer but for its status. What is counted is the processor time of the sender.
"""

import asyncio
import gc
import multiprocessing
import time
from base64 import b64encode
from collections.abc import Callable, Coroutine
from typing import Any, Final

import aiohttp
from tests.bench.sink.search import KEY_SCHEMA, ROW_SCHEMA, refused, rows

from tidings_connect.task.sink import SinkContext, SinkRecord, TopicPartition
from tidings_connect.task.sink.connector import GC_THRESHOLD
from tidings_sinks.http.settings import read_settings
from tidings_sinks.http.task import HttpSinkTask

POLL: Final = 500
ROUNDS: Final = 3
AT_ONCE: Final = 8
TOPIC: Final = "orders"
_ANSWER: Final = b"HTTP/1.1 204 No Content\r\n\r\n"
_HEAD_ENDS: Final = b"\r\n\r\n"


class Receiver(asyncio.Protocol):
    """Answers each request as soon as its body is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._data = transport, b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(_HEAD_ENDS)) >= 0:
            head = self._data[:end].lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(self._data) < end + len(_HEAD_ENDS) + length:
                return
            self._data = self._data[end + len(_HEAD_ENDS) + length :]
            self._transport.write(_ANSWER)  # type: ignore[attr-defined]  # it is one that can be written


def receive(ports: Any) -> None:
    """Be a receiver until the process ends; its port goes into the queue."""

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Receiver, "127.0.0.1", 0)
        ports.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def task(url: str, found: list[dict[str, Any]], **options: str) -> None:
    """Send rows by the sink's task, in batches as a poll gives them."""
    named = {name.replace("_", "."): value for name, value in options.items()}
    config = {"http.url": url, "http.authorization.type": "none", "decimal.format": "NUMERIC", **named}
    sink = HttpSinkTask(read_settings(config), SinkContext("bench", 0, refused))
    at = TopicPartition(TOPIC, 0)
    for first in range(0, len(found), POLL):
        sink.put(
            [
                SinkRecord(
                    TOPIC, 0, KEY_SCHEMA, {"id": row["id"]}, ROW_SCHEMA, row, None, [], first + place, at
                )
                for place, row in enumerate(found[first : first + POLL])
            ]
        )
    sink.stop()


async def loop(url: str, bodies: list[bytes], at_once: int) -> None:
    """Send bodies by aiohttp alone, so many at once."""
    async with aiohttp.ClientSession(headers={"content-type": "application/json"}) as session:
        waiting = iter(bodies)

        async def send() -> None:
            for body in waiting:
                async with session.post(url, data=body) as answer:
                    assert answer.status == 204

        await asyncio.gather(*(send() for _ in range(at_once)))


async def made(url: str, found: list[dict[str, Any]], at_once: int) -> None:
    """The same as the task by aiohttp alone: JSON of each row, and an id beside it."""
    from tidings_envelope.json_codec import DecimalFormat, JsonCodec

    encode = JsonCodec(decimal_format=DecimalFormat.NUMERIC).encoder(ROW_SCHEMA)
    async with aiohttp.ClientSession(headers={"content-type": "application/json"}) as session:
        waiting = iter(enumerate(found))

        async def send() -> None:
            for place, row in waiting:
                headers = {"idempotency-key": f"{TOPIC}-0-{place}"}
                async with session.post(url, data=encode(row), headers=headers) as answer:
                    assert answer.status == 204

        await asyncio.gather(*(send() for _ in range(at_once)))


def ready(found: list[dict[str, Any]]) -> list[bytes]:
    """The bodies that the task makes of rows."""
    from tidings_envelope.json_codec import DecimalFormat, JsonCodec

    encode = JsonCodec(decimal_format=DecimalFormat.NUMERIC).encoder(ROW_SCHEMA)
    return [encode(row) for row in found]


def run(count: int) -> None:
    """Print what both do with so many rows."""
    gc.set_threshold(*GC_THRESHOLD)  # as `SinkConnector.run_task` does; for both sides
    found = rows(count)
    bodies = ready(found)
    secret = f"whsec_{b64encode(b'x' * 24).decode()}"
    lines = [b"\n".join(bodies[first : first + POLL]) + b"\n" for first in range(0, count, POLL)]

    def looped(given: list[bytes], at_once: int) -> Callable[[str], Coroutine[Any, Any, None]]:
        return lambda url: loop(url, given, at_once)

    many = {"tidings_http_max_in_flight": str(AT_ONCE)}
    sides: tuple[tuple[str, Callable[[str], Any]], ...] = (
        ("aiohttp, one at a time", looped(bodies, 1)),
        ("the task, one at a time", lambda url: task(url, found)),
        (f"aiohttp, {AT_ONCE} at once", looped(bodies, AT_ONCE)),
        (f"aiohttp and JSON, {AT_ONCE} at once", lambda url: made(url, found, AT_ONCE)),
        (f"the task, {AT_ONCE} at once", lambda url: task(url, found, **many)),
        (f"the task, {AT_ONCE} at once, signed", lambda url: task(url, found, tidings_http_signature_secrets=secret, **many)),
        (f"aiohttp, {POLL} records a request", looped(lines, 1)),
        (f"the task, {POLL} records a request", lambda url: task(url, found, batching_enabled="true", batch_max_size=str(POLL))),
    )  # fmt: skip
    ports: multiprocessing.Queue[int] = multiprocessing.Queue()
    receiver = multiprocessing.Process(target=receive, args=(ports,), daemon=True)
    receiver.start()
    url = f"http://127.0.0.1:{ports.get(timeout=60)}/hook"
    try:
        for number in range(ROUNDS + 1):  # the first warms what it runs on
            for name, send in sides:
                wall, processor = time.monotonic(), time.process_time()
                work = send(url)
                if work is not None:
                    asyncio.run(work)
                wall, processor = time.monotonic() - wall, time.process_time() - processor
                if number:
                    print(
                        f"{name:32} {count / wall:9,.0f} records/s {count / processor:9,.0f} per CPU second"
                    )
    finally:
        receiver.kill()
        receiver.join()
