"""Records as a JsonConverter with ``schemas.enable`` writes them."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from lakelab.topics import Topics
from tidings_envelope.decimals import decimal_to_bytes

ROW: list[dict[str, Any]] = [
    {"type": "int64", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "note"},
    {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        "field": "amount",
    },
]
_SOURCE = [
    {"type": "string", "optional": False, "field": "version"},
    {"type": "int64", "optional": False, "field": "ts_ms"},
    {"type": "string", "optional": True, "default": "false", "field": "snapshot"},
    {"type": "string", "optional": True, "field": "sequence"},
    {"type": "int64", "optional": True, "field": "txId"},
    {"type": "int64", "optional": True, "field": "lsn"},
]


def envelope(topic: str, fields: list[dict[str, Any]] = ROW) -> dict[str, Any]:
    """The schema of a change."""
    row = {"type": "struct", "fields": fields, "optional": True, "name": f"{topic}.Value"}
    return {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {"type": "struct", "fields": _SOURCE, "optional": False, "name": "Source", "field": "source"},
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
        "optional": False,
        "name": f"{topic}.Envelope",
    }


def change(lsn: int, after: dict[str, Any], op: str = "c") -> dict[str, Any]:
    """The payload of a change."""
    source = {
        "version": "3.7.0.Final",
        "ts_ms": 1_700_000_000_000 + lsn,
        "snapshot": "false",
        "sequence": json.dumps([str(lsn - 1), str(lsn)]),
        "txId": lsn,
        "lsn": lsn,
    }
    return {"before": None, "after": after, "source": source, "op": op, "ts_ms": 1}


def record(schema: Any, payload: Any) -> bytes:
    """Both as they are written."""
    return json.dumps(
        {"schema": schema, "payload": payload}, separators=(",", ":"), ensure_ascii=False
    ).encode()


def key(topic: str, id_: int) -> bytes:
    """The key of a row."""
    schema = {"type": "struct", "fields": ROW[:1], "optional": False, "name": f"{topic}.Key"}
    return record(schema, {"id": id_})


_TYPES = {"int": "int32", "long": "int64", "record": "struct"}


class JsonTopics(Topics):
    """Writes the same as `Topics`, and asks no registry."""

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        number = len(self.parsed)
        self.parsed[number] = (schema, json.dumps(connect_of(schema, {}), separators=(",", ":")))
        return number

    def encode(self, schema_id: int, value: dict[str, Any]) -> bytes:
        avro, schema = self.parsed[schema_id]
        payload = json.dumps(_plain(avro, value, {}), separators=(",", ":"), ensure_ascii=False)
        return f'{{"schema":{schema},"payload":{payload}}}'.encode()


class GivenTopics(JsonTopics):
    """Writes the same without schemas, which are in files of a directory: the newest of each subject."""

    def __init__(self, bootstrap: str, registry: str, directory: Path) -> None:
        super().__init__(bootstrap, registry)
        self.directory = directory
        directory.mkdir(exist_ok=True)

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        number = super().register(subject, schema)
        if not subject.endswith(".transaction-value"):  # which is the same everywhere
            (self.directory / f"{subject}.json").write_text(self.parsed[number][1])
        return number

    def encode(self, schema_id: int, value: dict[str, Any]) -> bytes:
        return json.dumps(_plain(self.parsed[schema_id][0], value, {}), ensure_ascii=False).encode()


def connect_of(avro: Any, named: dict[str, Any]) -> dict[str, Any]:
    """The schema of Kafka Connect that AvroConverter makes such an Avro schema of."""
    if isinstance(avro, list):
        return {**connect_of(_present(avro), named), "optional": True}
    if isinstance(avro, str):
        return named.get(avro) or {"type": _TYPES.get(avro, avro), "optional": False}
    found: dict[str, Any] = {"type": _TYPES.get(avro["type"], avro["type"])}
    if avro["type"] == "record":
        found["fields"] = [_field(one, named) for one in avro["fields"]]
    elif avro["type"] == "array":
        found["items"] = connect_of(avro["items"], named)
    elif avro["type"] == "map":
        found |= {"keys": {"type": "string", "optional": False}, "values": connect_of(avro["values"], named)}
    elif isinstance(avro["type"], dict):
        found = connect_of(avro["type"], named)
    found["optional"] = False
    name = avro.get("connect.name") or avro.get("name")
    if avro.get("logicalType") == "decimal":
        name = "org.apache.kafka.connect.data.Decimal"
        digits = {"scale": str(avro["scale"]), "connect.decimal.precision": str(avro["precision"])}
        found["parameters"] = digits
    if name is not None:
        found["name"] = name
    if avro["type"] == "record":
        named[avro["name"]] = found
    return found


def _field(avro: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    found = {**connect_of(avro["type"], named), "field": avro["name"]}
    return found if avro.get("default") is None else {**found, "default": avro["default"]}


def _plain(avro: Any, value: Any, named: dict[str, Any]) -> Any:
    """A value as JSON has it; `named` are records by name."""
    if isinstance(avro, list):
        present = _present(avro)
        if isinstance(present, dict) and present["type"] == "record":
            named[present["name"]] = present
        return None if value is None else _plain(present, value, named)
    if isinstance(avro, str):
        avro = named.get(avro, {"type": avro})
    if avro["type"] == "record":
        named[avro["name"]] = avro
        return {one["name"]: _plain(one["type"], value.get(one["name"]), named) for one in avro["fields"]}
    if avro["type"] == "array":
        return [_plain(avro["items"], one, named) for one in value]
    if avro["type"] == "map":
        return {key: _plain(avro["values"], one, named) for key, one in value.items()}
    if isinstance(value, Decimal):
        value = decimal_to_bytes(value, avro["scale"])
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


def _present(avro: list[Any]) -> Any:
    return next(one for one in avro if one != "null")
