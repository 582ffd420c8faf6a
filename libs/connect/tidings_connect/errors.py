"""The errors of a Connect worker, and the one table that says which of Kafka's errors a retry can cure.

Adapters (`kafka`, and those of connectors) translate a vendor's exception into one of these with ``raise ... from``; only
the worker reads `retry`. What is not known is manual: a person looks before anything is tried again. Messages name a
setting or a position, never a cell value or a password.
"""

from typing import ClassVar, Final

from tidings_service.errors import Retry, SettingsError, TidingsError


class ConnectError(TidingsError):
    """The base of the worker's and the connectors' errors."""

    code: ClassVar[str] = "capture"


class WorkerConfigError(SettingsError):
    """The worker's properties cannot be used; the message names the file or the property."""

    code = "worker_properties"


class OptionError(ConnectError):
    """A connector option is missing, unknown, not implemented or has a wrong value; the message names it."""

    code = "option"
    default_retry = Retry.NEVER


class BrokerError(ConnectError):
    """Kafka refused a record or could not be reached.

    Args:
        kafka_code: librdkafka's name of the error, None when there is none.
    """

    code = "kafka"

    def __init__(
        self,
        message: str,
        *,
        kafka_code: str | None = None,
        hint: str | None = None,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retry=retry)
        self.kafka_code = kafka_code


class FencedError(BrokerError):
    """Another producer has taken over this task's transactional.id: whoever came last is the one that writes."""

    code = "fenced"
    default_retry = Retry.MANUAL


class FencingError(ConnectError):
    """Tasks of a connector's former configuration could not be kept from writing yet, so that none of its own starts."""

    code = "fencing"
    default_retry = Retry.TIMED


class OffsetError(ConnectError):
    """A stored source offset cannot be understood."""

    code = "offset"


class RecordError(ConnectError):
    """A record that a connector made cannot be written; the message names its topic and the field."""

    code = "record"


class TaskDiedError(ConnectError):
    """A task's process ended without saying why (killed, out of memory)."""

    code = "task_died"
    default_retry = Retry.TIMED


class SilentTaskError(ConnectError):
    """A task's process is there and says nothing."""

    code = "task_silent"
    default_retry = Retry.TIMED


class ReportError(ConnectError):
    """What a task's process says cannot be understood."""

    code = "task_channel"
    default_retry = Retry.TIMED


class LoopError(ConnectError):
    """A loop of the worker has ended that must not end: what it did is done by nobody."""

    code = "loop"
    default_retry = Retry.TIMED


class NotFoundError(ConnectError):
    """What a request names does not exist: a connector, a task, a plugin, a logger."""

    code = "not_found"


class ConflictError(ConnectError):
    """What was asked for contradicts what there is."""

    code = "conflict"


class TooManyConnectorsError(ConnectError):
    """The worker's properties allow no further connector."""

    code = "too_many_connectors"


class NotStoppedError(ConnectError):
    """A connector has to be stopped for what was asked."""

    code = "not_stopped"


class LeaseError(ConnectError):
    """A task's worker did not renew its lease in time: another worker may run the connector by now."""

    code = "lease"
    default_retry = Retry.TIMED


_GRANT: Final = "grant it to the principal of the worker's, or of producer.override., credentials"
_SETTING: Final = "correct the settings of the topic or the producer that the message names"
_KAFKA: Final[dict[str, tuple[Retry, str | None]]] = {
    # By librdkafka's name of the error (``rdkafka.h``); what is not here is timed: a broker is away or busy.
    "TOPIC_AUTHORIZATION_FAILED": (Retry.NEVER, _GRANT),
    "CLUSTER_AUTHORIZATION_FAILED": (Retry.NEVER, _GRANT),
    "GROUP_AUTHORIZATION_FAILED": (Retry.NEVER, _GRANT),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (Retry.NEVER, _GRANT),
    # librdkafka itself tries twice a second, so another attempt costs nobody an account; and a password may just be rotated.
    "SASL_AUTHENTICATION_FAILED": (Retry.TIMED, "correct sasl.jaas.config"),
    "_AUTHENTICATION": (Retry.TIMED, "correct sasl.jaas.config, or ssl.keystore.*"),
    "MSG_SIZE_TOO_LARGE": (
        Retry.NEVER,
        "raise producer.override.max.request.size and the topic's max.message.bytes, or leave the column out",
    ),
    "RECORD_LIST_TOO_LARGE": (Retry.NEVER, "lower producer.override.batch.size"),
    "INVALID_RECORD": (Retry.NEVER, "a topic with cleanup.policy=compact takes no record without a key"),
    "INVALID_CONFIG": (Retry.NEVER, _SETTING),
    "INVALID_REPLICATION_FACTOR": (Retry.NEVER, _SETTING),
    "INVALID_PARTITIONS": (Retry.NEVER, _SETTING),
    "INVALID_TRANSACTION_TIMEOUT": (
        Retry.NEVER,
        "lower transaction.timeout.ms, or raise the broker's transaction.max.timeout.ms",
    ),
    "POLICY_VIOLATION": (Retry.NEVER, _SETTING),
    "UNSUPPORTED_VERSION": (Retry.NEVER, None),
    "_INVALID_ARG": (Retry.NEVER, _SETTING),
    "_FENCED": (Retry.MANUAL, None),
    "PRODUCER_FENCED": (Retry.MANUAL, None),
    "INVALID_PRODUCER_EPOCH": (Retry.MANUAL, None),
}


def retry_of_kafka(code_name: str, text: str = "") -> Retry:
    """Whether a retry can cure an error of Kafka's, by librdkafka's name of it and what the brokers say."""
    return _of_kafka(code_name, text)[0]


def hint_of_kafka(code_name: str, text: str = "") -> str | None:
    """What a person can do about it."""
    return _of_kafka(code_name, text)[1]


def _of_kafka(code_name: str, text: str) -> tuple[Retry, str | None]:
    # Brokers that have just started are fenced until the controller has heard of them, and a topic can be put on none.
    if code_name == "INVALID_REPLICATION_FACTOR" and "currently fenced" in text:
        return Retry.TIMED, "the brokers are starting"
    return _KAFKA.get(code_name, (Retry.TIMED, None))
