"""Fields with semantic types, for tests of documents."""

import base64
from typing import Any

from object_parts import field, struct

CONNECT = "org.apache.kafka.connect.data"


def unscaled(number: int) -> str:
    """An unscaled value of a decimal, as the JsonConverter has it."""
    return base64.b64encode(number.to_bytes(16, "big", signed=True)).decode()


def decimal(name: str, scale: int) -> dict[str, Any]:
    """A field of decimals."""
    return field(name, "bytes", name=f"{CONNECT}.Decimal", parameters={"scale": str(scale)})


def semantic(name: str, kind: str, meaning: str) -> dict[str, Any]:
    """A field with a semantic type: one of Debezium's times, or a whole name."""
    return field(name, kind, name=meaning if "." in meaning else f"io.debezium.time.{meaning}")


VARIABLE = {
    **struct(field("scale", "int32"), field("value", "bytes"), name="io.debezium.data.VariableScaleDecimal"),
    "field": "bare",
    "optional": True,
}
ADDRESS = struct(field("city", "string"), field("since", "int32", name="io.debezium.time.Date"))
DAY = 20_455  # 2026-01-02
MICROS = 1_767_323_045_678_901
