"""The named Connect schemas of Connect itself and of Debezium, and the structs that every Debezium event is made of.

Names and versions: ``io.debezium.schema.SchemaFactory``, ``io.debezium.time.*`` and
``org.apache.kafka.connect.data.*``.
"""

from collections.abc import Sequence
from typing import Final

from tidings_envelope.decimals import CONNECT_DECIMAL
from tidings_envelope.decimals import VARIABLE_SCALE_DECIMAL as VARIABLE_SCALE_DECIMAL_NAME
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

_INT32, _INT64, _STRING, _BYTES = ConnectType.INT32, ConnectType.INT64, ConnectType.STRING, ConnectType.BYTES

INT64: Final = ConnectSchema(_INT64)
STRING: Final = ConnectSchema(_STRING)
OPTIONAL_INT64: Final = ConnectSchema(_INT64, optional=True)
OPTIONAL_STRING: Final = ConnectSchema(_STRING, optional=True)

DATE: Final = ConnectSchema(_INT32, name="io.debezium.time.Date", version=1)
"""Days since 1970-01-01."""
TIME: Final = ConnectSchema(_INT32, name="io.debezium.time.Time", version=1)
"""Milliseconds since midnight."""
MICRO_TIME: Final = ConnectSchema(_INT64, name="io.debezium.time.MicroTime", version=1)
"""Microseconds since midnight."""
NANO_TIME: Final = ConnectSchema(_INT64, name="io.debezium.time.NanoTime", version=1)
"""Nanoseconds since midnight."""
ISO_TIME: Final = ConnectSchema(_STRING, name="io.debezium.time.IsoTime", version=1)
"""ISO 8601 with a Z."""
ISO_DATE: Final = ConnectSchema(_STRING, name="io.debezium.time.IsoDate", version=1)
"""ISO 8601 with a Z."""
ZONED_TIME: Final = ConnectSchema(_STRING, name="io.debezium.time.ZonedTime", version=1)
"""ISO 8601 in UTC."""
TIMESTAMP: Final = ConnectSchema(_INT64, name="io.debezium.time.Timestamp", version=1)
"""Milliseconds since 1970-01-01 00:00 without a time zone."""
MICRO_TIMESTAMP: Final = ConnectSchema(_INT64, name="io.debezium.time.MicroTimestamp", version=1)
"""Microseconds since 1970-01-01 00:00 without a time zone."""
NANO_TIMESTAMP: Final = ConnectSchema(_INT64, name="io.debezium.time.NanoTimestamp", version=1)
"""Nanoseconds since 1970-01-01 00:00 without a time zone."""
ISO_TIMESTAMP: Final = ConnectSchema(_STRING, name="io.debezium.time.IsoTimestamp", version=1)
"""ISO 8601 with a Z."""
ZONED_TIMESTAMP: Final = ConnectSchema(_STRING, name="io.debezium.time.ZonedTimestamp", version=1)
"""ISO 8601 in UTC."""
MICRO_DURATION: Final = ConnectSchema(_INT64, name="io.debezium.time.MicroDuration", version=1)
"""Microseconds."""
INTERVAL: Final = ConnectSchema(_STRING, name="io.debezium.time.Interval", version=1)
CONNECT_DATE: Final = ConnectSchema(_INT32, name="org.apache.kafka.connect.data.Date", version=1)
CONNECT_TIME: Final = ConnectSchema(_INT32, name="org.apache.kafka.connect.data.Time", version=1)
CONNECT_TIMESTAMP: Final = ConnectSchema(_INT64, name="org.apache.kafka.connect.data.Timestamp", version=1)
UUID: Final = ConnectSchema(_STRING, name="io.debezium.data.Uuid", version=1)
JSON: Final = ConnectSchema(_STRING, name="io.debezium.data.Json", version=1)
XML: Final = ConnectSchema(_STRING, name="io.debezium.data.Xml", version=1)
TSVECTOR: Final = ConnectSchema(_STRING, name="io.debezium.data.Tsvector", version=1)
VARIABLE_SCALE_DECIMAL: Final = ConnectSchema(
    ConnectType.STRUCT,
    name=VARIABLE_SCALE_DECIMAL_NAME,
    version=1,
    doc="Variable scaled decimal",
    fields=(Field("scale", ConnectSchema(_INT32)), Field("value", ConnectSchema(_BYTES))),
)

SNAPSHOT_VALUES: Final = (
    "true",
    "first",
    "first_in_data_collection",
    "last_in_data_collection",
    "last",
    "false",
    "incremental",
)


def decimal(scale: int, precision: int | None = None) -> ConnectSchema:
    """Connect's Decimal; Debezium adds the precision as a parameter."""
    parameters = {"scale": str(scale)}
    if precision is not None:
        parameters["connect.decimal.precision"] = str(precision)
    return ConnectSchema(_BYTES, name=CONNECT_DECIMAL, version=1, parameters=parameters)


def enum(labels: Sequence[str]) -> ConnectSchema:
    """Debezium's Enum: text, with the allowed labels in order as a parameter."""
    return ConnectSchema(
        _STRING, name="io.debezium.data.Enum", version=1, parameters={"allowed": ",".join(labels)}
    )


def bits(length: int) -> ConnectSchema:
    """Debezium's Bits: little-endian bytes."""
    return ConnectSchema(_BYTES, name="io.debezium.data.Bits", version=1, parameters={"length": str(length)})


def array(items: ConnectSchema) -> ConnectSchema:
    return ConnectSchema(ConnectType.ARRAY, items=items)


def struct(
    name: str, fields: Sequence[tuple[str, ConnectSchema]], version: int | None = None
) -> ConnectSchema:
    return ConnectSchema(
        ConnectType.STRUCT, name=name, version=version, fields=tuple(Field(*field) for field in fields)
    )


def _with_default(schema: ConnectSchema, default: str) -> ConnectSchema:
    return ConnectSchema(
        schema.type,
        optional=True,
        name=schema.name,
        version=schema.version,
        parameters=schema.parameters,
        default=default,
    )


def source_block(connector: str, own: Sequence[tuple[str, ConnectSchema]]) -> ConnectSchema:
    """``source`` of a database's envelopes.

    Args:
        connector: the database in the schema's name, as ``postgresql``.
        own: the fields behind those that every database has.
    """
    return struct(
        f"io.debezium.connector.{connector}.Source",
        (
            ("version", STRING),
            ("connector", STRING),
            ("name", STRING),
            ("ts_ms", INT64),
            ("snapshot", _with_default(enum(SNAPSHOT_VALUES), "false")),
            ("db", STRING),
            ("sequence", OPTIONAL_STRING),
            ("ts_us", OPTIONAL_INT64),
            ("ts_ns", OPTIONAL_INT64),
            *own,
        ),
        version=1,
    )


POSTGRES_SOURCE: Final = source_block(
    "postgresql",
    (
        ("schema", STRING),
        ("table", STRING),
        ("txId", OPTIONAL_INT64),
        ("lsn", OPTIONAL_INT64),
        ("xmin", OPTIONAL_INT64),
        ("origin", OPTIONAL_STRING),
        ("origin_lsn", OPTIONAL_INT64),
    ),
)
TRANSACTION_BLOCK: Final = struct(
    "event.block",
    (("id", STRING), ("total_order", INT64), ("data_collection_order", INT64)),
    version=1,
).as_optional()
TRANSACTION_KEY: Final = struct(
    "io.debezium.connector.common.TransactionMetadataKey", (("id", STRING),), version=1
)
TRANSACTION_VALUE: Final = struct(
    "io.debezium.connector.common.TransactionMetadataValue",
    (
        ("status", STRING),
        ("id", STRING),
        ("event_count", OPTIONAL_INT64),
        (
            "data_collections",
            array(
                struct(
                    "event.collection", (("data_collection", STRING), ("event_count", INT64)), version=1
                ).as_optional()
            ).as_optional(),
        ),
        ("ts_ms", INT64),
    ),
    version=1,
)
HEARTBEAT_KEY: Final = struct(
    "io.debezium.connector.common.ServerNameKey", (("serverName", STRING),), version=1
)
HEARTBEAT_VALUE: Final = struct("io.debezium.connector.common.Heartbeat", (("ts_ms", INT64),), version=1)


def envelope(name: str, row: ConnectSchema, source: ConnectSchema = POSTGRES_SOURCE) -> ConnectSchema:
    """The envelope of a table's changes.

    Args:
        name: the topic's name and ``.Envelope``, for example ``shop.public.orders.Envelope``.
        row: the optional struct of a row, whose name ends in ``.Value`` instead.
        source: the database's source block.
    """
    return struct(
        name,
        (
            ("before", row),
            ("after", row),
            ("source", source),
            ("transaction", TRANSACTION_BLOCK),
            ("op", STRING),
            ("ts_ms", OPTIONAL_INT64),
            ("ts_us", OPTIONAL_INT64),
            ("ts_ns", OPTIONAL_INT64),
        ),
        version=2,
    )
