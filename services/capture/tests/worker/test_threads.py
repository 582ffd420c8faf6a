"""Servers that take a connection and say nothing: whoever waits for them keeps nobody else waiting."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tidings_capture.postgres.client import Endpoint, read_url
from tidings_capture.postgres.wal.monitor import WalMonitor
from tidings_capture.postgres.wal.options import WalOptions
from tidings_capture.postgres.wal.slots import OwnSlot
from tidings_connect.threads import Places, Threads
from tidings_stack.capture import CaptureWorker as Worker


@pytest.fixture
def hanging() -> Iterator[dict[int, socket.socket]]:
    """Servers, by port, that the kernel takes connections for, and that never answer."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(10)]
        for one in sockets:
            one.settimeout(60)
        yield {one.getsockname()[1]: one for one in sockets}


async def test_a_pool_starts_no_more_threads_than_it_may_and_passes_on_what_happens() -> None:
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


async def test_only_some_wait_for_the_same_place() -> None:
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


async def test_the_watch_of_one_server_waits_for_no_other(
    pg_url: str, hanging: dict[int, socket.socket]
) -> None:
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
    worker: Worker, connector_config: dict[str, str], hanging: dict[int, socket.socket]
) -> None:
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


@contextlib.contextmanager
def standing_still(backend: int) -> Iterator[None]:
    """A local server, told by the process of one of its sessions, with all its processes."""
    postmaster = int(Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(postmaster, signal.SIGSTOP)  # first, so that it starts no others
    children = [
        int(pid) for pid in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    ]
    try:
        for pid in children:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in (*children, postmaster):
            os.kill(pid, signal.SIGCONT)


def test_a_server_that_stands_still_delays_nothing_of_another(
    worker_properties: Callable[..., Path],
    start_worker: Callable[..., Worker],
    pg_server: Callable[..., Any],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    unique_name: str,
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    """Stream, look at the WAL, guard, validation and REST of a connector on one server, while another server is stopped and its
    connector is validated, stopped and resumed again and again."""
    plugin = "/connector-plugins/io.debezium.connector.postgresql.PostgresConnector/config/validate"
    server, longest = pg_server("16"), 0.0
    worker = start_worker(worker_properties("standing", tidings_wal_interval_ms="200"))
    name, stuck = connector_config["topic.prefix"], f"{unique_name}_stuck"
    parts = conninfo_to_dict(server.url)
    there = connector_config | {
        "database.port": str(server.port), "database.password": str(parts["password"]), "database.dbname": "postgres",
        "topic.prefix": stuck, "slot.name": stuck, "publication.name": stuck, "snapshot.mode": "no_data",
    }  # fmt: skip

    def ask(method: Any, path: Any, body: Any = None) -> Any:
        nonlocal longest
        began = time.monotonic()
        answer = worker.request(method, path, body)
        longest = max(longest, time.monotonic() - began)
        return answer

    done = threading.Event()

    def again_and_again(*requests: Any) -> None:
        while not done.is_set():
            for request in requests:
                worker.request(*request)

    sql("CREATE TABLE a (id int PRIMARY KEY)")
    try:
        with psycopg.connect(server.url, autocommit=True) as connection, ThreadPoolExecutor(4) as pool:
            connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
            for connector, config in ((name, connector_config), (stuck, there)):
                assert worker.request("PUT", f"/connectors/{connector}/config", config)[0] == 201
                worker.wait_task(connector, "RUNNING")
            with contextlib.ExitStack() as stack:
                stack.callback(done.set)
                stack.enter_context(standing_still(connection.info.backend_pid))
                check = ("PUT", plugin, there | {"name": stuck})
                busy = [pool.submit(again_and_again, check) for _ in range(3)]
                to = [("PUT", f"/connectors/{stuck}/{state}") for state in ("stop", "resume")]
                busy.append(pool.submit(again_and_again, *to))
                sql("INSERT INTO a VALUES (1)")
                wait_records(f"{name}.public.a", 1)
                sql(f"SELECT pg_create_logical_replication_slot('{name}_new', 'pgoutput')")
                wait_until("a look at the slots", lambda: f'"{name}_new"' in ask("GET", "/metrics")[1])
                assert ask("PUT", plugin, connector_config | {"name": name})[1]["error_count"] == 0
                guarded = connector_config | {"tidings.wal.guard.stop.snapshots": "1B"}
                assert ask("PUT", f"/connectors/{name}/config", guarded)[0] == 200

                def guard_level() -> list[Any]:
                    lines = ask("GET", "/metrics")[1].splitlines()
                    level = f'tidings_wal_guard_level{{connector="{name}"'
                    return [line.rpartition(" ")[2] for line in lines if line.startswith(level)]

                wait_until("the guard", lambda: guard_level() == ["2.0"])
                for _ in range(3):
                    assert ask("PUT", f"/connectors/{name}/pause")[0] == 202
                    worker.wait_task(name, "PAUSED")
                    assert ask("PUT", f"/connectors/{name}/resume")[0] == 202
                    worker.wait_task(name, "RUNNING")
                sql("INSERT INTO a VALUES (2)")
                wait_records(f"{name}.public.a", 2)
                assert set(ask("GET", "/connectors")[1]) == {name, stuck}
                assert not any(one.done() for one in busy)
            for one in busy:
                one.result()
            assert longest < 5.0, "a server that hangs is waited for ten seconds"
            assert worker.request("PUT", f"/connectors/{stuck}/resume")[0] == 202
            connection.execute("INSERT INTO a VALUES (1)")
            wait_records(f"{stuck}.public.a", 1)
    finally:
        for connector in (name, stuck):
            worker.request("DELETE", f"/connectors/{connector}")
        worker.end()
        server.close()
