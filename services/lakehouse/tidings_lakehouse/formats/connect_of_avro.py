"""Avro schemas turned into those of Kafka Connect as JsonConverter writes them: the way back of `connect_schemas`.

For JSON whose schema is given as AvroConverter registers it. The format is that of Confluent's AvroData.
"""

from __future__ import annotations

import base64
from typing import Any

from tidings_envelope.decimals import CONNECT_DECIMAL
from tidings_lakehouse.formats.avro_nodes import UnsupportedSchemaError

_PRIMITIVES = {
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}


def connect_of(avro: Any) -> dict[str, Any]:
    """The Connect schema of one of Avro's that `parse_schema` takes, both as JSON gives them.

    Raises:
        UnsupportedSchemaError: Connect has no such type.
    """
    return _schema(avro, {})


def _schema(avro: Any, named: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if isinstance(avro, list):
        present = [one for one in avro if one not in ("null", {"type": "null"})]
        return {**_schema(present[0], named), "optional": True}
    if isinstance(avro, str):
        if avro in _PRIMITIVES:
            return {"type": _PRIMITIVES[avro], "optional": False}
        found = named.get(avro) or named.get(avro.rpartition(".")[2])
        if found is None:
            raise UnsupportedSchemaError(f"the undefined type {avro}")
        return found
    kind = avro["type"]
    if isinstance(kind, list | dict):
        return _schema(kind, named)
    found = _complex(avro, kind, named)
    if "name" in avro:
        named[avro["name"]] = named[avro["name"].rpartition(".")[2]] = found
    return found


def _complex(avro: dict[str, Any], kind: str, named: dict[str, dict[str, Any]]) -> dict[str, Any]:
    name = avro.get("connect.name")
    found: dict[str, Any] = {"optional": False, **({} if name is None else {"name": name})}
    if kind == "record":
        fields = [_field(one, named) for one in avro["fields"]]
        return {**found, "type": "struct", "fields": fields}
    if kind == "array":
        return {**found, "type": "array", "items": _schema(avro["items"], named)}
    if kind == "map":
        keys = {"type": "string", "optional": False}
        return {**found, "type": "map", "keys": keys, "values": _schema(avro["values"], named)}
    if avro.get("logicalType") == "decimal":
        digits = {"scale": str(avro.get("scale", 0)), "connect.decimal.precision": str(avro["precision"])}
        return {"optional": False, "type": "bytes", "name": CONNECT_DECIMAL, "parameters": digits}
    if kind == "enum":
        return {**found, "type": "string"}
    if kind not in _PRIMITIVES:
        if kind != "fixed":
            return _schema(kind, named)
        raise UnsupportedSchemaError("the type fixed, which Kafka Connect's JSON has not")
    if name is None and "logicalType" in avro:
        raise UnsupportedSchemaError(
            f"the type {avro['logicalType']} without a connect.name, of which nobody knows how JSON has it"
        )
    return {**found, "type": _PRIMITIVES[kind]}


def _field(avro: dict[str, Any], named: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found = {**_schema(avro["type"], named), "field": avro["name"]}
    default = avro.get("default")
    if found["type"] == "bytes" and isinstance(default, str):
        default = base64.b64encode(default.encode("latin-1")).decode()
    return found if default is None else {**found, "default": default}
