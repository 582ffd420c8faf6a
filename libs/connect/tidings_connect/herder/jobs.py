"""What the worker hands to a connector's task: the connector's configuration with its secrets, and the worker's own."""

from collections.abc import Mapping

from tidings_connect import renewals
from tidings_connect.config.exactly_once import ENABLED
from tidings_connect.config.override_policy import check_overrides
from tidings_connect.config.secrets import MASK, hidden_texts
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.task.channel import TaskJob
from tidings_connect.task_id import TaskId


def worker_secrets(worker: WorkerConfig) -> dict[str, str]:
    """What logs show in place of the worker's own secrets, by secret."""
    found: dict[str, str] = {}
    for settings in (worker.client, worker.producer, worker.consumer, worker.admin, worker.converters):
        found |= hidden_texts(settings)
    return found


def task_job(
    worker: WorkerConfig,
    task_id: TaskId,
    config: Mapping[str, str],
    *,
    log_level: str,
    log_levels: Mapping[str, str],
    log_format: str,
) -> TaskJob:
    """A task's job.

    Args:
        config: of the task, as it is stored.
        log_levels: those that were changed by logger while the worker ran.

    Raises:
        OptionError: the configuration overrides a client's setting that the worker's policy protects.
        ConfigProviderError: a reference to a secret cannot be resolved.
    """
    check_overrides(
        worker.override_policy, config, worker.bootstrap_servers
    )  # the policy may be stricter than when it was stored
    resolved = worker.providers.resolve(config)
    return TaskJob(
        connector=task_id.connector,
        task=task_id.task,
        config=resolved,
        hidden={
            **worker_secrets(worker),
            **{renewal.new: MASK for renewal in renewals.known()},
            **hidden_texts(resolved),
            **worker.providers.references(config),
        },
        converters=worker.converters,
        renewals=renewals.known(),
        client=worker.common_client(),
        producer=worker.producer,
        consumer=worker.consumer,
        admin=worker.admin,
        offset_topic=worker.offset_topic.name,
        offset_file=worker.offset_file,
        offset_flush_ms=worker.offset_flush_ms,
        topic_creation=worker.topic_creation,
        internal_topics=[
            topic.name for topic in (worker.config_topic, worker.offset_topic, worker.status_topic)
        ],
        most_topics=worker.most_topics,
        worker_properties=worker.connector_properties,
        group=worker.group_id,
        exactly_once=worker.exactly_once == ENABLED,
        config_topic=worker.config_topic.name,
        limits=worker.limits,
        log_level=log_level,
        log_levels=dict(log_levels),
        log_format=log_format,
    )
