"""A pooler or a proxy before a PostgreSQL, as PgBouncer or a load balancer is; prints its port, and runs until it is ended."""

import argparse
import contextlib
import socket
import threading

_CHUNK = 65536


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("host")
    options.add_argument("port", type=int)
    options.add_argument("--pools", action="store_true", help="say a process of its own at the greeting")
    options.add_argument("--no-streams", action="store_true", help="refuse replication connections")
    options.add_argument("--idle", type=float, help="end a connection that was silent for so many seconds")
    given = options.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0], given), daemon=True).start()


def serve(client: socket.socket, given: argparse.Namespace) -> None:
    """One connection, from its greeting to its end."""
    with client, socket.create_connection((given.host, given.port)) as server:
        begun = client.recv(_CHUNK)
        if b"replication" in begun and given.no_streams:
            text = b"SFATAL\0C08P01\0Munsupported startup parameter: replication\0\0"
            client.sendall(b"E" + (len(text) + 4).to_bytes(4, "big") + text)
            return
        server.sendall(begun)
        back = threading.Thread(target=pump, args=(server, client, given.idle, given.pools), daemon=True)
        back.start()
        pump(client, server, given.idle, greets=False)
        back.join()


def pump(one: socket.socket, other: socket.socket, idle: float | None, greets: bool) -> None:
    """Pass on until one side ends, or has been silent for too long."""
    one.settimeout(idle)
    with contextlib.suppress(OSError):
        while data := one.recv(_CHUNK):
            # BackendKeyData: K, its length 12, the process, a key (documentation of PostgreSQL, "Message Formats").
            at = data.find(b"K\0\0\0\x0c") if greets else -1
            if at >= 0:
                data, greets = data[: at + 5] + b"\0\0\0\x01" + data[at + 9 :], False
            other.sendall(data)
    for end in (one, other):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
