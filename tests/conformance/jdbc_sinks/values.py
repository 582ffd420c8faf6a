"""The kinds of values that streams for sinks hold: a Connect schema as JSON writes it, and values of it with the edges."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Final

UNAVAILABLE: Final = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class Values:
    """One kind of column."""

    name: str
    schema: dict[str, Any]
    """Without ``optional`` and ``field``."""
    values: tuple[Any, ...]
    """As JSON has them; none is null."""
    default: Any = None
    """One that a schema may have as its default; None: there is none to be tried."""
    other: str | None = None
    """Another PostgreSQL type that a table made beforehand may have for it."""


def _schema(kind: str, name: str | None = None, **parameters: str) -> dict[str, Any]:
    found: dict[str, Any] = {"type": kind}
    if name is not None:
        found |= {"name": name, "version": 1}
    if parameters:
        found["parameters"] = {key.replace("__", "."): value for key, value in parameters.items()}
    return found


def _bytes(data: bytes) -> str:
    return b64encode(data).decode()


def decimal(unscaled: int) -> str:
    """A decimal's unscaled value."""
    return _bytes(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True))


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {**items, "optional": True}}


_CONNECT: Final = "org.apache.kafka.connect.data."
_TIME: Final = "io.debezium.time."
_DATA: Final = "io.debezium.data."
_TEXTS: Final = (
    "",
    "x",
    "n\u00f6me 'quoted' \"twice\" \\ {} %s \u2603 \U0001f600",
    "line\nand\ttab",
    "long " * 300,
)
_DAY_US: Final = 86_400_000_000
_MOMENTS_US: Final = (0, -1, 1_767_323_045_678_901, -2_208_988_800_000_000, 4_102_444_799_999_999)
VALUES: Final = (
    Values("int8", _schema("int8"), (0, -128, 127), 7),
    Values("int16", _schema("int16"), (0, -32768, 32767), -1, "integer"),
    Values("int32", _schema("int32"), (0, -(2**31), 2**31 - 1), 42, "bigint"),
    Values("int64", _schema("int64"), (0, -(2**63), 2**63 - 1), 10**12, "numeric"),
    Values("float", _schema("float"), (0.0, 1.5, -3.4e38, 1e-30), None, "double precision"),
    Values("double", _schema("double"), (0.1, -1.7976931348623157e308, 5e-324, 123456789.125), 0.5),
    Values("boolean", _schema("boolean"), (True, False), True),
    Values("string", _schema("string"), _TEXTS, "of 'old'", "varchar(2000)"),
    Values("bytes", _schema("bytes"), (_bytes(b""), _bytes(b"\x00\xff"), _bytes(b"abc" * 50))),
    Values("decimal", _schema("bytes", f"{_CONNECT}Decimal", scale="2", connect__decimal__precision="10"),
           (decimal(0), decimal(-1), decimal(1234), decimal(9_999_999_999)), None, "numeric(20,4)"),
    Values("decimal_whole", _schema("bytes", f"{_CONNECT}Decimal", scale="0", connect__decimal__precision="30"),
           (decimal(0), decimal(-(10**29)), decimal(10**29))),
    Values("connect_date", _schema("int32", f"{_CONNECT}Date"), (0, -1, 20455, -25567)),
    Values("connect_time", _schema("int32", f"{_CONNECT}Time"), (0, 86_399_999, 11_045_678)),
    Values("connect_timestamp", _schema("int64", f"{_CONNECT}Timestamp"), tuple(us // 1000 for us in _MOMENTS_US)),
    Values("date", _schema("int32", f"{_TIME}Date"), (0, -1, 20455, -25567)),
    Values("time", _schema("int32", f"{_TIME}Time"), (0, 86_399_999, 11_045_678)),
    Values("micro_time", _schema("int64", f"{_TIME}MicroTime"), (0, _DAY_US - 1, 11_045_678_901)),
    Values("nano_time", _schema("int64", f"{_TIME}NanoTime"), (0, (_DAY_US - 1) * 1000, 11_045_678_901_000)),
    Values("timestamp", _schema("int64", f"{_TIME}Timestamp"), tuple(us // 1000 for us in _MOMENTS_US)),
    Values("micro_timestamp", _schema("int64", f"{_TIME}MicroTimestamp"), _MOMENTS_US),
    Values("nano_timestamp", _schema("int64", f"{_TIME}NanoTimestamp"), tuple(us * 1000 for us in _MOMENTS_US)),
    Values("zoned_timestamp", _schema("string", f"{_TIME}ZonedTimestamp"),
           ("2026-01-02T03:04:05.678901Z", "1969-12-31T23:59:59.999999Z", "2026-07-01T00:00:00+05:30", "1900-01-01T00:00:00Z")),
    Values("zoned_time", _schema("string", f"{_TIME}ZonedTime"), ("00:00:00Z", "10:11:12.5Z", "23:59:59.999999Z")),
    Values("micro_duration", _schema("int64", f"{_TIME}MicroDuration"), (0, 1, 93_600_000_000, 3_723_000_004)),
    Values("json", _schema("string", f"{_DATA}Json"), ('{"a": [1, 2.50, null, "\u00fc"]}', '"text"', "[]"), None, "jsonb"),
    Values("uuid", _schema("string", f"{_DATA}Uuid"), ("b68a35a7-17ad-35b3-af2a-ae46edb4545a", "0" * 8 + "-0000-0000-0000-" + "0" * 12)),
    Values("enum", _schema("string", f"{_DATA}Enum", allowed="ok,bad"), ("ok", "bad"), "ok"),
    Values("xml", _schema("string", f"{_DATA}Xml"), ("<a>1</a>", "<b x='y'/>")),
    Values("bits", _schema("bytes", f"{_DATA}Bits", length="5"), (_bytes(b"\x00"), _bytes(b"\x16"))),
    Values("texts", _array(_schema("string")), ([], ["a,b", None, 'c"d\\e', "NULL", ""], ["\u00fc"])),
    Values("numbers", _array(_schema("int32")), ([], [1, None, -3])),
    Values("flags", _array(_schema("boolean")), ([], [True, None, False])),
    Values("halves", _array(_schema("double")), ([], [0.5, None, -1e300])),
)  # fmt: skip
BY_NAME: Final = {values.name: values for values in VALUES}
KEYS: Final = ("int16", "int32", "int64", "string", "uuid", "decimal", "date", "boolean")
"""The kinds that keys have."""
