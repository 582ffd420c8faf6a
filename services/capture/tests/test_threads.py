"""Servers that take a connection and say nothing: whoever waits for them keeps nobody else waiting."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest

from tidings_capture.postgres import Endpoint, read_url
from tidings_capture.threads import Places, Threads
from tidings_capture.wal import WalMonitor
from tidings_capture.wal_options import WalOptions
from tidings_capture.wal_slots import OwnSlot


@pytest.fixture
def hanging() -> Iterator[dict[int, socket.socket]]:
    """Servers, by port, that the kernel takes connections for, and that never answer."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(10)]
        for one in sockets:
            one.settimeout(60)
        yield {one.getsockname()[1]: one for one in sockets}


async def test_a_pool_starts_no_more_threads_than_it_may_and_passes_on_what_happens():
    pool, gate, both = Threads("test", 2), threading.Event(), threading.Barrier(2)

    def work(number: int) -> int:
        if not gate.is_set():
            both.wait(60)
            gate.set()
        return 1 // number

    given = [asyncio.create_task(pool.run(work, number)) for number in (1, 0, 1)]
    await asyncio.to_thread(gate.wait, 60)
    names = [thread for thread in threading.enumerate() if thread.name == "test"]
    assert len(names) == 2
    assert all(thread.daemon for thread in names)
    assert await given[0] == await given[2] == 1
    with pytest.raises(ZeroDivisionError):
        await given[1]
    pool.shutdown()
    for thread in names:
        await asyncio.to_thread(thread.join)


async def test_only_some_wait_for_the_same_place():
    places, inside, most = Places(2), 0, 0

    async def visit(place: str) -> None:
        nonlocal inside, most
        async with places.at(place):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1

    await asyncio.gather(*(visit("a") for _ in range(5)))
    assert most == 2
    await asyncio.gather(*(visit(str(number)) for number in range(5)))
    assert most == 5
    assert not places._limits


async def test_the_watch_of_one_server_waits_for_no_other(pg_url: str, hanging: dict[int, socket.socket]):
    endpoints = {
        "good": read_url(pg_url),
        **{f"{port}": Endpoint("127.0.0.1", port, "u", "d") for port in hanging},
    }
    slots = {name: OwnSlot(endpoint, "s", WalOptions()) for name, endpoint in endpoints.items()}
    monitor = WalMonitor(lambda: slots, 0.02)
    looked: list[tuple[str, int] | None] = []
    good, enough = endpoints["good"], asyncio.Event()

    async def after(place: tuple[str, int] | None) -> None:
        looked.append(place)
        if looked.count((good.host, good.port)) == 3:
            enough.set()

    watching = asyncio.create_task(monitor.run(after))
    try:
        async with asyncio.timeout(60):
            await enough.wait()
        state = monitor.server(good)
        assert state is not None
        assert state.up
        assert set(looked) == {None, (good.host, good.port)}, "a server that hangs has not been waited for"
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def test_a_worker_answers_while_checks_wait_for_servers_that_hang(
    worker, connector_config, hanging: dict[int, socket.socket]
):
    """Configurations on servers that hang are checked for ten seconds each: what is asked for meanwhile is answered first."""
    check = "/connector-plugins/io.debezium.connector.postgresql.PostgresConnector/config/validate"
    name = connector_config["topic.prefix"]

    def validate(port: str) -> str:
        found = {"name": name, "database.hostname": "127.0.0.1", "database.port": port}
        status, _ = worker.request("PUT", check, connector_config | found)
        assert status == 200
        return port

    def good() -> str:
        for _ in range(3):
            assert worker.request("GET", "/metrics")[0] == 200
        status, body = worker.request("PUT", check, connector_config | {"name": name})
        assert (status, body["error_count"]) == (200, 0)
        assert worker.request("GET", f"/connectors/{name}/offsets")[0] == 404
        return "good"

    with contextlib.ExitStack() as connections, ThreadPoolExecutor(len(hanging) + 1) as pool:
        asked = [pool.submit(validate, str(port)) for port in hanging]
        for server in list(hanging.values())[:6]:  # asyncio's own pool has six threads on two cores
            connections.enter_context(server.accept()[0])
        asked.append(pool.submit(good))
        assert next(as_completed(asked)).result() == "good"
