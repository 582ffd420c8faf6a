"""The errors of capture, and the one table that says which of them a retry can cure.

Adapters (`postgres`, `kafka`) translate a vendor's exception into one of these with ``raise ... from``; only the
supervisor reads `retry`. What is not known is manual: a person looks before anything is tried again. Messages name a
setting or a position, never a cell value or a password.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from tidings_service.errors import Retry, SettingsError, TidingsError


class CaptureError(TidingsError):
    """The base of capture's errors."""

    code: ClassVar[str] = "capture"


class WorkerConfigError(SettingsError):
    """The worker's properties cannot be used; the message names the file or the property."""

    code = "worker_properties"


class OptionError(CaptureError):
    """A connector option is missing, unknown, not implemented or has a wrong value; the message names it."""

    code = "option"
    default_retry = Retry.NEVER


class PostgresError(CaptureError):
    """PostgreSQL refused something or could not be reached.

    Args:
        sqlstate: the five characters of the SQLSTATE, None when the server could not be asked.
    """

    code = "postgres"

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str | None = None,
        hint: str | None = None,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retry=retry or retry_of_sqlstate(sqlstate))
        self.sqlstate = sqlstate


class CatalogError(CaptureError):
    """The database does not hold what the options ask for: a table, a publication, ``wal_level=logical``."""

    code = "catalog"


class LossError(CaptureError):
    """What follows the stored offset cannot be had in full: going on would lose changes silently.

    Args:
        reason: a short stable word for metrics.
        tables: the tables (schema, name) that it is about; None: all that are captured.
    """

    code = "loss"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        tables: Sequence[tuple[str, str]] | None = None,
        hint: str | None = None,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retry=retry)
        self.reason = reason
        self.tables = tables


class SlotError(LossError):
    """The replication slot is missing, lost, or not where it was."""

    code = "slot"


class PublicationError(LossError):
    """The publication has not held every captured table all the time."""

    code = "publication"


class HistoryError(LossError):
    """The server is another one, or its history is not the one that the stored offset is a position of."""

    code = "history"


class GuardError(CaptureError):
    """The guard interrupted something, so that the slot moves on."""

    code = "guard"
    default_retry = Retry.TIMED


class BrokerError(CaptureError):
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


class OffsetError(CaptureError):
    """A stored source offset cannot be understood."""

    code = "offset"


class TaskDiedError(CaptureError):
    """A task's process ended without saying why (killed, out of memory)."""

    code = "task_died"
    default_retry = Retry.TIMED


class SilentTaskError(CaptureError):
    """A task's process is there and says nothing."""

    code = "task_silent"
    default_retry = Retry.TIMED


class ReportError(CaptureError):
    """What a task's process says cannot be understood."""

    code = "task_channel"
    default_retry = Retry.TIMED


class LoopError(CaptureError):
    """A loop of the worker has ended that must not end: what it did is done by nobody."""

    code = "loop"
    default_retry = Retry.TIMED


class NotFoundError(CaptureError):
    """What a request names does not exist: a connector, a task, a plugin, a logger."""

    code = "not_found"


class ConflictError(CaptureError):
    """What was asked for contradicts what there is."""

    code = "conflict"


class TooManyConnectorsError(CaptureError):
    """The worker's properties allow no further connector."""

    code = "too_many_connectors"


class NotStoppedError(CaptureError):
    """A connector has to be stopped for what was asked."""

    code = "not_stopped"


class LeaseError(CaptureError):
    """A task's worker did not renew its lease in time: another worker may run the connector by now."""

    code = "lease"
    default_retry = Retry.TIMED


_RETRY_OF_SQLSTATE: Final[dict[str | None, Retry]] = {
    # Looked up by the whole SQLSTATE first, then by its class. PostgreSQL documentation, "PostgreSQL Error Codes".
    None: Retry.TIMED,  # no server answered, or the connection was cut
    "55006": Retry.TIMED,  # the slot is still held by a walsender that has not noticed its client's end
    "08": Retry.TIMED,  # connection exception
    "25": Retry.TIMED,  # transaction state, after a failover
    "28": Retry.NEVER,  # wrong password or role: trying again only locks the account
    "40": Retry.TIMED,  # rollback: serialization failure, deadlock
    "53": Retry.TIMED,  # insufficient resources: connections, memory, disk
    "57": Retry.TIMED,  # operator intervention: shutdown, starting up, terminated
    "58": Retry.TIMED,  # the server's own input and output
}


def retry_of_sqlstate(sqlstate: str | None) -> Retry:
    """Whether a retry can cure an error of PostgreSQL's."""
    if sqlstate in _RETRY_OF_SQLSTATE:
        return _RETRY_OF_SQLSTATE[sqlstate]
    return _RETRY_OF_SQLSTATE.get((sqlstate or "")[:2], Retry.MANUAL)


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


def retry_of_kafka(code_name: str) -> Retry:
    """Whether a retry can cure an error of Kafka's, by librdkafka's name of it."""
    return _KAFKA.get(code_name, (Retry.TIMED, None))[0]


def hint_of_kafka(code_name: str) -> str | None:
    """What a person can do about it."""
    return _KAFKA.get(code_name, (Retry.TIMED, None))[1]
