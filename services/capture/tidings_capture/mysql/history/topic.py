"""Debezium's schema history, which it reads when it starts: written so that a connector can move back to it.

It is read here only where the log does not name the columns of tables; see `structures`.

A record has the connector's partition, the position, and a definition (DDL) with the tables behind it (``tableChanges``). At
the beginning of a snapshot these are the tables as the catalog has them. Of a statement of the log no tables are told, since
the catalog knows those of now only: Debezium's parser makes them of the statement then, as it does when it reads the log itself.
The format: ``io.debezium.relational.history.HistoryRecord`` and ``JsonTableChangeSerializer``, looked at in a topic of 3.5.0.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import orjson

from tidings_capture.mysql.history.options import HISTORY_TOPIC, HistoryOptions
from tidings_capture.mysql.offset import COMMIT, Offset
from tidings_capture.mysql.schemas.schema_topic import Structure
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_connect.errors import OffsetError
from tidings_connect.kafka.single_log import SingleLog

_NOTHING: Final = "SET @tidings = 0"
"""A statement that alters nothing: Debezium's parser reads it when it reads the history."""


class Log(Protocol):
    """Where the records go."""

    def ensure(self) -> None:
        """See `SingleLog`."""
        ...

    def is_empty(self) -> bool:
        """See `SingleLog`."""
        ...

    def append(self, value: bytes) -> None:
        """See `SingleLog`."""
        ...

    def values(self) -> Iterator[bytes]:
        """See `SingleLog`."""
        ...


class SchemaHistory:
    """Writes the history of one connector. Every method raises `BrokerError`."""

    def __init__(self, prefix: str, log: Log) -> None:
        self._source = {"server": prefix}
        self._log = log

    @property
    def is_missing(self) -> bool:
        """Whether there is none, as where the connector ran without one."""
        return self._log.is_empty()

    def begin(self) -> None:
        """Create the topic where there is none."""
        self._log.ensure()

    def structure(self, told: Structure, offset: Offset, kept: Mapping[str, Any] | None = None) -> None:
        """One definition of those that would make all tables as they are at a position; `kept` as of `define`."""
        self._append(told.database, told.ddl, told.changes, offset.stored(), kept)

    def define(
        self,
        statements: Iterable[tuple[str, str]],
        before: Offset,
        events: int,
        kept: Mapping[str, Any],
    ) -> None:
        """A statement of the log.

        Args:
            statements: what it is told as, each with its database.
            before: the position before its transaction.
            events: how many of the transaction's were read before it.
            kept: fields of a record that Debezium does not know, where the log does not name columns (`structures`).
        """
        position = {**before.stored(), "event": events}
        told = list(statements) or ([("", _NOTHING)] if kept else [])
        for database, statement in told:
            self._append(database, statement, (), position, kept)

    def keep(self, kept: Mapping[str, Any], place: Offset) -> None:
        """Tables as they are at a place of the log; see `structures`."""
        self._append("", _NOTHING, (), place.stored(), kept)

    def records(self) -> Iterator[Mapping[str, Any]]:
        """All records, from the first on.

        Raises:
            OffsetError: one is not JSON.
        """
        for value in self._log.values():
            try:
                record = orjson.loads(value)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                raise OffsetError(
                    "a record of the schema history is not a JSON object",
                    hint="is schema.history.internal.kafka.topic the topic of another use?",
                )
            yield record

    def _append(
        self,
        database: str,
        ddl: str,
        changes: Sequence[Mapping[str, Any]],
        position: Mapping[str, Any],
        kept: Mapping[str, Any] | None = None,
    ) -> None:
        record: dict[str, Any] = {
            "source": self._source,
            "position": {name: value for name, value in position.items() if name != COMMIT},
            "ts_ms": time.time_ns() // 1_000_000,
            "databaseName": database,
            "ddl": ddl,
            "tableChanges": [_document(one) for one in changes],
        }
        record |= kept or {}
        self._log.append(orjson.dumps(record))


def open_history(config: MariaDbConfig) -> SchemaHistory | None:
    """A connector's; None where none is configured."""
    options: HistoryOptions | None = config.history
    if options is None:
        return None
    log = SingleLog(options.topic, options.producer, options.consumer, HISTORY_TOPIC)
    return SchemaHistory(config.prefix, log)


def _document(change: Mapping[str, Any]) -> dict[str, Any]:
    """A table's change as the history has it; see `structure.change`."""
    found = {"type": change["type"], "id": change["id"]}
    table = change["table"]
    if table is not None:
        found["table"] = {
            "defaultCharsetName": table["defaultCharsetName"],
            "primaryKeyColumnNames": table["primaryKeyColumnNames"],
            "columns": [_column(column) for column in table["columns"]],
            "attributes": [],
        }
        found["comment"] = table["comment"]
    return found


def _column(column: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and defaults that are not there have no field."""
    left_out = {
        name for name in ("nativeType", "length", "scale", "defaultValueExpression") if column[name] is None
    }
    found = {name: value for name, value in column.items() if name not in left_out}
    return {**found, "enumValues": column["enumValues"] or []}
