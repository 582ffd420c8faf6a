"""Text as Connect's values: what ``Values.parseString`` makes of a literal. The other way is `data.text`.

Specified by ``org.apache.kafka.connect.data.Values`` (Kafka 4.3).
"""

import datetime
import math
import struct
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from tidings_connect.data.text import EPOCH, UNIT_MS
from tidings_envelope import semantic
from tidings_envelope.decimals import MOST_DIGITS, decimal_from_int, int_from_decimal
from tidings_envelope.schema import ConnectSchema, ConnectType


def parse_text(text: str) -> tuple[ConnectSchema | None, Any]:
    """Schema and value of a literal: ``Values.parseString``. What is nothing else is a string."""
    if not text:
        return semantic.STRING, text
    stripped = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    if stripped[:1] in ("[", "{"):
        try:
            schema, value, rest = _parse(stripped)
        except _NotParsed:
            return semantic.STRING, text
        if not rest.strip():
            return schema, value
        return semantic.STRING, text
    found = _scalar(stripped)
    return (semantic.STRING, text) if found is None else found


_BOOLEAN: Final = ConnectSchema(ConnectType.BOOLEAN)
_WORDS: Final[dict[str, tuple[ConnectSchema | None, Any]]] = {
    "null": (None, None),
    "true": (_BOOLEAN, True),
    "false": (_BOOLEAN, False),
}
_NULL_ITEMS: Final = ConnectSchema(ConnectType.STRING, optional=True)


class _NotParsed(Exception):  # noqa: N818 - not an error: then it is a string
    """Not an array or map literal."""


def _scalar(token: str) -> tuple[ConnectSchema, Any] | None:
    if token[:1].isdigit():
        temporal = _temporal(token)
        if temporal is not None:
            return temporal
    if token[:1].isdigit() or token[:1] in ("+", "-"):
        return _number(token)
    return None


def _number(token: str) -> tuple[ConnectSchema, Any] | None:
    try:
        number = Decimal(token)
    except InvalidOperation:
        return None
    if not number.is_finite() or "_" in token:
        return None
    if number and number.adjusted() >= MOST_DIGITS:
        return None  # nobody's number, and writing its digits out takes seconds
    if number == number.to_integral_value():
        integer = int_from_decimal(number)
        for kind, bits in (
            (ConnectType.INT8, 8),
            (ConnectType.INT16, 16),
            (ConnectType.INT32, 32),
            (ConnectType.INT64, 64),
        ):
            if -(1 << bits - 1) <= integer < 1 << bits - 1:
                return ConnectSchema(kind), integer
        return semantic.decimal(0), decimal_from_int(integer)
    if abs(number) < Decimal("3.4028236e38"):
        return ConnectSchema(ConnectType.FLOAT32), shortest_float32(float(number))
    return ConnectSchema(ConnectType.FLOAT64), float(number)


def shortest_float32(value: float) -> float:
    """The number with the fewest digits that is the same 32-bit float."""
    if not math.isfinite(value):
        return value
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    exact = float(struct.unpack("<f", packed)[0])
    for digits in range(1, 10):
        candidate = float(f"{exact:.{digits}g}")
        if struct.pack("<f", candidate) == packed:
            return candidate
    return exact


def _temporal(token: str) -> tuple[ConnectSchema, int] | None:
    token = token.replace("\\:", ":")
    forms = {10: ("%Y-%m-%d", semantic.CONNECT_DATE), 13: ("%H:%M:%S.%fZ", semantic.CONNECT_TIME),
             24: ("%Y-%m-%dT%H:%M:%S.%fZ", semantic.CONNECT_TIMESTAMP)}  # fmt: skip
    if len(token) not in forms:
        return None
    form, schema = forms[len(token)]
    try:
        moment = datetime.datetime.strptime(token, form).replace(tzinfo=datetime.UTC)
    except ValueError:
        return None
    if schema is semantic.CONNECT_TIME:
        moment = moment.replace(year=1970, month=1, day=1)
    milliseconds = (moment - EPOCH) // datetime.timedelta(milliseconds=1)
    return schema, milliseconds // UNIT_MS[schema.name]


def _parse(text: str) -> tuple[ConnectSchema | None, Any, str]:
    """An embedded value at the start of the text, and what follows it."""
    text = text.lstrip()
    if text[:1] == '"':
        content, rest = _until_quote(text[1:])
        temporal = _temporal(content)
        return (*temporal, rest) if temporal is not None else (semantic.STRING, content, rest)
    if text[:1] == "[":
        return _parse_array(text[1:])
    if text[:1] == "{":
        return _parse_map(text[1:])
    end = min((i for i, c in enumerate(text) if c in ",:]}"), default=len(text))
    token, rest = text[:end].strip(), text[end:]
    if token in _WORDS:
        return (*_WORDS[token], rest)
    found = _scalar(token)
    if found is None:
        raise _NotParsed
    return (*found, rest)


def _until_quote(text: str) -> tuple[str, str]:
    content = ""
    position = 0
    while position < len(text):
        if text[position] == "\\" and position + 1 < len(text):
            content += text[position + 1]
            position += 2
        elif text[position] == '"':
            return content, text[position + 1 :]
        else:
            content += text[position]
            position += 1
    return content, ""


def _parse_array(text: str) -> tuple[ConnectSchema, Any, str]:
    items: list[tuple[ConnectSchema | None, Any]] = []
    while True:
        text = text.lstrip()
        if text[:1] == "]":
            schema = _common([found for found, _ in items])
            items = [(found, _aligned(schema, value)) for found, value in items]
            return ConnectSchema(ConnectType.ARRAY, items=schema), [value for _, value in items], text[1:]
        found, value, text = _parse(text)
        items.append((found, value))
        text = text.lstrip()
        if text[:1] == ",":
            text = text[1:]
        elif text[:1] != "]":
            raise _NotParsed


def _parse_map(text: str) -> tuple[ConnectSchema, Any, str]:
    keys: list[ConnectSchema | None] = []
    values: list[ConnectSchema | None] = []
    result: dict[Any, Any] = {}
    while True:
        text = text.lstrip()
        if text[:1] == "}":
            schema = ConnectSchema(ConnectType.MAP, keys=_common(keys), items=_common(values))
            aligned = {key: _aligned(_common(values), value) for key, value in result.items()}
            return schema, aligned, text[1:]
        key_schema, key, text = _parse(text)
        text = text.lstrip()
        if key is None or text[:1] != ":":
            raise _NotParsed
        value_schema, result[key], text = _parse(text[1:])
        keys.append(key_schema)
        values.append(value_schema)
        text = text.lstrip()
        if text[:1] == ",":
            text = text[1:]


_WIDTH: Final = (ConnectType.INT8, ConnectType.INT16, ConnectType.INT32, ConnectType.INT64,
                 ConnectType.FLOAT32, ConnectType.FLOAT64)  # fmt: skip


def _common(schemas: list[ConnectSchema | None]) -> ConnectSchema:
    """The schema that all elements have; the widest of numbers."""
    known = [schema for schema in schemas if schema is not None]
    if not known:
        return _NULL_ITEMS
    if all(schema.type in _WIDTH for schema in known):
        return max(known, key=lambda schema: _WIDTH.index(schema.type))
    return known[0]


def _aligned(schema: ConnectSchema, value: Any) -> Any:
    """A number as the common schema has it."""
    return float(value) if type(value) is int and schema.type in _WIDTH[4:] else value
