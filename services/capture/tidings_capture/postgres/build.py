"""Makes a task of its job: every part is made here, and is given what it needs."""

from contextlib import ExitStack

from tidings_capture.cdc.encoding.markers import compile_markers
from tidings_capture.cdc.incremental.chunks import ChunkTable
from tidings_capture.cdc.incremental.deleted_rows import DeletedRows
from tidings_capture.cdc.incremental.given_keys import GivenKeys
from tidings_capture.cdc.incremental.snapshot import IncrementalSnapshots
from tidings_capture.cdc.signals.channels import SignalChannels
from tidings_capture.cdc.signals.dispatch import SignalDispatch
from tidings_capture.cdc.signals.notifications import EncodedNotifications, Notifier
from tidings_capture.cdc.snapshots.blocking import BlockingSnapshots
from tidings_capture.cdc.spool import Spool
from tidings_capture.postgres.encoding.output import TaskOutput
from tidings_capture.postgres.encoding.routes import Routes
from tidings_capture.postgres.encoding.rows import ROWS
from tidings_capture.postgres.offsets.loss_recovery import LossRecovery
from tidings_capture.postgres.offsets.offset import SourceOffset, encode_offset, offset_key
from tidings_capture.postgres.offsets.positions import Positions
from tidings_capture.postgres.offsets.progress import TaskProgress
from tidings_capture.postgres.offsets.start import TaskStart
from tidings_capture.postgres.run import TaskRun
from tidings_capture.postgres.server.database import PostgresDatabase
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.settings.worker_options import spool_bounds
from tidings_capture.postgres.snapshots.snapshot import SnapshotRun
from tidings_capture.postgres.snapshots.watermarks import PostgresWatermarks
from tidings_capture.postgres.streaming.heartbeats import Heartbeats
from tidings_capture.postgres.streaming.logical_messages import MessagePlan
from tidings_capture.postgres.streaming.publication_watch import PublicationWatch
from tidings_capture.postgres.streaming.run import Beside, StreamRun
from tidings_capture.postgres.streaming.schema_changes import SchemaChangePlan
from tidings_capture.postgres.streaming.slot_feedback import SlotFeedback
from tidings_capture.postgres.streaming.stream import Stream
from tidings_capture.postgres.task_report import TaskReport
from tidings_capture.postgres.upkeep import Upkeep
from tidings_capture.postgres.wal.task_guard import TaskGuard
from tidings_connect.kafka.topic_bounds import TopicBounds
from tidings_connect.kafka.topic_keys import TopicKeys
from tidings_connect.task.channel import Report
from tidings_connect.task.topics import TaskTopics
from tidings_connect.task.transport import Delivery, TaskContext


def build_task(context: TaskContext, config: ConnectorConfig) -> TaskRun:
    """One task's parts, put together; nothing is asked of the database or of Kafka yet."""
    job = context.job
    consumer = {**job.client, **job.consumer}
    opened = ExitStack()

    # For those who need what is made last.
    def breathe() -> None:
        upkeep.breathe()

    def make_report() -> Report:
        return report.make()

    def settle() -> None:
        streaming.settle()

    def confirm() -> None:
        streaming.confirm()

    # Kafka
    topics = TaskTopics(
        context.transport.topics(),
        config.topic_creation,
        TopicBounds(job.internal_topics, config.topic_prefix, config.topics.heartbeat),
        breathe,
    )
    key = offset_key(job.connector, config.topic_prefix)
    producer, checkpoints = context.transport.open(
        Delivery[SourceOffset](
            lambda offset: {key: encode_offset(offset)},
            breathe,
            config.producer,
            config.boundary,
            config.exactly_once_required,
        )
    )
    positions = Positions(checkpoints)
    output = TaskOutput(config, job, producer, topics)
    opened.callback(output.close)

    # The database, and the plans of what is read of it
    database = PostgresDatabase(config, breathe)
    opened.callback(database.close)
    opened.callback(checkpoints.close)
    plans = output.plan_converters
    markers = compile_markers(config.conversion, *plans)
    messages = MessagePlan(config, plans, output.prepare_topic)
    schema_changes = None
    if config.schema_changes:
        schema_changes = SchemaChangePlan(
            config, plans, output.prepare_topic, lambda types: database.catalog().type_names(types)
        )
    notes = config.signals.notification_topic
    notifier = Notifier(
        config.signals,
        config.topic_prefix,
        EncodedNotifications(notes, plans, output.send, output.prepare_topic),
    )
    routes = Routes(config, database.catalog, plans, output.prepare_topic)

    # What goes on beside the work
    progress = TaskProgress()
    guard = TaskGuard(progress)
    feedback = SlotFeedback(positions, config.status_update_seconds)
    upkeep = Upkeep(context.supervision, guard, feedback, make_report)
    heartbeats = Heartbeats(config, database, guard, markers, output.send)
    blocking = BlockingSnapshots(
        config.name, database.captured, config.signals.enclose, lambda: guard.no_snapshots
    )
    incremental = IncrementalSnapshots(
        config.signals,
        config.name,
        database.captured,
        PostgresWatermarks(config.signals, database, confirm, breathe),
        ChunkTable(database, routes, config.name, output.send, counts=notifier.enabled),
        DeletedRows(
            database,
            routes,
            config.name,
            output.converters,
            lambda topic: TopicKeys(consumer, topic),
            output.send,
            tombstones=config.conversion.tombstones_on_delete,
        ),
        notifier,
        GivenKeys(database, routes, config.name, output.send, counts=False),
    )
    opened.callback(incremental.close)
    positions.incremental = incremental.state
    signals = SignalDispatch(
        config.signals,
        config.name,
        SignalChannels(config.signals, consumer, config.topic_prefix),
        ROWS,
        incremental,
        blocking.ask,
        settle,
    )
    opened.callback(signals.close)
    routes.on_route = signals.on_route

    # The work
    def prepare_stream_topics() -> None:
        if config.conversion.provide_transaction_metadata:
            output.prepare_topic(markers.transaction_topic)
        if config.heartbeat_seconds:
            output.prepare_topic(markers.heartbeat_topic)

    streaming = StreamRun(
        config,
        lambda resume: Stream(
            config,
            routes,
            markers,
            messages,
            resume,
            output.send,
            schema_changes,
            output.tolerance,
            output.left_out,
        ),
        lambda: Spool(config.protocol.memory_bytes, *spool_bounds(job.worker_properties)),
        prepare_stream_topics,
        producer,
        checkpoints,
        positions,
        feedback,
        progress,
        Beside(
            upkeep, heartbeats, PublicationWatch(config, database, positions), guard, incremental, signals,
            blocking,
        ),
        exactly_once=job.exactly_once,
    )  # fmt: skip
    opened.callback(streaming.close)
    snapshots = SnapshotRun(
        config, database, routes, output, checkpoints, notifier, progress, breathe, streaming.follow
    )
    recovery = LossRecovery(config, database, checkpoints, notifier, progress.losses, breathe)

    def stored_offset() -> bytes | None:
        return context.transport.stored().get(key)

    start = TaskStart(config, database, routes, positions, checkpoints, recovery, stored_offset, breathe)
    report = TaskReport(
        progress, streaming, routes, producer, checkpoints, output.tolerance, heartbeats, incremental
    )

    def begin_delivery() -> None:
        checkpoints.open()
        topics.find()

    return TaskRun(
        config, begin_delivery, start, snapshots, streaming, blocking, notifier, progress, upkeep, opened
    )
