"""What a worker group knows, as the config and status topics hold it: Kafka Connect's, in its formats.

`KafkaStorage` follows both topics; every change is applied on the event loop, in the topics' order, and `on_change` is
called. A write is done when it has come back that way (`settle`), so nothing is seen in another order than by the
other workers.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tidings_connect.config.worker import StorageTopic, WorkerConfig
from tidings_connect.errors import ConnectError
from tidings_connect.kafka.compacted_log import TopicTail
from tidings_connect.kafka.producer import AcknowledgedProducer
from tidings_connect.kafka.topics import TopicAdmin
from tidings_connect.storage.records import ConfigStore, StatusStore, StoredConnector
from tidings_connect.supervised import OnEnd, supervised_call
from tidings_connect.task_id import TaskId
from tidings_connect.threads import STORAGE
from tidings_service import TidingsError, get_logger

_DELIVERY_MS: Final = 10_000

_log = get_logger(__name__)


class Storage(Protocol):
    """Configurations and statuses."""

    configs: ConfigStore
    statuses: StatusStore
    cluster_id: str

    async def start(self) -> None: ...

    async def settle(self) -> None:
        """Return when everything that was written, by whomever, is known here.

        Raises:
            BrokerError: Kafka does not answer.
        """
        ...

    async def stop(self) -> None: ...


class KafkaStorage:
    """The topics of a distributed worker.

    Args:
        worker_id: written into statuses.
        on_change: called on the event loop after something has changed.
        on_end: called on the event loop when nothing is heard of the topics any more.
    """

    def __init__(
        self, worker: WorkerConfig, worker_id: str, on_change: Callable[[], None], on_end: OnEnd
    ) -> None:
        self._worker = worker
        self._on_change = on_change
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self.cluster_id = ""
        client = worker.common_client()
        # librdkafka waits so long for an answer on a connection that a firewall has forgotten; who asks waits longer.
        self._producer = AcknowledgedProducer({**client, "delivery.timeout.ms": _DELIVERY_MS})
        self.configs = ConfigStore(self._producer, worker.config_topic.name)
        self.statuses = StatusStore(
            AcknowledgedProducer(client), worker.status_topic.name, worker_id, self._status_lost
        )
        self._tail: TopicTail | None = None

    async def start(self) -> None:
        """Make the topics, and read them to their end.

        Raises:
            BrokerError: Kafka cannot be reached or refuses a topic.
        """
        await STORAGE.run(self._start)

    def _start(self) -> None:
        worker = self._worker
        client = worker.common_client()
        admin = TopicAdmin(client)
        self.cluster_id = admin.check_reachable()
        for topic in (worker.config_topic, worker.offset_topic, worker.status_topic):
            _ensure(admin, topic)
        names = [worker.config_topic.name, worker.status_topic.name]
        self._tail = TopicTail(
            {**client, **worker.consumer}, names, self._heard, self._unreadable, self._ended
        )
        self._tail.start()

    async def settle(self) -> None:
        assert self._tail is not None
        # A write that was not acknowledged in time may still come: whoever asked was told that it failed, and asks for
        # something else.
        await STORAGE.run(self._producer.settle)
        await STORAGE.run(self._tail.wait_end)

    async def stop(self) -> None:
        await STORAGE.run(self.statuses.flush, 5.0)
        if self._tail is not None:
            await STORAGE.run(self._tail.close)

    def _heard(self, records: list[tuple[str, bytes, bytes | None]]) -> None:
        apply = supervised_call(self._apply, "storage topics", self._on_end)
        self._loop.call_soon_threadsafe(apply, records)

    def _ended(self, error: TidingsError) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_end, error)

    def _apply(self, records: list[tuple[str, bytes, bytes | None]]) -> None:
        for topic, key, value in records:
            (self.configs if topic == self.configs.topic else self.statuses).apply(key, value)
        self._on_change()

    def _unreadable(self, error: ConnectError) -> None:
        _log.warning("the storage topics cannot be read", reason=str(error))

    def _status_lost(self, error: Exception) -> None:
        _log.warning("a status could not be written", topic=self._worker.status_topic.name, reason=str(error))


def running(connectors: Mapping[str, StoredConnector]) -> set[TaskId]:
    """What is to be distributed of the connectors of a class that this worker has: each with its first task, also where it
    has none, and its further tasks."""
    return {
        TaskId(name, task)
        for name, stored in connectors.items()
        if stored.is_ours
        for task in range(max(1, stored.tasks_now))
    }


def _ensure(admin: TopicAdmin, topic: StorageTopic) -> None:
    created = admin.ensure_topic(
        topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        config={"cleanup.policy": "compact", **topic.config},
        setting=f"{topic.kind}.storage.topic (with {topic.kind}.storage.replication.factor="
        f"{topic.replication_factor})",
    )
    if created:
        _log.info("storage topic created", topic=topic.name, setting=f"{topic.kind}.storage.topic")
