"""Which directory a record goes to, as Confluent's partitioners have it. Pure: the same record always goes to the same."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from tidings_connect.java.text import java_text
from tidings_connect.task.sink import SinkRecord
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_sinks.errors import RowError

Directory = Callable[[SinkRecord], str]
"""The directory of a record, below its topic's.

Raises:
    RowError: it has none.
"""
Moment = Callable[[SinkRecord], int]
"""The moment of a record, in milliseconds since the epoch.

Raises:
    RowError: it has none.
"""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_PIECE: Final = re.compile(r"'([^']*)'|(Y+|y+|M+|d+|H+|m+|s+)|([^A-Za-z'])")
_FIELDS: Final = {"Y": "%Y", "y": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S"}
_MILLIS: Final = {
    "org.apache.kafka.connect.data.Timestamp": 1,
    "io.debezium.time.Timestamp": 1,
    "io.debezium.time.MicroTimestamp": 1000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}
_DATES: Final = frozenset({"org.apache.kafka.connect.data.Date", "io.debezium.time.Date"})
_DAY_MS: Final = 86_400_000


def by_partition(record: SinkRecord) -> str:
    """As ``DefaultPartitioner``."""
    return f"partition={record.original.partition}"


def by_fields(names: Sequence[str]) -> Directory:
    """As ``FieldPartitioner``: ``name=value`` for each."""

    def directory(record: SinkRecord) -> str:
        return "/".join(f"{name.rpartition('.')[2]}={safe(_value(record, name))}" for name in names)

    return directory


def by_time(pattern: str, zone: ZoneInfo, duration_ms: int, moment: Moment) -> Directory:
    """As ``TimeBasedPartitioner``: the beginning of the record's time slice, in a pattern."""
    form = strftime_of(pattern)

    def directory(record: SinkRecord) -> str:
        at = moment(record)
        try:
            local = (_EPOCH + timedelta(milliseconds=at)).astimezone(zone)
            offset = local.utcoffset() or timedelta()
            shift = offset // timedelta(milliseconds=1)
            begin = (at + shift) // duration_ms * duration_ms
            return (_EPOCH + timedelta(milliseconds=begin)).strftime(form)
        except (OverflowError, ValueError):
            raise RowError("the record's time is of no year from 1 to 9999") from None

    return directory


def strftime_of(pattern: str) -> str:
    """A ``path.format`` for `strftime`.

    Raises:
        ValueError: it has letters that are not understood.
    """
    form, at = "", 0
    while at < len(pattern):
        found = _PIECE.match(pattern, at)
        if found is None:
            raise ValueError(
                f"{pattern[at : at + 8]!r} is not understood; there are YYYY, MM, dd, HH, mm, ss and 'text'"
            )
        text, field, other = found.groups()
        if field:
            if len(field) != (4 if field[0] in "Yy" else 2):
                raise ValueError(
                    f"{field!r} is not understood; there are YYYY, MM, dd, HH, mm, ss and 'text'"
                )
            form += _FIELDS[field[0]]
        else:
            form += (text if text is not None else other).replace("%", "%%")
        at = found.end()
    return form


def of_record(record: SinkRecord) -> int:
    """As the extractor ``Record``."""
    if record.timestamp is None:
        raise RowError("the record has no timestamp")
    return record.timestamp


def of_field(name: str) -> Moment:
    """As the extractor ``RecordField``: a field with a logical type of moments, milliseconds, or ISO text."""

    def moment(record: SinkRecord) -> int:
        schema, value = _found(record, name)
        kind = "" if schema is None or schema.name is None else schema.name
        if kind in _DATES and isinstance(value, int):
            return value * _DAY_MS
        if isinstance(value, int) and not isinstance(value, bool):
            return value // _MILLIS.get(kind, 1)
        if isinstance(value, str):
            try:
                read = datetime.fromisoformat(value)
            except ValueError:
                raise RowError(f"field {name} is not a time") from None
            zoned = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
            return (zoned - _EPOCH) // timedelta(milliseconds=1)
        raise RowError(f"field {name} is not a time")

    return moment


def _value(record: SinkRecord, name: str) -> str:
    schema, value = _found(record, name)
    if value is None or isinstance(value, dict | list | bytes):
        raise RowError(f"field {name} is null, or of a type that names no directory")
    return java_text(schema, value)


def _found(record: SinkRecord, name: str) -> tuple[ConnectSchema | None, Any]:
    schema, value = record.value_schema, record.value
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise RowError(f"the record has no field {name}")
        value = value[part]
        if schema is not None:
            fields = schema.fields if schema.type is ConnectType.STRUCT else ()
            schema = next((field.schema for field in fields if field.name == part), None)
    return schema, value


def safe(text: str) -> str:
    """A name that stays one directory; bytes that are not to be in one are in percent."""
    made = "".join(
        c if c.isalnum() or c in "-_.: +@=," else "".join(f"%{b:02X}" for b in c.encode()) for c in text
    )
    return made.replace(".", "%2E") if set(made) <= {"."} else made
