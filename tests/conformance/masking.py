"""What of two connectors' records cannot be the same, made the same: clocks, and where a snapshot's rows stand."""

import io
import json
import re
from functools import lru_cache
from typing import Any

import fastavro

from tidings_envelope.wire import HEADER_BYTES, split
from tidings_stack.capture import call

HEARTBEAT = re.compile(r"beat")
_CLOCK = re.compile(rb'("op":"."),"ts_ms":\d+(?:,"ts_us":\d+,"ts_ns":\d+)?')
_BEAT = re.compile(rb'\{"ts_ms":\d+\}')
"""A heartbeat: nothing but the connector's clock."""
_READ = b'"op":"r"'
_SNAPSHOT_POSITION = re.compile(
    rb'"(ts_ms|ts_us|ts_ns|txId|lsn)":(?:\d+|null)|"(sequence)":"\[null,\\"\d+\\"\]"'
)
_ODD_NAME = re.compile(r'("(?:name|namespace|type)":")([^"]*)"')


def masked(value: bytes | None, registry: str | None) -> bytes | None:
    """A key or a value without clocks and, of a snapshot's row, without its position.

    Args:
        registry: its Confluent API, for what is in Avro.
    """
    if value is None:
        return None
    if registry is not None and value.startswith(b"\0"):
        return _masked_avro(value, registry)
    text = _CLOCK.sub(rb'\1,"now":0', _BEAT.sub(b'{"ts_ms":0}', value))
    if _READ in text:
        text = _SNAPSHOT_POSITION.sub(rb'"\1\2":0', text)
    return text


def _masked_avro(value: bytes, registry: str) -> bytes:
    """An Avro value as JSON-like text, its schema before it."""
    schema = _schema_text(registry, split(value)[0])
    record: Any = fastavro.schemaless_reader(
        io.BytesIO(value[HEADER_BYTES:]), _parsed(schema), None, return_record_name=False
    )
    if isinstance(record, dict) and list(record) == ["ts_ms"]:
        record = {"ts_ms": 0}
    elif isinstance(record, dict) and "op" in record:
        record |= {"ts_ms": 0, "ts_us": 0, "ts_ns": 0}
        if record["op"] == "r":
            record["source"] |= dict.fromkeys(("ts_ms", "ts_us", "ts_ns", "txId", "lsn", "sequence"), 0)
    return f"{schema} {record!r}".encode()


@lru_cache(maxsize=256)
def _schema_text(registry: str, schema_id: int) -> str:
    status, body = call("GET", f"{registry}/schemas/ids/{schema_id}")
    assert status == 200, body
    return str(body["schema"])


@lru_cache(maxsize=256)
def _parsed(schema: str) -> Any:
    # Names that Avro does not allow, which Apicurio's converter writes, are changed to be read.
    return fastavro.parse_schema(json.loads(_ODD_NAME.sub(_with_plain_name, schema)))


def _with_plain_name(match: re.Match[str]) -> str:
    return match[1] + re.sub(r"(^|\.)(?=\d)", r"\1_", match[2].replace("-", "_")) + '"'
