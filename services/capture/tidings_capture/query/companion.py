"""What runs in the worker beside query sources: tells what they do not see (`unseen`)."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings_capture.query.config import read_query_config
from tidings_capture.query.unseen import Unseen, unseen
from tidings_connect.connector import Host
from tidings_connect.errors import ConnectError
from tidings_service import get_logger

_log = get_logger(__name__)


class UnseenCompanion(Collector):
    """Tells of a worker's query sources what they do not see; a collector for ``/metrics``.

    Args:
        is_ours: whether a configuration is a query source's.
    """

    name = "what query sources do not see"

    def __init__(self, host: Host, is_ours: Callable[[Mapping[str, str]], bool]) -> None:
        self._host = host
        self._is_ours = is_ours
        self._known: dict[str, tuple[Mapping[str, str], Sequence[Unseen]]] = {}
        """By connector, with the configuration that it was read from: secrets are not resolved at every scrape."""
        self._said: dict[str, str] = {}
        """By connector, why its configuration could not be read: it is tried at every scrape, and told once."""
        self.collectors = (self,)

    async def run(self) -> None:
        """Nothing is watched."""
        await asyncio.Event().wait()

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        gauge = GaugeMetricFamily(
            "tidings_query_unseen",
            "1 for each kind of changes that a query source never sees, as it is configured.",
            labels=["connector", "kind"],
        )
        runs = {name: run.config for name, run in dict(self._host.local_runs).items()}
        self._known = {name: known for name, known in self._known.items() if name in runs}
        self._said = {name: said for name, said in self._said.items() if name in runs}
        for name, config in runs.items():
            if self._is_ours(config):
                for one in self._of(name, config):
                    gauge.add_metric([name, one.kind], 1)
        yield gauge

    def _of(self, name: str, config: Mapping[str, str]) -> Sequence[Unseen]:
        known = self._known.get(name)
        if known is None or known[0] != config:
            try:
                found = unseen(read_query_config(self._host.resolved(config)))
            except ConnectError as error:  # its task says so, too
                if self._said.get(name) != str(error):
                    self._said[name] = str(error)
                    _log.info("not known what a query source does not see", connector=name, reason=str(error))
                return ()
            self._said.pop(name, None)
            known = self._known[name] = (dict(config), found)
        return known[1]
