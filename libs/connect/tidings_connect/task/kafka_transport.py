"""How a task reaches Kafka, as its job says."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidings_connect.config.exactly_once import ENABLED, REQUIRED, SUPPORT, WORKER_SETTING, transactional_id
from tidings_connect.config.sink_options import LETTERS
from tidings_connect.data.records import Producer
from tidings_connect.data.subscription import Assignments, Subscribe
from tidings_connect.errors import FencingError, OptionError
from tidings_connect.kafka.producer import IN_FLIGHT, AcknowledgedProducer, RecordProducer
from tidings_connect.kafka.topics import TopicAdmin, read_compacted
from tidings_connect.kafka.transactional_producer import TransactionalProducer
from tidings_connect.storage.offset_file import OffsetFile, read_offsets
from tidings_connect.storage.records import config_digest
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.checkpoints import AcknowledgedCheckpoints, Checkpoints
from tidings_connect.task.exactly_once import TransactionalCheckpoints
from tidings_connect.task.topics import TopicMaker
from tidings_connect.task.transport import Delivery
from tidings_service import get_logger

if TYPE_CHECKING:
    from tidings_connect.kafka.group_consumer import GroupConsumer

P = TypeVar("P")
_log = get_logger(__name__)


class KafkaTransport:
    """Kafka, as a task's job says."""

    def __init__(self, job: TaskJob) -> None:
        self._job = job

    def open(self, delivery: Delivery[P]) -> tuple[Producer, Checkpoints[P]]:
        """See `Transport`."""
        job, on_wait = self._job, delivery.on_wait
        if delivery.exactly_once_required and not job.exactly_once:
            # Checked when a connector is stored; the worker's properties may have changed since.
            raise OptionError(
                f"{SUPPORT}={REQUIRED}, but the worker does not have {WORKER_SETTING}={ENABLED}",
                hint=f"set {WORKER_SETTING}={ENABLED} in the worker's properties, or {SUPPORT}=requested",
            )
        settings = {**job.client, **job.producer, **delivery.producer}
        if str(settings.get(IN_FLIGHT, 1)).strip() != "1":
            _log.warning(
                "more than one request in flight: records may be lost when a partition's leader has just changed",
                setting=IN_FLIGHT,
                connector=job.connector,
            )
        interval = min(job.offset_flush_ms / 1000, 1.0)
        if job.exactly_once:
            transactional = TransactionalProducer(
                settings, transactional_id(job.group, job.connector, job.task), on_wait=on_wait
            )
            return transactional, TransactionalCheckpoints(
                transactional,
                job.offset_topic,
                delivery.encode,
                delivery.boundary,
                interval_seconds=interval,
                verify=self._verify_config,
            )
        producer = RecordProducer(settings, on_wait=on_wait)
        offsets = (
            AcknowledgedProducer(job.client) if job.offset_file is None else OffsetFile(Path(job.offset_file))
        )
        return producer, AcknowledgedCheckpoints(
            producer,
            offsets,
            job.offset_topic,
            delivery.encode,
            interval_seconds=interval,
            on_wait=on_wait,
        )

    def _verify_config(self) -> None:
        """A task that took long to get here may have taken its transactional.id from a later one, or be one too many."""
        job = self._job
        if job.config_digest:
            records = read_compacted({**job.client, **job.consumer}, job.config_topic)
            if config_digest(records.get(f"connector-{job.connector}".encode(), b"")) != job.config_digest:
                raise FencingError("the connector's configuration changed while the task started")

    def stored(self) -> Mapping[bytes, bytes]:
        """From the offsets topic, or from a standalone worker's file."""
        job = self._job
        if job.offset_file is not None:
            return read_offsets(Path(job.offset_file))
        return read_compacted({**job.client, **job.consumer}, job.offset_topic)

    def subscribe(self, wanted: Subscribe, assignments: Assignments) -> "GroupConsumer":
        """See `SinkTransport`."""
        from tidings_connect.kafka.group_consumer import GroupConsumer  # noqa: PLC0415 - sources need it not

        return GroupConsumer({**self._job.client, **self._job.consumer}, wanted, assignments)

    def letters(self, topic: str, replication_factor: int, settings: Mapping[str, str]) -> RecordProducer:
        """See `SinkTransport`."""
        job = self._job
        TopicAdmin({**job.client, **job.admin}).ensure_topic(
            topic, partitions=1, replication_factor=replication_factor, config={}, setting=LETTERS
        )
        return RecordProducer({**job.client, **job.producer, **settings})

    def topics(self) -> TopicMaker | None:
        """Through an admin client, where ``topic.creation.enable`` allows it."""
        job = self._job
        return TopicAdmin({**job.client, **job.admin}) if job.topic_creation else None
