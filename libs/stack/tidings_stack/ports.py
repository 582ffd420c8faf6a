"""Free ports on the loopback interface.

A port is taken from below the range in which the kernel picks ports for outgoing connections; otherwise a client could
be given a server's port while that server is stopped. A lock file reserves it among all stacks of this user.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
import time
from pathlib import Path
from typing import TextIO

from tidings_stack.errors import StackError

LOOPBACK = "127.0.0.1"
FIRST, LAST = 15000, 32000


class PortReservations:
    """Ports reserved until `release` or the end of the process."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.gettempdir()) / f"tidings-ports-{os.getuid()}"
        self._held: list[TextIO] = []

    def reserve(self, first: int = FIRST, last: int = LAST) -> int:
        """Return a port nobody listens on and no other stack has reserved.

        Args:
            first, last: where from, for a server that takes no other port.
        """
        self._directory.mkdir(mode=0o700, exist_ok=True)
        for _ in range(200):
            port = random.randint(first, last)  # noqa: S311 (not a secret)
            file = (self._directory / str(port)).open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            if is_free(port) and _is_still(file):
                self._held.append(file)
                return port
            file.close()
        raise StackError(f"no free port between {first} and {last} on {LOOPBACK}")

    def release(self) -> None:
        """Give all ports back."""
        for file in self._held:
            with contextlib.suppress(OSError):
                Path(file.name).unlink()
            file.close()
        self._held.clear()


def _is_still(file: TextIO) -> bool:
    """Whether the locked file is the one at its path; its last holder may have removed it in between."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), Path(file.name).stat())
    return False


def is_free(port: int) -> bool:
    """Whether nobody listens on the port, on any interface."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 (bound for a moment, never listening)
        except OSError:
            return False
    return True


def accepts(port: int, host: str = LOOPBACK, timeout: float = 0.5) -> bool:
    """Whether a server accepts connections on the port."""
    try:
        with socket.create_connection((host, port), timeout=timeout):
            return True
    except OSError:
        return False


def wait_until_closed(port: int, seconds: float = 10.0) -> bool:
    """Wait until nobody accepts connections on the port; whether that happened in time."""
    deadline = time.monotonic() + seconds
    while accepts(port, timeout=0.2):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
