"""The proxy itself: what it does to a connection is what the name says."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from faultlab.proxy import Proxy


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """In front of a server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def echo(connection: socket.socket) -> None:
            with connection:
                try:
                    while data := connection.recv(65536):
                        connection.sendall(data)
                except OSError:
                    pass

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=echo, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        with Proxy(listener.getsockname()[1]) as proxy:
            yield proxy
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
        assert said(client, b"hello") == b"hello"
        yield client


def said(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    found = b""
    while len(found) < len(data) and (more := client.recv(65536)):
        found += more
    return found


def say_twice(client: socket.socket, data: bytes = b"more") -> None:
    """The first may only be told of the end."""
    said(client, data)
    said(client, data)


def silent(client: socket.socket, seconds: float = 0.3) -> bool:
    client.settimeout(seconds)
    try:
        return client.recv(1) == b"?"
    except TimeoutError:
        return True
    finally:
        client.settimeout(60)


def test_cut(proxy: Proxy, client: socket.socket) -> None:
    assert proxy.cut() == 1
    with pytest.raises(ConnectionError):
        say_twice(client)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as other:
        assert said(other, b"again") == b"again"


def test_cut_in_the_middle_of_what_is_said(proxy: Proxy, client: socket.socket) -> None:
    proxy.cut_after(3)
    with pytest.raises(ConnectionError):
        say_twice(client, b"0123456789")


def test_hold_loses_nothing(proxy: Proxy, client: socket.socket) -> None:
    proxy.hold()
    client.sendall(b"held")
    assert silent(client)
    proxy.heal()
    assert client.recv(4) == b"held"


def test_lose_tells_nobody(proxy: Proxy, client: socket.socket) -> None:
    assert proxy.lose() == 1
    client.sendall(b"gone")
    assert silent(client)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as other:
        assert said(other, b"new") == b"new"
    assert silent(client)
    proxy.heal()
    with pytest.raises(ConnectionError):
        say_twice(client)


def test_delay(proxy: Proxy, client: socket.socket) -> None:
    proxy.delay(0.1)
    began = time.monotonic()
    assert said(client, b"slow") == b"slow"
    assert time.monotonic() - began >= 0.2


def test_refuse(proxy: Proxy, client: socket.socket) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionError):
        say_twice(client)
    with pytest.raises(ConnectionError), socket.create_connection(("127.0.0.1", proxy.port), 60) as other:
        say_twice(other)
    proxy.heal()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as other:
        assert said(other, b"hello") == b"hello"
