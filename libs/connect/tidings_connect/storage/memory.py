"""A standalone worker's storage: configurations and statuses in memory, as in Kafka Connect; only offsets are in a file."""

import asyncio
from collections.abc import Callable

from tidings_connect.config.worker import WorkerConfig
from tidings_connect.kafka.topics import TopicAdmin
from tidings_connect.storage.records import ConfigStore, StatusStore
from tidings_connect.threads import STORAGE


class MemoryStorage:
    """What the topics are to a distributed worker.

    Args:
        on_change: called on the event loop after something has changed.
    """

    def __init__(self, worker: WorkerConfig, worker_id: str, on_change: Callable[[], None]) -> None:
        self._worker = worker
        self.cluster_id = ""
        configs, statuses = _Memory(on_change), _Memory(on_change)
        self.configs = ConfigStore(configs, "")
        self.statuses = StatusStore(statuses, "", worker_id, lambda _error: None)  # memory does not refuse
        configs.apply, statuses.apply = self.configs.apply, self.statuses.apply

    async def start(self) -> None:
        """Look for Kafka.

        Raises:
            BrokerError: no broker answers.
        """
        admin = TopicAdmin(self._worker.common_client())
        self.cluster_id = await STORAGE.run(admin.check_reachable)

    async def settle(self) -> None:
        await asyncio.sleep(0)  # what was written before is applied before

    async def stop(self) -> None: ...


class _Memory:
    """Takes records as a producer does, from any thread."""

    apply: Callable[[bytes, bytes | None], None]
    """Hears what was written, on the event loop."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()

    def put_and_wait(self, topic: str, key: bytes, value: bytes | None) -> None:  # noqa: ARG002 - there is one
        self._loop.call_soon_threadsafe(self._take, key, value)

    def put(self, topic: str, key: bytes, value: bytes | None, on_stored: Callable[[], None]) -> None:
        self.put_and_wait(topic, key, value)
        on_stored()

    def poll(self) -> None: ...

    def flush(self, seconds: float) -> None: ...

    def _take(self, key: bytes, value: bytes | None) -> None:
        self.apply(key, value)
        self._on_change()
