"""A value of every semantic type, for tests of tables."""

import base64
from typing import Any

JSON = "org.apache.kafka.connect.json.JsonConverter"
SCHEMAS = {"value.converter": JSON, "value.converter.schemas.enable": "true"}


def b64(data: bytes) -> str:
    """Bytes as the JsonConverter has them."""
    return base64.b64encode(data).decode()


def integer_bytes(number: int) -> str:
    """An unscaled value of a decimal."""
    return b64(number.to_bytes(20, "big", signed=True))


VALUES: list[tuple[str, dict[str, Any], Any, str, str]] = [
    # field, schema, value as JSON has it, column's type, value as PostgreSQL shows it
    ("tiny", {"type": "int8"}, -128, "smallint", "-128"),
    ("big", {"type": "int64"}, 2**63 - 1, "bigint", str(2**63 - 1)),
    ("single", {"type": "float"}, 0.1, "real", "0.1"),
    ("nan", {"type": "double"}, "NaN", "double precision", "NaN"),
    ("infinite", {"type": "double"}, "-Infinity", "double precision", "-Infinity"),
    ("yes", {"type": "boolean"}, True, "boolean", "true"),
    ("words", {"type": "string"}, "a\tb\\N\n'\"ü€😀", "text", "a\tb\\N\n'\"ü€😀"),
    ("empty", {"type": "string"}, "", "text", ""),
    ("data", {"type": "bytes"}, b64(b"\0\xff"), "bytea", "\\x00ff"),
    ("amount", {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2", "connect.decimal.precision": "10"}}, integer_bytes(-123456), "numeric(10,2)", "-1234.56"),
    ("bare", {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}]}, {"scale": 10, "value": integer_bytes(123456789012345678901234567890)}, "numeric", "12345678901234567890.1234567890"),
    ("day", {"type": "int32", "name": "io.debezium.time.Date"}, -1, "date", "1969-12-31"),
    ("old_day", {"type": "int32", "name": "org.apache.kafka.connect.data.Date"}, -735160, "date", "0044-03-15 BC"),
    ("clock_ms", {"type": "int32", "name": "io.debezium.time.Time"}, 86_399_999, "time(6) without time zone", "23:59:59.999"),
    ("clock", {"type": "int64", "name": "io.debezium.time.MicroTime"}, 86_400_000_000, "time(6) without time zone", "24:00:00"),
    ("clock_ns", {"type": "int64", "name": "io.debezium.time.NanoTime"}, 1_000, "time(6) without time zone", "00:00:00.000001"),
    ("at_ms", {"type": "int64", "name": "io.debezium.time.Timestamp"}, -1, "timestamp(6) without time zone", "1969-12-31 23:59:59.999"),
    ("at_connect", {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, 0, "timestamp(6) without time zone", "1970-01-01 00:00:00"),
    ("at", {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, -1, "timestamp(6) without time zone", "1969-12-31 23:59:59.999999"),
    ("at_ns", {"type": "int64", "name": "io.debezium.time.NanoTimestamp"}, 1_999, "timestamp(6) without time zone", "1970-01-01 00:00:00.000001"),
    ("at_iso", {"type": "string", "name": "io.debezium.time.IsoTimestamp"}, "+20021-01-01T00:00:00Z", "timestamp(6) without time zone", "20021-01-01 00:00:00"),
    ("moment", {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "2026-01-01T00:00:00.000001Z", "timestamp(6) with time zone", "2026-01-01 00:00:00.000001+00"),
    ("clock_zoned", {"type": "string", "name": "io.debezium.time.ZonedTime"}, "10:00:00Z", "time(6) with time zone", "10:00:00+00"),
    ("span", {"type": "int64", "name": "io.debezium.time.MicroDuration"}, -93_600_000_001, "interval", "-26:00:00.000001"),
    ("span_text", {"type": "string", "name": "io.debezium.time.Interval"}, "P1Y2M-3DT4H5M6.7S", "interval", "1 year 2 mons -3 days +04:05:06.7"),
    ("document", {"type": "string", "name": "io.debezium.data.Json"}, '{"a": 1.50}', "json", '{"a": 1.50}'),
    ("mark", {"type": "string", "name": "io.debezium.data.Uuid"}, "b68a35a7-17ad-35b3-af2a-000000000000", "uuid", "b68a35a7-17ad-35b3-af2a-000000000000"),
    ("markup", {"type": "string", "name": "io.debezium.data.Xml"}, "<a/>", "xml", "<a/>"),
    ("mood", {"type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": "ok,bad"}}, "ok", "text", "ok"),
    ("bits", {"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "10"}}, b64(b"\x05\x00"), "bit(10)", "0000000101"),
    ("tags", {"type": "array", "items": {"type": "string", "optional": True}}, ["a,b", None, 'q"\\', "NULL", ""], "text[]", '{"a,b",NULL,"q\\"\\\\","NULL",""}'),
    ("days", {"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date", "optional": True}}, [0, None], "date[]", "{1970-01-01,NULL}"),
    ("blobs", {"type": "array", "items": {"type": "bytes"}}, [b64(b"\xff")], "bytea[]", '{"\\\\xff"}'),
    ("pairs", {"type": "map", "keys": {"type": "string"}, "values": {"type": "string", "optional": True}}, {"a": None, "b": "c"}, "json", '{"a":null,"b":"c"}'),
    ("place", {"type": "struct", "fields": [{"field": "x", "type": "int32"}, {"field": "y", "type": "bytes"}]}, {"x": 1, "y": b64(b"z")}, "json", '{"x":1,"y":"eg=="}'),
]  # fmt: skip


def record(nulls: bool = False) -> dict[str, Any]:
    """A record with a value of each type, or with none."""
    fields = [{"field": "number", "type": "int32"}]
    fields += [{"field": name, **schema, "optional": True} for name, schema, *_ in VALUES]
    payload = {"number": 2 if nulls else 1} | {
        name: None if nulls else value for name, _, value, *_ in VALUES
    }
    return {"schema": {"type": "struct", "fields": fields}, "payload": payload}
