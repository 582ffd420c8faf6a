"""Schemas of Kafka Connect as JsonConverter writes them, turned into the Avro schemas that AvroConverter would register.

Everything behind them, from `parse_schema` on, is the same for both. The format is that of ``JsonConverter.asJsonSchema``
(Apache Kafka 4.3), the result that of Confluent's AvroData, with three differences: names are as they are, also where Avro
does not allow them; a decimal is marked as coming in its unscaled bytes (`UNSCALED`), and a map whose keys are not text as
the JSON that it is.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from tidings_envelope.decimals import CONNECT_DECIMAL
from tidings_lakehouse.formats.avro_nodes import UNSCALED, UnsupportedSchemaError

_PRIMITIVES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_UNNAMED = "io.confluent.connect.avro.ConnectDefault"
_DEFAULT_PRECISION = 64
"""AvroData's, where the source does not say it."""


def avro_of(schema: Any) -> Any:
    """The Avro schema of one of Connect's, both as JSON gives them.

    Raises:
        UnsupportedSchemaError: it is none of Connect's.
        RecursionError: it is too deep.
    """
    if not isinstance(schema, dict):
        raise UnsupportedSchemaError("a part that is not a JSON object")
    base = _documented(_base(schema), schema)
    if schema.get("optional") is not True:
        return base
    return [base, "null"] if schema.get("default") is not None else ["null", base]


def _base(schema: dict[str, Any]) -> Any:
    kind = _text(schema.get("type"))
    name = schema.get("name")
    if kind == "struct":
        fields = [_field(one) for one in _list(schema.get("fields"))]
        return {"type": "record", "name": _text(name) or _UNNAMED, "fields": fields, **_named(name)}
    if kind == "array":
        return {"type": "array", "items": avro_of(schema.get("items")), **_named(name)}
    if kind == "map":
        keys = schema.get("keys")
        if not isinstance(keys, dict) or keys.get("type") != "string":
            return {"type": "string"}
        return {"type": "map", "values": avro_of(schema.get("values")), **_named(name)}
    if kind is None or kind not in _PRIMITIVES:
        raise UnsupportedSchemaError(f"the type {kind}, which is none of Kafka Connect's")
    if name == CONNECT_DECIMAL:
        return {"type": "bytes", "logicalType": "decimal", UNSCALED: True, **_digits(schema)}
    return {"type": _PRIMITIVES[kind], **_named(name)}


def _digits(schema: dict[str, Any]) -> dict[str, int]:
    parameters = schema.get("parameters")
    given = parameters if isinstance(parameters, dict) else {}
    try:
        precision = int(given.get("connect.decimal.precision", _DEFAULT_PRECISION))
        return {"scale": int(given["scale"]), "precision": precision}
    except (TypeError, KeyError, ValueError):
        raise UnsupportedSchemaError("a decimal without a scale") from None


def _field(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict) or not isinstance(schema.get("field"), str):
        raise UnsupportedSchemaError("a field without a name")
    found = {"name": schema["field"], "type": avro_of(schema)}
    default = _default(schema)
    return found if default is None else {**found, "default": default}


def _default(schema: dict[str, Any]) -> Any:
    """As Avro's JSON has it: bytes are text of one character for each."""
    default = schema.get("default")
    if schema.get("type") != "bytes" or not isinstance(default, str):
        return default
    try:
        return base64.b64decode(default, validate=True).decode("latin-1")
    except binascii.Error:
        raise UnsupportedSchemaError("a default that is not base64") from None


def _documented(base: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """With what a schema says of itself, as AvroConverter keeps it."""
    doc = _text(schema.get("doc"))
    return base if doc is None else {**base, "connect.doc": doc}


def _named(name: Any) -> dict[str, str]:
    return {"connect.name": name} if isinstance(name, str) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UnsupportedSchemaError("a struct without fields")
    return value
