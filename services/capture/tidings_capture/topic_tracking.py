"""The topics a connector writes to: Kafka Connect's topic tracking (KIP-558), kept in the status topic.

A topic is active from the first record on, until it is reset or the connector deleted. Records in the status topic
(`KafkaStatusBackingStore`): key ``status-topic-<topic>:connector-<connector>``, value
``{"topic":{"name","connector","task","discoverTimestamp"}}`` (milliseconds since the Unix epoch), null where forgotten.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any, Final

import orjson

from tidings_capture.connector_run import ConnectorRun
from tidings_capture.stores import StatusStore

_PREFIX: Final = "status-topic-"
_SEPARATOR: Final = ":connector-"
_INTERVAL_SECONDS: Final = 1.0


def topic_status_key(topic: str, connector: str) -> bytes:
    """The key of a topic's record in the status topic."""
    return f"{_PREFIX}{topic}{_SEPARATOR}{connector}".encode()


class TopicTracker:
    """Which topics each connector has written to; what the status topic holds is what counts.

    Args:
        statuses: the status topic.
        enabled: ``topic.tracking.enable``.
    """

    def __init__(self, statuses: StatusStore, *, enabled: bool) -> None:
        self._statuses = statuses
        self._enabled = enabled
        self._counted: dict[tuple[str, str], int] = {}
        """Records of connector and topic when last looked: a topic that was reset is active again with its next record."""

    def topics(self, connector: str) -> list[str]:
        """The active topics of a connector, sorted; none for one that is unknown."""
        end = f"{_SEPARATOR}{connector}"
        names = (key.decode(errors="replace") for key in self._statuses.values)
        return sorted(
            name.removeprefix(_PREFIX).removesuffix(end)
            for name in names
            if name.startswith(_PREFIX) and name.endswith(end)
        )

    def look(self, runs: Collection[ConnectorRun]) -> None:
        """Take note of the topics that got records since the last look."""
        if not self._enabled:
            return
        for run in runs:
            for topic, count in run.counters().records.items():
                if count and count != self._counted.get((run.name, topic)):
                    self._counted[run.name, topic] = count
                    self._found(run.name, topic)

    async def run(self, runs: Callable[[], Collection[ConnectorRun]]) -> None:
        """Look every second, until cancelled."""
        while True:
            self.look(runs())
            await asyncio.sleep(_INTERVAL_SECONDS)

    def reset(self, connector: str) -> None:
        """Forget a connector's topics; those it goes on writing to come back."""
        for topic in self.topics(connector):
            self._statuses.put_record(topic_status_key(topic, connector), None)

    def _found(self, connector: str, topic: str) -> None:
        key = topic_status_key(topic, connector)
        if key in self._statuses.values:
            return
        status: dict[str, Any] = {
            "name": topic,
            "connector": connector,
            "task": 0,
            "discoverTimestamp": time.time_ns() // 1_000_000,
        }
        self._statuses.put_record(key, orjson.dumps({"topic": status}))
