"""TimestampConverter: times as text, as numbers, and as Connect's Date, Time and Timestamp."""

from typing import Any, Final

from tidings_connect.data.schemas import PerSchema, basics, copied, require_map, require_struct
from tidings_connect.data.text import DAY_MS, UNIT_MS
from tidings_connect.java.simple_date_format import SimpleDateFormat
from tidings_connect.transforms.config import REPLACE_NULL, ConfigSpec, Setting, SettingError, Settings
from tidings_connect.transforms.kafka.sides import Sided
from tidings_connect.transforms.record import DataError
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema, ConnectType, Field

_SCHEMAS: Final = {
    "string": semantic.STRING,
    "unix": semantic.INT64,
    "Date": semantic.CONNECT_DATE,
    "Time": semantic.CONNECT_TIME,
    "Timestamp": semantic.CONNECT_TIMESTAMP,
}
_PER_SECOND: Final = {
    "nanoseconds": 1_000_000_000,
    "microseconds": 1_000_000,
    "milliseconds": 1_000,
    "seconds": 1,
}
_LONG: Final = 1 << 63


class TimestampConverter(Sided):
    """See the module."""

    CONFIG = ConfigSpec(
        Setting("field", default=""),
        Setting("target.type", required=True, values=tuple(_SCHEMAS), exact=True),
        Setting("format", default=""),
        Setting("unix.precision", default="milliseconds", values=tuple(_PER_SECOND), exact=True),
        REPLACE_NULL,
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._field = settings.text("field")
        self._target = settings.text("target.type")
        self._per_second = _PER_SECOND[settings.text("unix.precision")]
        self._replace = settings.flag("replace.null.with.default")
        self._format: SimpleDateFormat | None = None
        pattern = settings.text("format")
        if self._target == "string" and not pattern:
            raise SettingError(
                "format",
                "TimestampConverter requires format option to be specified when using string timestamps",
            )
        if pattern:
            try:
                self._format = SimpleDateFormat(pattern)
            except ValueError as error:
                raise SettingError("format", f"{pattern}\0{error}") from error
        self._schema = PerSchema(self._converted_schema)

    def _target_schema(self, schema: ConnectSchema) -> ConnectSchema:
        target = _SCHEMAS[self._target]
        return target.as_optional() if schema.optional else target

    def _converted_schema(self, schema: ConnectSchema) -> ConnectSchema:
        if not self._field:
            return self._target_schema(schema)
        fields = [
            Field(f.name, self._target_schema(f.schema)) if f.name == self._field else f
            for f in schema.fields
        ]
        new = basics(schema, fields)
        return new.as_optional() if schema.optional else new

    def convert(self, schema: ConnectSchema | None, value: Any) -> tuple[ConnectSchema | None, Any]:
        """See `Sided.convert`."""
        if schema is None:
            if value is None or not self._field:
                return None, self._converted(None, value)
            found = dict(require_map(value, "converting timestamp formats"))
            found[self._field] = self._converted(None, found.get(self._field))
            return None, found
        new = self._schema(schema)
        if not self._field:
            return new, self._converted(schema, value)
        if value is None:
            return new, None
        struct = require_struct(schema, value, "converting timestamp formats")
        found = copied(schema, struct, replace_null=self._replace)
        for field in schema.fields:
            if field.name == self._field:
                found[field.name] = self._converted(field.schema, found[field.name])
        return new, found

    def _converted(self, schema: ConnectSchema | None, value: Any) -> Any:
        if value is None:
            return None
        milliseconds = self._milliseconds(schema, value)
        match self._target:
            case "string":
                assert self._format is not None
                return self._format.format(milliseconds)
            case "unix":
                return _scaled(milliseconds, self._per_second, 1_000)
            case "Date":
                return milliseconds // DAY_MS
            case "Time":
                return milliseconds % DAY_MS
            case _:
                return milliseconds

    def _milliseconds(self, schema: ConnectSchema | None, value: Any) -> int:
        if schema is not None and schema.name in UNIT_MS:
            return int(value) * UNIT_MS[schema.name]
        kind = (
            type(value)
            if schema is None
            else {ConnectType.STRING: str, ConnectType.INT64: int}.get(schema.type)
        )
        if kind is int:
            return _scaled(int(value), 1_000, self._per_second)
        if kind is not str:
            shown = "the value" if schema is None else f"a schema of type {schema.type}"
            raise DataError(f"{shown} does not correspond to a known timestamp type format")
        if self._format is None:
            raise DataError("a text can only be read with a format")
        try:
            return self._format.parse(value)
        except (ValueError, OverflowError):
            raise DataError(
                f"Could not parse timestamp: value does not match pattern ({self._format.pattern})"
            ) from None


def _scaled(number: int, to: int, per: int) -> int:
    """``TimeUnit``'s conversion: truncated, and saturated at 64 bits."""
    product = number * to
    result = product // per if product >= 0 else -(-product // per)
    return min(max(result, -_LONG), _LONG - 1)
