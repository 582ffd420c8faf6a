"""From a key's values back to the text of its cells, as PostgreSQL reads it: the way back of conversion, for keys.

There is no way back for every type. So each text is converted again, and one that does not become the same value is not
used: a key that cannot be compared is counted and said, and no row is declared deleted by a mistake.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from tidings_capture.cdc.types.conversion import CellError, ConversionError
from tidings_envelope import semantic
from tidings_envelope.decimals import CONNECT_DECIMAL, decimal_from_bytes
from tidings_envelope.schema import ConnectSchema, ConnectType

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS: Final = frozenset((semantic.DATE.name, "org.apache.kafka.connect.data.Date"))
_PER_SECOND: Final = {
    "org.apache.kafka.connect.data.Timestamp": 1_000,
    "io.debezium.time.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
}


class NoWayBackError(ValueError):
    """A key's value of which no cell is known."""


def cell_of(value: Any, schema: ConnectSchema, convert: Callable[[bytes], Any]) -> bytes:
    """The cell that a key's value was made from.

    Args:
        value: as it was read from the topic.
        schema: of the key's field.
        convert: from a cell to the value, as conversion does it.

    Raises:
        NoWayBackError: there is none that becomes this value again.
    """
    try:
        known = _plain(value, schema)
        for text in _texts(known, schema):
            cell = text.encode()
            if _same(convert, cell, known, schema):
                return cell
    except (ValueError, ArithmeticError, TypeError, binascii.Error) as error:
        raise NoWayBackError(f"a value of {schema.name or schema.type} has no cell") from error
    raise NoWayBackError(f"a value of {schema.name or schema.type} has no cell")


def _same(convert: Callable[[bytes], Any], cell: bytes, value: Any, schema: ConnectSchema) -> bool:
    try:
        return bool(_plain(convert(cell), schema) == value)
    except (CellError, ConversionError, ValueError, ArithmeticError):
        return False


def _plain(value: Any, schema: ConnectSchema) -> Any:
    """The value in the form that conversion gives it: JSON has bytes as base64, and decimals in two ways."""
    if schema.name == CONNECT_DECIMAL:
        if isinstance(value, str):
            return decimal_from_bytes(base64.b64decode(value), int(schema.parameters["scale"]))
        return value if isinstance(value, Decimal) else Decimal(str(value))
    if schema.name == semantic.VARIABLE_SCALE_DECIMAL.name and isinstance(value, Mapping):
        unscaled = value["value"]
        raw = base64.b64decode(unscaled) if isinstance(unscaled, str) else unscaled
        return decimal_from_bytes(raw, value["scale"])
    if schema.type is ConnectType.BYTES and isinstance(value, str):
        return base64.b64decode(value)
    return value


def _texts(value: Any, schema: ConnectSchema) -> Iterator[str]:
    """What the cell may have been."""
    if isinstance(value, bool):
        yield "t" if value else "f"
    elif isinstance(value, int) and schema.name in _DAYS:
        yield (_EPOCH + timedelta(days=value)).date().isoformat()
    elif isinstance(value, int) and schema.name in _PER_SECOND:
        seconds, rest = divmod(value, _PER_SECOND[schema.name])
        micros = rest * 1_000_000 // _PER_SECOND[schema.name]
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=micros)
        yield moment.replace(tzinfo=None).isoformat(" ", "microseconds" if micros else "seconds")
    elif isinstance(value, bytes):
        yield "\\x" + value.hex()
    elif isinstance(value, Decimal):
        yield f"{value:f}"
    elif isinstance(value, str):
        yield value
        if value.endswith("Z"):  # a timestamp with a zone
            yield value[:-1].replace("T", " ") + "+00"
    elif isinstance(value, (int, float)):
        yield str(value)
