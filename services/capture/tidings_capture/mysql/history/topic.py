"""Debezium's schema history, which it reads when it starts: written so that a connector can move back to it; never read here.

A record has the connector's partition, the position, and a definition (DDL) with the tables behind it (``tableChanges``). At
the beginning of a snapshot these are the tables as the catalog has them. Of a statement of the log no tables are told, since
the catalog knows those of now only: Debezium's parser makes them of the statement then, as it does when it reads the log itself.
The format: ``io.debezium.relational.history.HistoryRecord`` and ``JsonTableChangeSerializer``, looked at in a topic of 3.5.0.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import orjson

from tidings_capture.mysql.config import MariaDbConfig
from tidings_capture.mysql.history.options import HISTORY_TOPIC, HistoryOptions
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.schema_topic import Structure
from tidings_connect.kafka.single_log import SingleLog


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

    def structure(self, told: Structure, offset: Offset) -> None:
        """One definition of those that would make all tables as they are at a position."""
        self._append(told.database, told.ddl, told.changes, offset.stored())

    def define(self, statements: Iterable[tuple[str, str]], before: Offset, events: int) -> None:
        """A statement of the log.

        Args:
            statements: what it is told as, each with its database.
            before: the position before its transaction.
            events: how many of the transaction's were read before it.
        """
        position = {**before.stored(), "event": events}
        for database, statement in statements:
            self._append(database, statement, (), position)

    def _append(
        self, database: str, ddl: str, changes: Sequence[Mapping[str, Any]], position: Mapping[str, Any]
    ) -> None:
        record = {
            "source": self._source,
            "position": position,
            "ts_ms": time.time_ns() // 1_000_000,
            "databaseName": database,
            "ddl": ddl,
            "tableChanges": [_document(one) for one in changes],
        }
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
