"""Whose record a quarantined one is: its key and value, decoded once more as far as that goes. No I/O but the registry.

What the quarantine holds could not be decoded as the tables want it, and can often be read nevertheless: JSON, an Avro key whose
value is broken, a schema that has come to the registry since. Of what cannot be read nobody can say whose it is.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import fastavro

from tidings_lakehouse.erasing.selection import Condition, Selection
from tidings_lakehouse.formats.registry import SchemaSource

_UNFIT = (EOFError, LookupError, ValueError, TypeError, ArithmeticError, AttributeError, struct.error)
"""What fastavro raises when bytes do not fit a schema."""
_HEADER = 5
_ATTRIBUTE = "ce_"
_EITHER = ("before", "after")
_PLAIN = (bool, int, str, Decimal)


class Unread:
    """Bytes that cannot be read."""


_UNREAD = Unread()


class RecordReader:
    """Decodes keys and values; asks the registry once for each schema."""

    def __init__(self, schemas: SchemaSource) -> None:
        self._schemas = schemas
        self._parsed: dict[int, Any] = {}

    def read(self, data: bytes | None) -> Any:
        """What bytes hold; None when there are none, `Unread` when they cannot be read.

        Raises:
            RegistryUnreachableError: the registry does not answer.
        """
        if data is None:
            return None
        if data[:1] == b"\0" and len(data) >= _HEADER:
            return self._read_avro(data)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            return _UNREAD
        if isinstance(found, dict) and found.keys() == {"schema", "payload"}:
            return found["payload"]
        return found

    def _read_avro(self, data: bytes) -> Any:
        schema_id = int.from_bytes(data[1:_HEADER], "big")
        if schema_id not in self._parsed:
            self._parsed[schema_id] = self._parse(schema_id)
        if self._parsed[schema_id] is None:
            return _UNREAD
        body = io.BytesIO(data[_HEADER:])
        try:
            found = fastavro.schemaless_reader(body, self._parsed[schema_id], None)
        except _UNFIT:
            return _UNREAD
        return found if body.tell() == len(data) - _HEADER else _UNREAD

    def _parse(self, schema_id: int) -> Any:
        try:
            schema = self._schemas.by_id(schema_id)
            return None if schema is None else fastavro.parse_schema(schema)
        except (fastavro.schema.SchemaParseException, RecursionError, *_UNFIT):
            return None


def is_of(
    selection: Selection,
    key: Any,
    value: Any,
    headers: Sequence[tuple[str, bytes | None]],
    *,
    is_change: bool,
) -> bool | None:
    """Whether a record is one of those that are selected; None when that cannot be told.

    Args:
        key: what the key holds, see `RecordReader.read`.
        value: likewise.
        is_change: it is a change of a row, not a business event.
    """
    by_key = _holds(key, selection.conditions, {}) if is_change else None
    if by_key is not None:
        return by_key
    if value is None:  # a tombstone, whose key does not have the columns
        return None if isinstance(key, Unread) else False
    if not isinstance(value, dict):
        return None
    if not is_change:
        return _holds(value, selection.conditions, _attributes(headers))
    rows = [value.get(part) for part in _EITHER]
    if all(row is None for row in rows):
        return None
    found = [_holds(row, selection.conditions, {}) for row in rows if row is not None]
    return True if True in found else None if None in found else False


def _attributes(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
    return {
        name.lower(): (data or b"").decode("utf-8", "replace")
        for name, data in headers
        if name.lower().startswith(_ATTRIBUTE)
    }


def _holds(row: Any, conditions: Sequence[Condition], more: Mapping[str, Any]) -> bool | None:
    """Whether all conditions hold of a row; None when it lacks a column, or has one whose value is not to be compared."""
    if not isinstance(row, dict):
        return None
    found = [_is_equal(_value({**row, **more}, one.column), one.value) for one in conditions]
    return False if False in found else None if None in found else True


def _value(row: Mapping[str, Any], column: str) -> Any:
    if column in row:
        return row[column]
    outer, dot, inner = column.partition(".")
    return _value(row[outer], inner) if dot and isinstance(row.get(outer), dict) else _UNREAD


def _is_equal(value: Any, text: str) -> bool | None:
    if value is None:
        return False
    if not isinstance(value, _PLAIN):
        return None
    if isinstance(value, str):
        return value == text
    if isinstance(value, bool):
        return str(value).lower() == text.lower()
    try:
        return Decimal(value) == Decimal(text)
    except ArithmeticError:
        return None
