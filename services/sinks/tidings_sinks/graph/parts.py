"""The parts of a record as statements and patterns know them: value, key, headers, time. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from tidings_connect.task.sink import SinkRecord
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_sinks.converting import Convert
from tidings_sinks.graph.settings import Binds
from tidings_sinks.graph.values import Values, flattened

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PERHAPS_JSON: Final = frozenset((ConnectType.STRING, ConnectType.BYTES))


class Parts:
    """Reads records.

    Args:
        values: converts what they hold.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._converts: dict[int, tuple[ConnectSchema, Convert | None]] = {}
        """By the schema's identity, which is kept so that no other has it."""

    def value(self, record: SinkRecord) -> Any:
        """The record's value."""
        return self._converted(record.value_schema, record.value)

    def key(self, record: SinkRecord) -> Any:
        """The record's key."""
        return self._converted(record.key_schema, record.key)

    def headers(self, record: SinkRecord) -> dict[str, Any]:
        """The record's headers; the last of several that have one name."""
        return {header.key: self._converted(header.schema, header.value) for header in record.headers}

    def event(self, record: SinkRecord) -> dict[str, Any]:
        """All parts, by the names that statements get them by."""
        return {
            "timestamp": timestamp(record),
            "header": self.headers(record),
            "key": self.key(record),
            "value": self.value(record),
        }

    def fields(self, record: SinkRecord, binds: Binds) -> dict[str, Any]:
        """All parts taken apart, by the paths that patterns name them by."""
        parts: dict[str, Any] = {}
        if binds.timestamp:
            parts[binds.timestamp] = timestamp(record)
        if binds.header:
            parts[binds.header] = self.headers(record)
        if binds.key:
            parts[binds.key] = self.key(record)
        if record.value is not None:
            parts[binds.value] = self.value(record)
        return flattened(parts)

    def _converted(self, schema: ConnectSchema | None, value: Any) -> Any:
        if value is None:
            return None
        if schema is None:
            return self._values.plain(value)
        if schema.name is None and schema.type in _PERHAPS_JSON:
            return self._parsed(value)
        known = self._converts.get(id(schema))
        if known is None:
            known = self._converts[id(schema)] = schema, self._values.parameter(schema)
        return value if known[1] is None else known[1](value)

    def _parsed(self, value: str | bytes) -> Any:
        """JSON where it is some, as Neo4j's own connector takes text."""
        try:
            return self._values.plain(orjson.loads(value))
        except ValueError:
            return value


def timestamp(record: SinkRecord) -> datetime | None:
    """When the record was written."""
    if record.timestamp is None or record.timestamp < 0:
        return None
    return _EPOCH + timedelta(milliseconds=record.timestamp)


def is_object(value: Any) -> bool:
    """Whether a record's value has fields."""
    return isinstance(value, Mapping)
