"""What can go wrong in the lakehouse job, each with a stable `code` and a `hint`."""

from tidings_service import Retry, TidingsError


class LakehouseError(TidingsError):
    """Something about the tables, the topics or the job went wrong."""

    code = "lakehouse"


class KafkaUnreachableError(LakehouseError):
    """The brokers of TIDINGS_KAFKA do not answer."""

    code = "kafka_unreachable"
    default_retry = Retry.TIMED


class KafkaRefusedError(LakehouseError):
    """The brokers do not know the login of TIDINGS_KAFKA_*, or it lacks a right."""

    code = "kafka_refused"


class RegistryUnreachableError(LakehouseError):
    """The schema registry of TIDINGS_REGISTRY does not answer, or refuses what the job asks."""

    code = "registry_unreachable"
    default_retry = Retry.TIMED


class DataLossError(LakehouseError):
    """Offsets that the job has to read are not on the topic any more."""

    code = "data_loss"


class TableConflictError(LakehouseError):
    """Two topics claim one table."""

    code = "table_conflict"


class SecondWriterError(LakehouseError):
    """Another job writes to the warehouse."""

    code = "second_writer"


class GatewayError(LakehouseError):
    """The JVM that runs Spark could not be started."""

    code = "spark_gateway"


class QueryError(LakehouseError):
    """A statement given to `tidings-lakehouse sql` cannot be run."""

    code = "query"
    default_retry = Retry.NEVER


class HistoryError(LakehouseError):
    """The logs cannot be written as the records they came from."""

    code = "history"
    default_retry = Retry.NEVER


class ReplayError(LakehouseError):
    """The rules cannot be evaluated over the logs as the live service would have done it."""

    code = "replay"
    default_retry = Retry.NEVER


class LossError(LakehouseError):
    """The loss of a topic's records cannot be accepted, as there is none."""

    code = "no_loss"
    default_retry = Retry.NEVER


class DatabaseError(LakehouseError):
    """A database that a reader needs (the catalog's, or the source that is audited) does not answer or refuses."""

    code = "database"
    default_retry = Retry.TIMED


class CatalogError(LakehouseError):
    """The server of a REST catalog does not answer, or refuses."""

    code = "catalog"
    default_retry = Retry.TIMED


class MomentError(LakehouseError):
    """A moment cannot be shown: it is not complete in all tables, or there is no such one."""

    code = "moment"
    default_retry = Retry.NEVER


class AuditError(LakehouseError):
    """The lake cannot be compared with its source."""

    code = "audit"
    default_retry = Retry.NEVER


class RepairError(LakehouseError):
    """Rows of the lake cannot be told again: the worker, the connector or their number does not allow it."""

    code = "repair"
    default_retry = Retry.NEVER


class ErasureError(LakehouseError):
    """Rows cannot be erased as it was asked, or some of them could not be."""

    code = "erasure"
    default_retry = Retry.NEVER
