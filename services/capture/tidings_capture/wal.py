"""WAL under watch: what every replication slot of a server retains, ours or not, and when it becomes too much.

A retired consumer's slot fills the primary's disk without a word; PostgreSQL shows it only to who asks. One look every
ten seconds per distinct server that a connector names, in a thread (`wal_server`); `wal_metrics` shows the last one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tidings_capture.postgres import Endpoint
from tidings_capture.wal_forecast import ServerWal
from tidings_capture.wal_metrics import families
from tidings_capture.wal_server import ServerWatch
from tidings_capture.wal_slots import OwnSlot
from tidings_service import get_logger

INTERVAL_SECONDS: Final = 10.0

_log = get_logger(__name__)


class WalMonitor(Collector):
    """Watches the servers of all connectors; a collector for ``/metrics``.

    Args:
        slots: the slots of the connectors there are, by connector; asked before every look.
        interval_seconds: between two looks.
    """

    def __init__(
        self, slots: Callable[[], Mapping[str, OwnSlot]], interval_seconds: float = INTERVAL_SECONDS
    ) -> None:
        self._interval = interval_seconds
        self._slots = slots
        self.known: Mapping[str, OwnSlot] = {}
        """The connectors' slots as of the last look."""
        self._watches: dict[tuple[str, int], ServerWatch] = {}

    async def run(self, after: Callable[[], Awaitable[None]] | None = None) -> None:
        """Look at every server, again and again, until cancelled.

        Args:
            after: what is done after each look.
        """
        try:
            while True:
                try:
                    await self.look()
                    if after is not None:
                        await after()
                except Exception:  # noqa: BLE001 - a watch that has died without a word guards nothing
                    _log.exception("the look at the slots failed; the next one follows")
                await asyncio.sleep(self._interval)
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the servers."""
        for watch in self._watches.values():
            watch.close()

    async def look(self) -> None:
        """Look at every server once."""
        wanted: dict[tuple[str, int], Endpoint] = {}
        volumes: dict[tuple[str, int], float] = {}
        self.known = self._slots()
        for own in self.known.values():
            endpoint, volume = own.endpoint, own.options.volume_bytes
            key = (endpoint.host, endpoint.port)
            wanted[key] = endpoint
            if volume is not None:
                volumes[key] = min(volume, volumes.get(key, volume))
        for key in list(self._watches):
            if key not in wanted or self._watches[key].endpoint != wanted[key]:
                self._watches.pop(key).close()
        for key, endpoint in wanted.items():
            self._watches.setdefault(key, ServerWatch(endpoint))
        # At the same time: a server that does not answer must not hide the others.
        looks = (asyncio.to_thread(watch.look, volumes.get(key)) for key, watch in self._watches.items())
        await asyncio.gather(*looks)

    async def in_thread(self, action: Callable[..., None], *arguments: object) -> None:
        """Do something that blocks."""
        await asyncio.to_thread(action, *arguments)

    def server(self, endpoint: Endpoint) -> ServerWal | None:
        """What was seen of a server at the last look; None when it did not answer."""
        watch = self._watches.get((endpoint.host, endpoint.port))
        return watch.state if watch is not None and watch.state.up else None

    def collect(self) -> Iterator[Metric]:
        """All families, from the last look."""
        return families([watch.state for watch in self._watches.values() if watch.state.up])
