"""Avro schemas of technical topics, as Debezium with Confluent's converter registers them."""

from __future__ import annotations

from typing import Any

ORDERS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {
        "name": "status",
        "type": ["null", {"type": "string", "connect.name": "io.debezium.data.Enum", "connect.version": 1}],
        "default": None,
    },
    {"name": "note", "type": ["null", "string"], "default": None},
    {
        "name": "amount",
        "type": [
            "null",
            {
                "type": "bytes",
                "scale": 2,
                "precision": 10,
                "connect.version": 1,
                "logicalType": "decimal",
                "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                "connect.name": "org.apache.kafka.connect.data.Decimal",
            },
        ],
        "default": None,
    },
    {
        "name": "required_on",
        "type": ["null", {"type": "int", "connect.name": "io.debezium.time.Date", "connect.version": 1}],
        "default": None,
    },
    {
        "name": "ordered_at",
        "type": [
            "null",
            {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp", "connect.version": 1},
        ],
        "default": None,
    },
    {
        "name": "updated_at",
        "type": [
            "null",
            {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp", "connect.version": 1},
        ],
        "default": None,
    },
]
"""Fields of a row, the first being the key."""
_COMMON = {"version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "table"}
"""What the source blocks of all databases have."""


def envelope_schema(topic: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Debezium's envelope as the AvroConverter registers it."""
    optional_long = {"type": ["null", "long"], "default": None}
    optional_string = {"type": ["null", "string"], "default": None}
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": topic,
        "fields": [
            {
                "name": "before",
                "type": [
                    "null",
                    {"type": "record", "name": "Value", "fields": fields, "connect.name": f"{topic}.Value"},
                ],
                "default": None,
            },
            {"name": "after", "type": ["null", "Value"], "default": None},
            {
                "name": "source",
                "type": {
                    "type": "record",
                    "name": "Source",
                    "namespace": "io.debezium.connector.postgresql",
                    "fields": [
                        {"name": "version", "type": "string"},
                        {"name": "connector", "type": "string"},
                        {"name": "name", "type": "string"},
                        {"name": "ts_ms", "type": "long"},
                        {
                            "name": "snapshot",
                            "type": [{"type": "string", "connect.name": "io.debezium.data.Enum"}, "null"],
                            "default": "false",
                        },
                        {"name": "db", "type": "string"},
                        {"name": "sequence", **optional_string},
                        {"name": "ts_us", **optional_long},
                        {"name": "ts_ns", **optional_long},
                        {"name": "schema", "type": "string"},
                        {"name": "table", "type": "string"},
                        {"name": "txId", **optional_long},
                        {"name": "lsn", **optional_long},
                        {"name": "xmin", **optional_long},
                    ],
                    "connect.name": "io.debezium.connector.postgresql.Source",
                },
            },
            {
                "name": "transaction",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "block",
                        "namespace": "event",
                        "fields": [
                            {"name": "id", "type": "string"},
                            {"name": "total_order", "type": "long"},
                            {"name": "data_collection_order", "type": "long"},
                        ],
                    },
                ],
                "default": None,
            },
            {"name": "op", "type": "string"},
            {"name": "ts_ms", **optional_long},
            {"name": "ts_us", **optional_long},
            {"name": "ts_ns", **optional_long},
        ],
        "connect.name": f"{topic}.Envelope",
    }


def binlog_envelope_schema(topic: str, fields: list[dict[str, Any]], connector: str) -> dict[str, Any]:
    """The same of MariaDB's or MySQL's connector."""
    schema = envelope_schema(topic, fields)
    (source,) = (field["type"] for field in schema["fields"] if field["name"] == "source")
    common = [field for field in source["fields"] if field["name"] in _COMMON]
    optional_long = {"type": ["null", "long"], "default": None}
    optional_string = {"type": ["null", "string"], "default": None}
    source.update(
        {
            "namespace": f"io.debezium.connector.{connector}",
            "connect.name": f"io.debezium.connector.{connector}.Source",
            "fields": [
                *common,
                {"name": "server_id", "type": "long"},
                {"name": "gtid", **optional_string},
                {"name": "file", "type": "string"},
                {"name": "pos", "type": "long"},
                {"name": "row", "type": "int"},
                {"name": "thread", **optional_long},
                {"name": "query", **optional_string},
            ],
        }
    )
    return schema


def key_schema(topic: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """The key's schema: the first field."""
    return {"type": "record", "name": "Key", "namespace": topic, "fields": fields[:1]}


def marker_schema() -> dict[str, Any]:
    """A transaction marker's value, as Debezium's converters register it."""
    collection = {
        "type": "record",
        "name": "collection",
        "namespace": "event",
        "fields": [{"name": "data_collection", "type": "string"}, {"name": "event_count", "type": "long"}],
    }
    return {
        "type": "record",
        "name": "TransactionMetadataValue",
        "namespace": "io.debezium.connector.common",
        "fields": [
            {"name": "status", "type": "string"},
            {"name": "id", "type": "string"},
            {"name": "ts_ms", "type": "long"},
            {"name": "event_count", "type": ["null", "long"], "default": None},
            {
                "name": "data_collections",
                "type": ["null", {"type": "array", "items": collection}],
                "default": None,
            },
        ],
    }
