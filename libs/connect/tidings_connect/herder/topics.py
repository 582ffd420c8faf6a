"""The topics a connector writes to: Kafka Connect's topic tracking (KIP-558), kept in the status topic.

A topic is active from the first record on, until it is reset or the connector deleted. Records in the status topic
(`KafkaStatusBackingStore`): key ``status-topic-<topic>:connector-<connector>``, value
``{"topic":{"name","connector","task","discoverTimestamp"}}`` (milliseconds since the Unix epoch), null where forgotten.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import orjson

from tidings_connect.herder.local_task import LocalTask
from tidings_connect.storage.kafka import Storage
from tidings_connect.task_id import TaskId
from tidings_connect.threads import STORAGE

_PREFIX: Final = "status-topic-"
_SEPARATOR: Final = ":connector-"
_INTERVAL_SECONDS: Final = 1.0


def topic_status_key(topic: str, connector: str) -> bytes:
    """The key of a topic's record in the status topic."""
    return f"{_PREFIX}{topic}{_SEPARATOR}{connector}".encode()


class TopicTracker:
    """Which topics each connector has written to; what the status topic holds is what counts.

    Args:
        runs: the tasks that run here.
        enabled: ``topic.tracking.enable``.
    """

    def __init__(self, storage: Storage, runs: Mapping[TaskId, LocalTask], *, enabled: bool) -> None:
        self._storage = storage
        self._statuses = storage.statuses
        self._runs = runs
        self._enabled = enabled
        self._counted: dict[tuple[TaskId, str], int] = {}
        """Records of task and topic when last looked: a topic that was reset is active again with its next record."""

    async def topics_of(self, connector: str) -> list[str]:
        """The active topics of a connector, sorted, until this moment where it runs here; none for one that is unknown."""
        runs = [run for task_id, run in self._runs.items() if task_id.connector == connector]
        if runs:
            self.look(*runs)
            await self._settled()
        return self._topics(connector)

    def look(self, *runs: LocalTask) -> None:
        """Take note of the topics that got records since the last look."""
        if not self._enabled:
            return
        for run in runs:
            for topic, count in run.counters().records.items():
                if count and count != self._counted.get((run.id, topic)):
                    self._counted[run.id, topic] = count
                    self._found(run.id, topic)

    async def run(self) -> None:
        """Look every second, until cancelled."""
        while True:
            self.look(*self._runs.values())
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def reset(self, connector: str) -> None:
        """Forget a connector's topics; those it goes on writing to come back."""
        for topic in self._topics(connector):
            self._statuses.put_record(topic_status_key(topic, connector), None)
        await self._settled()

    async def _settled(self) -> None:
        await STORAGE.run(self._statuses.flush, 5.0)
        await self._storage.settle()

    def _topics(self, connector: str) -> list[str]:
        end = f"{_SEPARATOR}{connector}"
        names = (key.decode(errors="replace") for key in self._statuses.values)
        return sorted(
            name.removeprefix(_PREFIX).removesuffix(end)
            for name in names
            if name.startswith(_PREFIX) and name.endswith(end)
        )

    def _found(self, task: TaskId, topic: str) -> None:
        key = topic_status_key(topic, task.connector)
        if key in self._statuses.values:
            return
        status: dict[str, Any] = {
            "name": topic,
            "connector": task.connector,
            "task": task.task,
            "discoverTimestamp": time.time_ns() // 1_000_000,
        }
        self._statuses.put_record(key, orjson.dumps({"topic": status}))
