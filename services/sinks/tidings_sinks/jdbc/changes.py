"""What a record asks of a table: Debezium's envelopes, flat records, tombstones. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from tidings_connect.task.sink import SinkRecord
from tidings_envelope.schema import ConnectSchema
from tidings_sinks.errors import RowError
from tidings_sinks.jdbc.settings import Naming, Settings

ENVELOPE: Final = frozenset({"before", "after", "op", "source"})
"""The fields that tell an envelope from a row."""
_READ: Final = frozenset({"before", "after", "op"})
_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")
_ODD: Final = re.compile(r"[^A-Za-z0-9_]")


class Op(Enum):
    """What happens to a row."""

    WRITE = auto()
    DELETE = auto()
    TRUNCATE = auto()


@dataclass(slots=True)
class Change:
    """One record's change. Nobody changes it; to say so would cost each record a microsecond."""

    record: SinkRecord
    op: Op
    table: tuple[str, ...]
    """The names that the format makes: perhaps a schema, and the table."""
    row_schema: ConnectSchema | None = None
    row: Mapping[str, Any] | None = None
    """Of WRITE."""
    of_envelope: bool = False
    """Whether a value may be a placeholder for one that was not sent."""


class Changes:
    """Reads records.

    Args:
        settings: says what is left out, and how tables are called.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._names: dict[str, tuple[str, ...]] = {}
        placeholders = _PLACEHOLDER.findall(settings.name_format)
        self._by_topic = all(name == "topic" for name in placeholders)
        self.reads = _READ if self._by_topic else None
        """The fields of envelopes that are looked at; None: all, as the table's name may be in any of its source."""

    def read(self, record: SinkRecord) -> Change | None:
        """What a record asks for; None: nothing.

        Raises:
            RowError: it is none that a table can take.
        """
        value = record.value
        if value is None and not self._settings.deletes and not self._settings.skips_tombstones:
            raise RowError("the record has no value, and deletes are not enabled")
        if value is None:
            if not self._settings.deletes or not self._by_topic:
                return None  # a table that is named by the envelope: the delete before the tombstone was it
            return Change(record, Op.DELETE, self._table(record, None))
        if type(value) is not dict and not isinstance(value, Mapping):  # the former is much faster
            raise RowError("the value is not a struct, so that it has no columns")
        if self._settings.flat:
            return self._flat(record, value)
        if not ENVELOPE.issubset(value):
            return Change(record, Op.WRITE, self._table(record, None), record.value_schema, value)
        return self._envelope(record, value)

    def _flat(self, record: SinkRecord, value: Mapping[str, Any]) -> Change:
        if ENVELOPE.issubset(value):
            raise RowError(
                "the value is an envelope: put ExtractNewRecordState before this class of connectors"
            )
        return Change(record, Op.WRITE, self._table(record, None), record.value_schema, value)

    def _envelope(self, record: SinkRecord, value: Mapping[str, Any]) -> Change | None:
        op = value["op"]
        if op == "t":
            wanted = self._settings.truncates
            return Change(record, Op.TRUNCATE, self._table(record, value)) if wanted else None
        if op == "d":
            return Change(record, Op.DELETE, self._table(record, value)) if self._settings.deletes else None
        if op == "m":
            return None
        if op not in ("c", "r", "u") or not isinstance(value["after"], Mapping):
            raise RowError("the envelope has no op of a row, or no row after it")
        schema = record.value_schema
        row_schema = None
        if schema is not None:
            row_schema = next(field.schema for field in schema.fields if field.name == "after")
        return Change(
            record, Op.WRITE, self._table(record, value), row_schema, value["after"], of_envelope=True
        )

    def table_of(self, topic: str) -> tuple[str, ...] | None:
        """The names of a topic's table; None where its records say them."""
        return self._named(topic, {}) if self._by_topic else None

    def _table(self, record: SinkRecord, envelope: Mapping[str, Any] | None) -> tuple[str, ...]:
        if self._by_topic:
            known = self._names.get(record.topic)
            if known is None:
                known = self._names[record.topic] = self._named(record.topic, {})
            return known
        source = None if envelope is None else envelope["source"]
        if not isinstance(source, Mapping):
            raise RowError("the table's name needs the source of an envelope, and the record is none")
        return self._named(record.topic, source)

    def _named(self, topic: str, source: Mapping[str, Any]) -> tuple[str, ...]:
        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if name == "topic":
                return self._topic(topic)
            found = source.get(name.removeprefix("source."))
            if not name.startswith("source.") or not isinstance(found, str | int):
                raise RowError(f"the envelope has no {name}, which the table's name needs")
            return str(found)

        name = self._settings.tables.get(topic) or _PLACEHOLDER.sub(fill, self._settings.name_format)
        if self._settings.naming is Naming.NORMALIZED and topic not in self._settings.tables:
            name = _ODD.sub("_", name)
        return tuple(name.split(".")[-2:])

    def _topic(self, topic: str) -> str:
        return topic.replace(".", "_") if self._settings.naming is Naming.UNDERSCORES else topic
