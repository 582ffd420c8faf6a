"""Connect's values as text: what ``Values.convertToString`` makes and SimpleHeaderConverter writes.

Specified by ``org.apache.kafka.connect.data.Values`` (Kafka 4.3): JSON-like, except that Decimals are plain numbers, control
characters are not escaped, and Connect's Date, Time and Timestamp are ISO text without quotes, in UTC; Java takes the time
zone that its machine is in.
"""

import base64
import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from tidings_connect.data.schemas import get
from tidings_envelope.java.numbers import double_json, float_json
from tidings_envelope.schema import ConnectSchema, ConnectType

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
DAY_MS: Final = 86_400_000
UNIT_MS: Final[Mapping[str | None, int]] = {
    "org.apache.kafka.connect.data.Date": DAY_MS,
    "org.apache.kafka.connect.data.Time": 1,
    "org.apache.kafka.connect.data.Timestamp": 1,
}
"""Milliseconds that one of the stored numbers stands for, by the logical type's name."""


def connect_text(schema: ConnectSchema | None, value: Any) -> str:
    """A value as text: ``Values.convertToString``."""
    return _text(schema, value, embedded=False)


def struct_text(fields: Sequence[tuple[str, ConnectSchema]], values: Sequence[Any]) -> bytes:
    """A key as the text of a header: what stands in ``__debezium.newkey`` and ``__debezium.oldkey``."""
    parts = [
        f"{_quoted(name)}:{_text(schema, value, embedded=True)}"
        for (name, schema), value in zip(fields, values, strict=True)
    ]
    return ("{" + ",".join(parts) + "}").encode()


def date_text(milliseconds: int) -> str:
    """A moment as ISO text; the form follows from the number: the first day of 1970 is a time, whole days are dates."""
    moment = EPOCH + datetime.timedelta(milliseconds=milliseconds)
    clock = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if milliseconds < DAY_MS:
        return clock
    day = f"{moment.year:04d}-{moment:%m-%d}"
    return day if milliseconds % DAY_MS == 0 else f"{day}T{clock}"


def number_text(schema: ConnectSchema | None, value: float) -> str:
    """A floating point number as Java writes it."""
    is_float = schema is not None and schema.type is ConnectType.FLOAT32
    return (float_json if is_float else double_json)(value).decode().strip('"')


def _text(schema: ConnectSchema | None, value: Any, *, embedded: bool) -> str:  # noqa: PLR0911 - one per type
    if value is None:
        return "null"
    if schema is not None and schema.name in UNIT_MS:
        return date_text(value * UNIT_MS[schema.name])
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return number_text(schema, value)
        case int() | Decimal():
            return str(value)
        case bytes():
            text = base64.b64encode(value).decode()
            return f'"{text}"' if embedded else text
        case list():
            items = schema.items if schema is not None else None
            return "[" + ",".join(_text(items, item, embedded=True) for item in value) + "]"
        case dict():
            return "{" + ",".join(_entries(schema, value)) + "}"
        case _:
            return _quoted(str(value)) if embedded else str(value)


def _entries(schema: ConnectSchema | None, value: dict[str, Any]) -> list[str]:
    if schema is not None and schema.type is ConnectType.STRUCT:
        return [
            f"{_quoted(field.name)}:{_text(field.schema, get(value, field), embedded=True)}"
            for field in schema.fields
        ]
    items = schema.items if schema is not None else None
    return [f"{_quoted(str(key))}:{_text(items, item, embedded=True)}" for key, item in value.items()]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
