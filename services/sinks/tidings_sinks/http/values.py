"""Connect's values as JSON, in one of two forms. Pure.

The JsonConverter's without schemas is what Aiven's connector sends: numbers for dates and times, base64 or numbers for decimals. The
other is the form of a translator's events in JSON: dates and times as ISO 8601, decimals as text with all their digits.
"""

from base64 import b64encode
from decimal import Decimal
from typing import Any, Final

import orjson

from tidings_connect.converters.encoding import JsonConverter
from tidings_connect.data.errors import DataError
from tidings_connect.transforms.encoding import Encoding
from tidings_envelope.errors import EnvelopeError
from tidings_envelope.json_codec import DecimalFormat, JsonCodec
from tidings_envelope.schema import ConnectSchema
from tidings_sinks.converting import Convert
from tidings_sinks.documents import field_of
from tidings_sinks.errors import RowError

_MOST_SCHEMAS: Final = 1000
_MISFITS: Final = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, OverflowError)


class Values:
    """Writes values."""

    def __init__(self, decimals: DecimalFormat) -> None:
        self._connect = Encoding(JsonConverter(JsonCodec(decimal_format=decimals), schemas_enable=False))
        self._converts: dict[int, tuple[ConnectSchema, Convert | None]] = {}

    def json(self, topic: str, schema: ConnectSchema | None, value: Any, *, iso: bool) -> bytes:
        """A value that is not null.

        Raises:
            RowError: it has no form in JSON, or does not fit its schema.
        """
        try:
            if iso:
                return self._iso(schema, value)
            encoded = self._connect(topic, schema, value, trusted=False)
            assert encoded is not None
        except (DataError, EnvelopeError) as error:
            raise RowError(f"the value has no form in JSON: {error}") from None
        except _MISFITS as error:
            raise RowError(f"a value does not fit its schema ({type(error).__name__})") from None
        return encoded

    def _iso(self, schema: ConnectSchema | None, value: Any) -> bytes:
        convert = None if schema is None else self._convert(schema)
        try:
            return orjson.dumps(value if convert is None else convert(value), default=_otherwise)
        except orjson.JSONEncodeError as error:
            if isinstance(error.__cause__, RowError):
                raise error.__cause__ from None
            raise RowError("a value has no form in JSON") from None

    def _convert(self, schema: ConnectSchema) -> Convert | None:
        known = self._converts.get(id(schema))
        if known is None:
            if len(self._converts) >= _MOST_SCHEMAS:
                self._converts.clear()
            known = self._converts[id(schema)] = schema, field_of(schema, compact=True)[1]
        return known[1]


def _otherwise(value: Any) -> Any:
    """What orjson has no form for."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise RowError("a number is not finite, which JSON has no form for")
        return format(value, "f")
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError
