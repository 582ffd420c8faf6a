"""The values of ``__debezium.newkey`` and ``__debezium.oldkey``: a key struct through Connect's SimpleHeaderConverter.

Specified by ``org.apache.kafka.connect.data.Values.convertToString``: JSON-like, except that Decimals are plain numbers,
control characters are not escaped, and Connect's Date, Time and Timestamp are ISO text without quotes.
"""

import base64
import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from tidings_envelope.java_numbers import double_json, float_json
from tidings_envelope.schema import ConnectSchema, ConnectType

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY_MS: Final = 86_400_000
_UNIT_MS: Final = {
    "org.apache.kafka.connect.data.Date": _DAY_MS,
    "org.apache.kafka.connect.data.Time": 1,
    "org.apache.kafka.connect.data.Timestamp": 1,
}


def struct_text(fields: Sequence[tuple[str, ConnectSchema]], values: Sequence[Any]) -> bytes:
    """A key as header text."""
    parts = [
        f"{_quoted(name)}:{value_text(schema, value)}"
        for (name, schema), value in zip(fields, values, strict=True)
    ]
    return ("{" + ",".join(parts) + "}").encode()


def value_text(schema: ConnectSchema, value: Any) -> str:
    """One value, as it stands inside a struct."""
    if value is None:
        return "null"
    if schema.name in _UNIT_MS:
        return _date_text(value * _UNIT_MS[schema.name])
    if schema.type is ConnectType.FLOAT32:
        return float_json(value).decode().strip('"')
    if schema.type is ConnectType.FLOAT64:
        return double_json(value).decode().strip('"')
    return _python_text(schema, value)


def _python_text(schema: ConnectSchema, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, bytes):
        return _quoted(base64.b64encode(value).decode())
    if isinstance(value, list):
        items = schema.items or schema
        return "[" + ",".join(value_text(items, item) for item in value) + "]"
    if isinstance(value, dict):
        fields = [(field.name, field.schema) for field in schema.fields]
        return struct_text(fields, [value.get(name) for name, _ in fields]).decode()
    return _quoted(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _date_text(milliseconds: int) -> str:
    """Connect guesses the type from the number: the first day of 1970 is a time, whole days are dates."""
    moment = _EPOCH + datetime.timedelta(milliseconds=milliseconds)
    clock = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if milliseconds < _DAY_MS:
        return clock
    if milliseconds % _DAY_MS == 0:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%d}T{clock}"
