"""The supervisor: which connectors exist, what each is to do, and that it is done. Kafka Connect's herder.

One per worker, on the event loop; everything that blocks (Kafka, PostgreSQL) runs in threads. Changes are stored before
they take effect, and one at a time, so a worker that is killed comes back to what it last promised.
"""

import asyncio
from collections.abc import Iterator, Mapping

from tidings_capture.config_providers import ConfigProviderError
from tidings_capture.connector_config import read_endpoint
from tidings_capture.connector_run import ConnectorRun
from tidings_capture.errors import CaptureError
from tidings_capture.kafka import AcknowledgedProducer, TopicAdmin
from tidings_capture.options import passwords
from tidings_capture.postgres import Endpoint
from tidings_capture.stores import PAUSED, STARTED, STOPPED, ConfigStore, StatusStore, is_ours
from tidings_capture.task_channel import TaskJob
from tidings_capture.worker_config import StorageTopic, WorkerConfig
from tidings_service import Health, get_logger

MASK = "********"
"""Stands for a password in answers; a configuration that comes back with it keeps the stored one."""

_log = get_logger(__name__)


class NotFoundError(CaptureError):
    """There is no connector, or no task, of that name."""

    code = "not_found"


class ConflictError(CaptureError):
    """What was asked for contradicts what there is."""

    code = "conflict"


class Supervisor:
    """The connectors of one worker."""

    def __init__(
        self, worker: WorkerConfig, worker_id: str, health: Health, *, log_level: str, log_format: str
    ) -> None:
        self.worker = worker
        self.worker_id = worker_id
        self.cluster_id = ""
        self.runs: dict[str, ConnectorRun] = {}
        self._health = health
        self._log_level = log_level
        self._log_format = log_format
        self._lock = asyncio.Lock()
        self._status_told: dict[str, tuple[object, ...]] = {}
        producer = AcknowledgedProducer(worker.common_client())
        self._configs = ConfigStore(producer, worker.config_topic.name)
        self._statuses = StatusStore(
            AcknowledgedProducer(worker.common_client()),
            worker.status_topic.name,
            worker_id,
            self._status_lost,
        )

    async def start(self) -> None:
        """Reach Kafka, make the storage topics, and start every stored connector.

        Raises:
            BrokerError: Kafka cannot be reached or refuses a topic.
        """
        async with self._lock:  # REST answers already; what it is asked to change waits until all is known
            await asyncio.to_thread(self._prepare_storage)
            self._health.set("kafka", True)
            for name, stored in sorted(self._configs.connectors.items()):
                if is_ours(stored.config):
                    self._run(name, stored.config, stored.target_state)
                else:
                    _log.warning("a stored connector is of a class this worker does not have", connector=name)
        _log.info("worker started", worker=self.worker_id, connectors=sorted(self.runs))

    async def stop(self) -> None:
        """Stop every task; each stores its position."""
        await asyncio.gather(*(run.stop() for run in self.runs.values()))
        for run in self.runs.values():
            self._statuses.put_task(run.name, 0, "UNASSIGNED", None, run.generation)
            self._statuses.put_connector(run.name, "UNASSIGNED", None, run.generation)
        await asyncio.to_thread(self._statuses.producer.flush, 5.0)

    def run_of(self, name: str) -> ConnectorRun:
        """A connector by name.

        Raises:
            NotFoundError: there is none.
        """
        try:
            return self.runs[name]
        except KeyError:
            raise NotFoundError(f"Connector {name} not found") from None

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """A configuration with secrets in place of the references to them: for a task or a check, never for an answer.

        Raises:
            ConfigProviderError: a reference cannot be resolved.
        """
        return self.worker.providers.resolve(config)

    def endpoints(self) -> Iterator[Endpoint]:
        """The databases of the connectors, as far as their references can be resolved just now."""
        for run in self.runs.values():
            try:
                yield read_endpoint(self.resolved(run.config))
            except ConfigProviderError as error:
                _log.warning("a connector's database is not watched", connector=run.name, reason=str(error))

    def with_passwords(self, name: str, config: Mapping[str, str]) -> dict[str, str]:
        """A configuration as it came in, with passwords it left masked taken from the stored one."""
        known = self.runs[name].config if name in self.runs else {}
        return {
            key: known.get(key, value) if value == MASK and key in passwords(config) else value
            for key, value in config.items()
        }

    async def put(
        self, name: str, config: dict[str, str], *, state: str | None = None, replace: bool = True
    ) -> bool:
        """Create a connector or change its configuration; whether it was created.

        Raises:
            ConflictError: it exists and `replace` is False.
        """
        async with self._lock:
            known = self.runs.get(name)
            if known is not None and not replace:
                raise ConflictError(f"Connector {name} already exists")
            await asyncio.to_thread(self._configs.put_connector, name, config, state)
            target = state or (STARTED if known is None else known.target_state)
            if known is not None:
                await known.stop()
            self._run(name, config, target)
            _log.info("connector configured", connector=name, created=known is None)
            return known is None

    async def delete(self, name: str) -> None:
        """Stop a connector and forget it; slot, publication, topics and offsets stay."""
        async with self._lock:
            run = self.run_of(name)
            await asyncio.to_thread(self._configs.delete_connector, name)
            await run.stop()
            del self.runs[name]
            self._statuses.delete(name)
            self._status_told.pop(name, None)
            self._health_of_connectors()
            _log.info("connector deleted", connector=name)

    async def set_target(self, name: str, state: str) -> None:
        """Pause, resume or stop a connector."""
        assert state in {STARTED, PAUSED, STOPPED}
        async with self._lock:
            run = self.run_of(name)
            if run.target_state == state:
                return
            await asyncio.to_thread(self._configs.put_target_state, name, state)
            await run.stop()
            self._run(name, run.config, state)

    async def restart(self, name: str, *, only_failed: bool = False) -> None:
        """Restart a connector's task."""
        async with self._lock:
            run = self.run_of(name)
            if only_failed and run.healthy:
                return
            await run.stop()
            self._run(name, run.config, run.target_state)

    def _run(self, name: str, config: dict[str, str], target: str) -> None:
        former = self.runs.get(name)
        run = ConnectorRun(
            name,
            config,
            target,
            self._job,
            self._changed,
            stop_seconds=self.worker.graceful_stop_seconds,
        )
        if former is not None:
            run.continue_from(former)
        self.runs[name] = run
        run.start()

    def _job(self, name: str, config: dict[str, str]) -> TaskJob:
        worker = self.worker
        return TaskJob(
            connector=name,
            task=0,
            config=self.resolved(config),
            converters=worker.converters,
            client=worker.common_client(),
            producer=worker.producer,
            consumer=worker.consumer,
            offset_topic=worker.offset_topic.name,
            offset_flush_ms=worker.offset_flush_ms,
            topic_creation=worker.topic_creation,
            log_level=self._log_level,
            log_format=self._log_format,
        )

    def _prepare_storage(self) -> None:
        settings = self.worker.common_client()
        admin = TopicAdmin(settings)
        self.cluster_id = admin.check_reachable()
        for topic in (self.worker.config_topic, self.worker.offset_topic, self.worker.status_topic):
            _ensure_storage(admin, topic)
        self._configs.load({**settings, **self.worker.consumer})

    def _changed(self, run: ConnectorRun) -> None:
        now = (run.connector_state, run.has_task, run.task_state, run.trace)
        if self._status_told.get(run.name) != now:
            self._status_told[run.name] = now
            self._statuses.put_connector(run.name, run.connector_state, None, run.generation)
            if run.has_task:
                self._statuses.put_task(run.name, 0, run.task_state, run.trace, run.generation)
        self._health_of_connectors()

    def _health_of_connectors(self) -> None:
        unhealthy = [run.name for run in self.runs.values() if not run.healthy]
        self._health.set(
            "connectors", not unhealthy, f"not running: {', '.join(unhealthy)}" if unhealthy else ""
        )

    def _status_lost(self, error: Exception) -> None:
        _log.warning("a status could not be written", topic=self.worker.status_topic.name, reason=str(error))


def _ensure_storage(admin: TopicAdmin, topic: StorageTopic) -> None:
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
