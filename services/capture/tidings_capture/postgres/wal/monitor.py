"""WAL under watch: what every replication slot of a server retains, ours or not, and when it becomes too much.

A retired consumer's slot fills the primary's disk without a word; PostgreSQL shows it only to who asks. Each distinct server
that a connector names has a loop and a thread of its own, which looks every ten seconds (`wal.server`): one that hangs delays no
other. `wal.metrics` shows the last look.
"""

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tidings_capture.postgres.client import Endpoint
from tidings_capture.postgres.wal.forecast import ServerWal
from tidings_capture.postgres.wal.metrics import families
from tidings_capture.postgres.wal.server import ServerWatch
from tidings_capture.postgres.wal.slots import OwnSlot
from tidings_connect.threads import Threads
from tidings_service import get_logger

INTERVAL_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 1.0
_CONFIG_SECONDS: Final = 10.0
"""How long the connectors' configurations may take, whose secrets are in files."""

Place = tuple[str, int]
"""A server's host and port."""
After = Callable[[Place | None], Awaitable[None]]

_log = get_logger(__name__)


def place_of(endpoint: Endpoint) -> Place:
    """Of a server, whichever database."""
    return endpoint.host, endpoint.port


@dataclass(slots=True)
class _Server:
    """A server under watch."""

    watch: ServerWatch
    volume_bytes: float | None = None
    threads: Threads = field(default_factory=lambda: Threads("slots", 1))
    loop: asyncio.Task[None] | None = None

    async def look(self) -> None:
        await self.threads.run(self.watch.look, self.volume_bytes)

    def close(self) -> concurrent.futures.Future[None]:
        """Let go of the server, once the look that is under way has ended."""
        if self.loop is not None:
            self.loop.cancel()
        closed = self.threads.submit(self.watch.close)
        self.threads.shutdown()
        return closed


class WalMonitor(Collector):
    """Watches the servers of all connectors; a collector for ``/metrics``.

    Args:
        slots: the slots of the connectors there are, by connector; asked again and again, in a thread.
        interval_seconds: between two looks.
    """

    def __init__(
        self, slots: Callable[[], Mapping[str, OwnSlot]], interval_seconds: float = INTERVAL_SECONDS
    ) -> None:
        self._interval = interval_seconds
        self._slots = slots
        self._reading = Threads("slots' configurations", 1)
        self.known: Mapping[str, OwnSlot] = {}
        """The connectors' slots as last read."""
        self._servers: dict[Place, _Server] = {}

    async def run(self, after: After | None = None) -> None:
        """Look at every server, again and again, until cancelled.

        Args:
            after: what is done after each look at a server, and with None whenever the connectors have been read.
        """
        try:
            while True:
                try:
                    await self._find()
                    for place, server in self._servers.items():
                        if server.loop is None:
                            name = f"slots of {place[0]}:{place[1]}"
                            server.loop = asyncio.create_task(self._watch(place, server, after), name=name)
                    if after is not None:
                        await after(None)
                except Exception:  # noqa: BLE001 - a watch that has died without a word guards nothing
                    _log.exception("the connectors' slots could not be found; the next look follows")
                await asyncio.sleep(self._interval)
        finally:
            self.close()

    async def _watch(self, place: Place, server: _Server, after: After | None) -> None:
        while True:
            try:
                await server.look()
                if after is not None:
                    await after(place)
            except Exception:  # noqa: BLE001 - as above
                _log.exception("the look at the slots failed; the next one follows", server=place[0])
            await asyncio.sleep(self._interval)

    def close(self) -> None:
        """Let go of the servers; those that hang are not waited for."""
        concurrent.futures.wait([server.close() for server in self._servers.values()], _CLOSE_SECONDS)
        self._servers.clear()
        self._reading.shutdown()

    async def look(self) -> None:
        """Look at every server once."""
        await self._find()
        await asyncio.gather(*(server.look() for server in self._servers.values()))

    async def _find(self) -> None:
        """Learn which servers there are to be watched."""
        async with asyncio.timeout(_CONFIG_SECONDS):
            self.known = await self._reading.run(self._slots)
        wanted: dict[Place, Endpoint] = {}
        volumes: dict[Place, float] = {}
        for own in self.known.values():
            place, volume = place_of(own.endpoint), own.options.volume_bytes
            wanted[place] = own.endpoint
            if volume is not None:
                volumes[place] = min(volume, volumes.get(place, volume))
        for place in list(self._servers):
            if self._servers[place].watch.endpoint != wanted.get(place):
                self._servers.pop(place).close()
        for place, endpoint in wanted.items():
            server = self._servers.setdefault(place, _Server(ServerWatch(endpoint)))
            server.volume_bytes = volumes.get(place)

    async def in_thread(self, endpoint: Endpoint, action: Callable[..., None], *arguments: object) -> None:
        """Do something that blocks on a server, which the other servers do not wait for."""
        server = self._servers.get(place_of(endpoint))
        threads = Threads("slots", 1) if server is None else server.threads
        await threads.run(action, *arguments)
        if server is None:
            threads.shutdown()

    def server(self, endpoint: Endpoint) -> ServerWal | None:
        """What was seen of a server at the last look; None when it did not answer."""
        server = self._servers.get(place_of(endpoint))
        return server.watch.state if server is not None and server.watch.state.up else None

    def collect(self) -> Iterator[Metric]:
        """All families, from the last look."""
        states = [server.watch.state for server in list(self._servers.values())]
        return families([state for state in states if state.up])
