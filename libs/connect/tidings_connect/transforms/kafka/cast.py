"""Cast: other types for fields, or for the whole key or value. Numbers are narrowed as Java narrows them."""

import math
import re
import struct
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from tidings_connect.data.parse import shortest_float32
from tidings_connect.data.schemas import PerSchema, basics, copied, default_of, require_map, require_struct
from tidings_connect.data.text import connect_text
from tidings_connect.transforms.config import REPLACE_NULL, ConfigSpec, Setting, Settings
from tidings_connect.transforms.kafka.sides import Sided
from tidings_connect.transforms.record import DataError
from tidings_envelope.decimals import int_from_decimal
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType, Field

_BITS: Final = {ConnectType.INT8: 8, ConnectType.INT16: 16, ConnectType.INT32: 32, ConnectType.INT64: 64}
_NAMES: Final = {
    "INT8": ConnectType.INT8, "INT16": ConnectType.INT16, "INT32": ConnectType.INT32, "INT64": ConnectType.INT64,
    "FLOAT32": ConnectType.FLOAT32, "FLOAT64": ConnectType.FLOAT64, "BOOLEAN": ConnectType.BOOLEAN,
    "STRING": ConnectType.STRING,
}  # fmt: skip
_NOT_CAST: Final = (ConnectType.ARRAY, ConnectType.MAP, ConnectType.STRUCT)
_WHOLE: Final = re.compile(r"[+-]?\d+")
_FLOATING: Final = re.compile(
    r"\s*[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)\s*", re.ASCII
)


def _types(spec: list[str]) -> str | None:
    if not spec:
        return "Must specify at least one field to cast."
    for mapping in spec:
        parts = mapping.split(":")
        if len(parts) > 2:
            return f"Invalid rename mapping: {mapping}"
        if parts[-1].strip().upper() not in _NAMES:
            return f"Invalid type found in casting spec: {parts[-1].strip()}"
    if len(spec) > 1 and any(":" not in mapping for mapping in spec):
        return (
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in "
            "their spec"
        )
    return None


class Cast(Sided):
    """See the module."""

    CONFIG = ConfigSpec(Setting("spec", "list", required=True, check=_types), REPLACE_NULL)

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._whole: ConnectType | None = None
        self._fields: dict[str, ConnectType] = {}
        for mapping in settings.items_of("spec"):
            name, colon, kind = mapping.rpartition(":")
            if colon:
                self._fields[name.strip()] = _NAMES[kind.strip().upper()]
            else:
                self._whole = _NAMES[kind.strip().upper()]
        self._replace = settings.flag("replace.null.with.default")
        self._schema = PerSchema(self._cast_schema)

    def _cast_schema(self, schema: ConnectSchema) -> ConnectSchema:
        if self._whole is not None:
            new = ConnectSchema(
                self._whole,
                name=schema.name,
                version=schema.version,
                doc=schema.doc,
                parameters=schema.parameters,
            )
        else:
            new = basics(schema, [Field(f.name, self._field_schema(f)) for f in schema.fields])
        return replace(new, optional=schema.optional)

    def _field_schema(self, field: Field) -> ConnectSchema:
        kind = self._fields.get(field.name)
        if kind is None:
            return field.schema
        default = default_of(field.schema)
        return ConnectSchema(
            kind,
            optional=field.schema.optional,
            default=NO_DEFAULT if default is None else cast(field.schema, default, kind),
        )

    def convert(self, schema: ConnectSchema | None, value: Any) -> tuple[ConnectSchema | None, Any]:
        """See `Sided.convert`."""
        if value is None:
            return schema, value
        if self._whole is not None:
            new = None if schema is None else self._schema(schema)
            return new, cast(schema, value, self._whole)
        if schema is None:
            found = require_map(value, "cast types")
            casts = {name: cast(None, found.get(name), kind) for name, kind in self._fields.items()}
            return None, {**found, **casts}
        new = self._schema(schema)
        found = copied(schema, require_struct(schema, value, "cast types"), replace_null=self._replace)
        for field in schema.fields:
            kind = self._fields.get(field.name)
            if kind is not None:
                found[field.name] = cast(field.schema, found[field.name], kind)
        return new, found


def cast(schema: ConnectSchema | None, value: Any, kind: ConnectType) -> Any:
    """A value as another type.

    Raises:
        DataError: its type cannot be cast, or a text is not such a number.
    """
    if value is None:
        return None
    if (schema is not None and schema.type in _NOT_CAST) or isinstance(value, (list, dict)):
        raise DataError(f"Cast transformation does not support casting from {type(value).__name__}")
    if kind is ConnectType.STRING:
        return connect_text(schema, value)
    if isinstance(value, bytes):
        raise DataError("binary fields can only be cast to string")
    if kind is ConnectType.BOOLEAN:
        if isinstance(value, str):
            return value.lower() == "true"
        return value if isinstance(value, bool) else _integer(value, ConnectType.INT64) != 0
    if kind in _BITS:
        return _parsed_integer(value, kind) if isinstance(value, str) else _integer(value, kind)
    return _floating(schema, value, kind)


def _parsed_integer(text: str, kind: ConnectType) -> int:
    limit = 1 << _BITS[kind] - 1
    if not _WHOLE.fullmatch(text) or not -limit <= int(text) < limit:
        raise DataError("a value was out of range for requested data type")
    return int(text)


def _integer(value: Any, kind: ConnectType) -> int:
    """A number narrowed to so many bits: floating point saturates first, integers lose their upper bits."""
    bits = _BITS[kind]
    if isinstance(value, float):
        wide = 64 if bits == 64 else 32
        limit = 1 << wide - 1
        if math.isnan(value):
            return 0
        value = min(max(int(min(max(value, -1e300), 1e300)), -limit), limit - 1)
    try:
        whole = int_from_decimal(value) if isinstance(value, Decimal) else int(value)
    except ValueError as error:
        raise DataError("a number has more digits than any database's") from error
    number = whole & (1 << bits) - 1
    return number - (1 << bits) if number >> bits - 1 else number


def _floating(schema: ConnectSchema | None, value: Any, kind: ConnectType) -> float:
    if isinstance(value, str):
        if not _FLOATING.fullmatch(value):
            raise DataError("a value was out of range for requested data type")
        number = float(value.strip().rstrip("fFdD") if not value.strip().endswith("Infinity") else value)
    elif isinstance(value, Decimal):
        number = float(value)
    else:
        number = float(value)
        if schema is not None and schema.type is ConnectType.FLOAT32 and kind is ConnectType.FLOAT64:
            return _exact(number)  # a 32-bit float shows all its digits as a 64-bit one
    return shortest_float32(number) if kind is ConnectType.FLOAT32 else number


def _exact(number: float) -> float:
    if not math.isfinite(number):
        return number
    return float(struct.unpack("<f", struct.pack("<f", number))[0])
