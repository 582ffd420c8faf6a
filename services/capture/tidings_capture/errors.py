"""The errors of capture, and the one table that says which of them a retry can cure.

Adapters (`postgres`, `kafka`) translate a vendor's exception into one of these with ``raise ... from``; only the
supervisor reads `retry`. What is not known is manual: a person looks before anything is tried again. Messages name a
setting or a position, never a cell value or a password.
"""

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


class SlotError(CaptureError):
    """The replication slot cannot give what follows the stored offset: going on would lose changes silently."""

    code = "slot"


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


_NEVER_KAFKA: Final = frozenset(
    {
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "_AUTHENTICATION",
        "MSG_SIZE_TOO_LARGE",
        "INVALID_CONFIG",
        "INVALID_REPLICATION_FACTOR",
        "INVALID_PARTITIONS",
        "POLICY_VIOLATION",
        "UNSUPPORTED_VERSION",
    }
)


def retry_of_kafka(code_name: str) -> Retry:
    """Whether a retry can cure an error of Kafka's, by librdkafka's name of it."""
    return Retry.NEVER if code_name in _NEVER_KAFKA else Retry.TIMED
