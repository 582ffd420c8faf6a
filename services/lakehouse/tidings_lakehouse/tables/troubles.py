"""Which failures are one topic's own, and which those of everything: Kafka, the catalog or the storage being away. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tidings_lakehouse.errors import DataLossError, TableConflictError
from tidings_lakehouse.formats.avro_nodes import UnsupportedSchemaError

_OF_EVERYTHING = (
    # Kafka
    "org.apache.kafka.",
    # the catalog
    "java.sql.",
    "org.sqlite.",
    "UncheckedSQLException",
    "RESTException",
    "ServiceFailureException",
    "ServiceUnavailableException",
    "CommitStateUnknownException",
    "NotAuthorizedException",
    "org.postgresql.",
    # the object store; a table's own file that is missing is NoSuchKeyException
    "software.amazon.awssdk.core.exception.",
    "software.amazon.awssdk.services.s3.model.S3Exception",
    "software.amazon.awssdk.services.s3.model.NoSuchBucketException",
    # the network
    "java.net.",
    "java.nio.channels.",
    "javax.net.ssl.",
    # this process
    "OutOfMemoryError",
    "InterruptedException",
    "ClosedByInterruptException",
    "SparkContextShutdown",
)
"""In the classes of a failure, of its causes, and of what ended a task."""
_STORAGE_IS_FULL = ("No space left on device", "Disk quota exceeded", "QuotaExceeded")
_IS_STOPPED = ("SparkContext was shut down", "stopped SparkContext")
_NAMED = re.compile(r"(?:^|: )(?:Caused by: )?([a-z]\w*(?:\.[\w$]+)+(?:Exception|Error))\b", re.MULTILINE)
_LOSS_MARKS = ("data may have been lost", "data may have been missed", "KAFKA_DATA_LOSS")
_MISTAKES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What Python raises on a schema that nobody has thought of."""
_MOST_CAUSES = 20
_LOST_RACE = "org.apache.iceberg.exceptions.CommitFailedException"


@dataclass(frozen=True)
class Trouble:
    """Why a topic cannot be written."""

    code: str
    """``table_conflict``, ``schema``, ``table`` or ``data_loss``."""
    reason: str
    """For a person; holds no value of a record."""


def is_data_loss(text: str) -> bool:
    """Whether Spark's Kafka source says that offsets are gone; which words it takes depends on when it finds out."""
    return any(mark in text for mark in _LOSS_MARKS)


def trouble_of_topic(error: BaseException) -> Trouble | None:
    """What a failure while one topic was written says of the topic; None when it is not the topic's."""
    if isinstance(error, TableConflictError | DataLossError):
        return Trouble(error.code, str(error))
    if isinstance(error, UnsupportedSchemaError):
        return Trouble("schema", str(error))
    if isinstance(error, _MISTAKES):
        return Trouble("schema", f"{type(error).__name__} while its schemas were mapped to columns")
    if not isinstance(error, PySparkException | Py4JJavaError):
        return None
    text, classes = str(error), list(_java_classes(error))
    if is_data_loss(text):
        return Trouble("data_loss", "offsets that are to be read are not on the topic any more")
    if any(mark in name for mark in _OF_EVERYTHING for name in [*classes, *_NAMED.findall(text)]):
        return None
    if any(mark in text for mark in (*_STORAGE_IS_FULL, *_IS_STOPPED)):
        return None
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    told = condition or (classes[-1] if classes else type(error).__name__)
    kind = "schema" if "AnalysisException" in type(error).__name__ else "table"
    return Trouble(kind, f"Spark or Iceberg refused: {told}")


def is_lost_race(error: BaseException) -> bool:
    """Whether Iceberg did not commit something because another commit came between."""
    if not isinstance(error, PySparkException | Py4JJavaError):
        return False
    return _LOST_RACE in [*_java_classes(error), *_NAMED.findall(str(error))]


def in_a_line(error: BaseException) -> str:
    """An error's class and the first line of what it says: of Java's, where py4j says that there was one and no more."""
    if isinstance(error, Py4JJavaError):
        name, said = str(error.java_exception.getClass().getName()), str(error.java_exception.getMessage())
    else:
        name, said = type(error).__name__, str(error)
    return f"{name}: {next(iter(said.strip().splitlines()), '')}"


def _java_classes(error: PySparkException | Py4JJavaError) -> Iterator[str]:
    """The classes of a Java exception and its causes."""
    cause: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield str(cause.getClass().getName())
        cause = cause.getCause()
