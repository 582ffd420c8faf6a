"""What becomes of a sink's records that cannot be read or written: ``errors.tolerance``, and dead letters.

As Kafka Connect's ``DeadLetterQueueReporter``: the record as it stood in its topic, with its own headers, and with
``errors.deadletterqueue.context.headers.enable`` those that say where it comes from and what was wrong.
"""

from collections.abc import Callable, Mapping
from typing import Final

from tidings_connect.config.sink_options import LETTERS, LETTERS_CONTEXT, LETTERS_REPLICATION, LOG_RECORDS
from tidings_connect.data.records import Producer
from tidings_connect.data.subscription import Consumed
from tidings_connect.errors import RecordError
from tidings_service import TidingsError, get_logger, safe_trace

KEY: Final = "KEY_CONVERTER"
VALUE: Final = "VALUE_CONVERTER"
HEADER: Final = "HEADER_CONVERTER"
TRANSFORMATION: Final = "TRANSFORMATION"
PUT: Final = "TASK_PUT"
_PREFIX: Final = "__connect.errors."
_SLICE_SECONDS: Final = 0.05

_log = get_logger(__name__)


class Letters:
    """Takes the records that are left out.

    Args:
        open_producer: gives the producer of a topic, which it creates with so many replicas; called for the first letter.
        on_wait: called while waiting for Kafka; may raise to give up.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        connector: str,
        task: int,
        open_producer: Callable[[str, int], Producer],
        on_wait: Callable[[], None],
    ) -> None:
        self._tolerates = config.get("errors.tolerance", "none").strip().lower() == "all"
        self._logs = config.get("errors.log.enable", "false").strip().lower() == "true"
        self._logs_times = config.get(LOG_RECORDS, "false").strip().lower() == "true"
        self._topic = config.get(LETTERS, "").strip()
        self._replication = int(config.get(LETTERS_REPLICATION, "").strip() or "3")
        self._context = config.get(LETTERS_CONTEXT, "false").strip().lower() == "true"
        self._connector, self._task = connector, task
        self._open_producer, self._on_wait = open_producer, on_wait
        self._producer: Producer | None = None
        self.errors = 0
        """Errors of single records, tolerated or not."""
        self.skipped = 0
        self.written = 0
        """Dead letters."""

    def leave_out(self, record: Consumed, stage: str, class_name: str, error: Exception) -> None:
        """Leave a record out.

        Args:
            class_name: of the converter or transform that failed, or of the task.

        Raises:
            RecordError: errors are not tolerated; names the record's position.
        """
        self.errors += 1
        reason = str(error) if isinstance(error, TidingsError) else type(error).__name__
        place = f"topic {record.topic}, partition {record.partition}, offset {record.offset}"
        if not self._tolerates:
            raise RecordError(
                f"{place}: {stage} failed: {error if _says_no_value(error) else type(error).__name__}",
                hint="errors.tolerance=all leaves such records out, and errors.deadletterqueue.topic.name keeps them",
            ) from None
        self.skipped += 1
        if self._logs:
            _log.error(
                "a record is left out (errors.tolerance=all)",
                connector=self._connector,
                task=self._task,
                stage=stage,
                place=place,
                **(_times(record) if self._logs_times else {}),
                reason=reason if isinstance(error, TidingsError) else type(error).__name__,
            )
        if self._topic:
            self._keep(record, stage, class_name, error)

    def flush(self) -> None:
        """Wait until the letters are stored: only then may what they stand for count as done.

        Raises:
            BrokerError: Kafka refused one.
        """
        if self._producer is not None:
            while not self._producer.flush(_SLICE_SECONDS):
                self._on_wait()

    def _keep(self, record: Consumed, stage: str, class_name: str, error: Exception) -> None:
        if self._producer is None:
            self._producer = self._open_producer(self._topic, self._replication)
        headers = list(record.headers)
        if self._context:
            said = str(error) if _says_no_value(error) else type(error).__name__
            found = {
                "topic": record.topic,
                "partition": str(record.partition),
                "offset": str(record.offset),
                "connector.name": self._connector,
                "task.id": str(self._task),
                "stage": stage,
                "class.name": class_name,
                "exception.class.name": type(error).__name__,
                "exception.message": said,
                "exception.stacktrace": safe_trace(error),
            }
            headers += [(_PREFIX + name, text.encode()) for name, text in found.items()]
        self._producer.send_one(self._topic, record.key, record.value, headers, None, record.timestamp)
        self.written += 1


def _times(record: Consumed) -> dict[str, str | int | None]:
    """What Kafka Connect logs of a record beside its place, by ``errors.log.include.messages``: no values."""
    kind = "LogAppendTime" if record.is_append_time else "CreateTime"
    return {"timestamp_ms": record.timestamp, "timestamp_type": kind}


def _says_no_value(error: Exception) -> bool:
    """Whether an error's words are ours, which name positions and types; anybody else's may be a value."""
    return isinstance(error, TidingsError) or type(error).__module__.startswith("tidings_")
