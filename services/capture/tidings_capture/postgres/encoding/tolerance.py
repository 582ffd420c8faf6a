"""``errors.tolerance=all``: what cannot be converted or transformed is left out, said so, counted, and kept elsewhere.

As in Kafka Connect the stages of a single record can be tolerated, conversion and transforms; not the connections, whose
errors are tried again, and not a message that cannot be read. Kafka Connect has dead letters for sinks only; their
option, ``errors.deadletterqueue.topic.name``, and headers (``__connect.errors.*``, `DeadLetterQueueReporter`) are used
here for the same. A dead letter holds the row as PostgreSQL sent it, as text, without the columns that the connector
leaves out or masks: its topic needs the access rights of the data. The log never holds a value.
"""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import orjson

from tidings_capture.cdc.cells import UNCHANGED, Cells
from tidings_capture.cdc.encoding.column_mappers import ColumnMappers
from tidings_capture.cdc.tables import Table
from tidings_capture.postgres.wire.pgoutput import Delete, Insert, Update, decode_message
from tidings_connect.data.records import Record
from tidings_connect.errors import ConnectError
from tidings_service import TidingsError, get_logger

CONVERSION: Final = "VALUE_CONVERTER"
TRANSFORMATION: Final = "TRANSFORMATION"
_PREFIX: Final = "__connect.errors."

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ToleranceOptions:
    """``errors.tolerance`` and what belongs to it."""

    all: bool = False
    log: bool = False
    """``errors.log.enable``: every record that is left out is a line in the log."""
    dead_letters: str = ""
    """``errors.deadletterqueue.topic.name``; empty: none are kept."""


class Tolerance:
    """What becomes of records that cannot be made.

    Args:
        mappers: what masks columns.
        send: queues records for a topic; within the transaction, where there is one.
        ensure_topic: creates a topic that does not exist.
    """

    def __init__(
        self,
        options: ToleranceOptions,
        connector: str,
        task: int,
        mappers: ColumnMappers,
        send: Callable[[str, list[Record]], None],
        ensure_topic: Callable[[str], None],
    ) -> None:
        self._options = options
        self._connector = connector
        self._task = task
        self._mappers = mappers
        self._send = send
        self._ensure_topic = ensure_topic
        self.errors = 0
        """Errors of single records, tolerated or not."""
        self.skipped = 0
        self.dead_letters = 0

    def row(self, error: TidingsError, message: bytes, table: Table, topic: str) -> None:
        """A row of the stream that cannot be converted.

        Args:
            error: names its position.
            message: pgoutput's.

        Raises:
            TidingsError: the error itself, when errors are not tolerated.
        """
        self._leave_out(error, CONVERSION, topic, lambda: self._row_text(message, table))

    def record(
        self, error: ConnectError, topic: str, key: bytes | None, value: Callable[[], bytes | None]
    ) -> None:
        """A record that the transforms failed on.

        Args:
            value: gives it as it was before.

        Raises:
            ConnectError: the error itself, when errors are not tolerated.
        """
        self._leave_out(error, TRANSFORMATION, topic, value, key)

    def _leave_out(
        self,
        error: TidingsError,
        stage: str,
        topic: str,
        value: Callable[[], bytes | None],
        key: bytes | None = None,
    ) -> None:
        self.errors += 1
        if not self._options.all:
            raise error
        self.skipped += 1
        if self._options.log:
            _log.error(
                "a record is left out (errors.tolerance=all)",
                connector=self._connector,
                stage=stage,
                topic=topic,
                code=error.code,
                reason=str(error),
            )
        if self._options.dead_letters:
            self._keep(error, stage, topic, key, value())

    def _keep(
        self, error: TidingsError, stage: str, topic: str, key: bytes | None, value: bytes | None
    ) -> None:
        if not self.dead_letters:
            self._ensure_topic(self._options.dead_letters)
        self.dead_letters += 1
        found = {
            "topic": topic,
            "connector.name": self._connector,
            "task.id": str(self._task),
            "stage": stage,
            "exception.class.name": type(error).__name__,
            "exception.message": str(error),
            "exception.stacktrace": "".join(traceback.format_tb(error.__traceback__)[-3:]),
        }
        headers = [(_PREFIX + name, text.encode()) for name, text in found.items()]
        self._send(self._options.dead_letters, [(key, value, headers)])

    def _row_text(self, message: bytes, table: Table) -> bytes:
        """A row as PostgreSQL sent it: every cell's text, null, or nothing for a value that it did not send."""
        decoded = decode_message(message)
        assert isinstance(decoded, Insert | Update | Delete)
        new = None if isinstance(decoded, Delete) else decoded.new
        old = None if isinstance(decoded, Insert) else decoded.old
        return orjson.dumps(
            {
                "schema": table.schema,
                "table": table.name,
                "op": {Insert: "c", Update: "u", Delete: "d"}[type(decoded)],
                "before": self._cells(old, table),
                "after": self._cells(new, table),
            }
        )

    def _cells(self, cells: Cells | None, table: Table) -> dict[str, str | None] | None:
        if cells is None:
            return None
        return {
            column.name: None if cell is None else bytes(cell).decode("utf-8", "replace")
            for column, cell in zip(table.columns, cells, strict=False)
            if cell is not UNCHANGED
            and column.name not in table.excluded_columns
            and self._mappers.rule_for(table.schema, table.name, column.name) is None
        }
