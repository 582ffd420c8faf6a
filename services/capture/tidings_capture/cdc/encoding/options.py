"""The connector options that decide how a change becomes a record, named after the options."""

from dataclasses import dataclass, field
from enum import StrEnum

from tidings_capture.cdc.encoding.column_mappers import ColumnMappers
from tidings_capture.cdc.naming import NameAdjustment
from tidings_connect.java.regex import JavaPattern
from tidings_envelope.toast import UNAVAILABLE

DEBEZIUM_VERSION = "3.7.0.Final"
"""The release whose format this is; stands in ``source.version``."""


class DecimalHandling(StrEnum):
    """``decimal.handling.mode``."""

    PRECISE = "precise"
    STRING = "string"
    DOUBLE = "double"


class TimePrecision(StrEnum):
    """``time.precision.mode``."""

    ADAPTIVE = "adaptive"
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"
    ISOSTRING = "isostring"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"
    STRUCTURED = "structured"


class BinaryHandling(StrEnum):
    """``binary.handling.mode``."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


class HstoreHandling(StrEnum):
    """``hstore.handling.mode``."""

    JSON = "json"
    MAP = "map"


class FailureHandling(StrEnum):
    """``event.converting.failure.handling.mode``: what happens to a value without a representation."""

    WARN = "warn"
    """It becomes null, with a warning."""
    SKIP = "skip"
    """It becomes null."""
    FAIL = "fail"


class IntervalHandling(StrEnum):
    """``interval.handling.mode``."""

    NUMERIC = "numeric"
    STRING = "string"


def placeholder_bytes(text: str) -> bytes:
    """What ``unavailable.value.placeholder`` stands for: the text's UTF-8, or the bytes whose digits follow ``hex:``.

    Raises:
        ValueError: what follows ``hex:`` is not an even number of hexadecimal digits.
    """
    digits = text.removeprefix("hex:")
    if digits == text:
        return text.encode()
    if digits and not digits.isalnum():  # fromhex allows for blanks
        raise ValueError("hex: is followed by hexadecimal digits, two for each byte")
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise ValueError("hex: is followed by hexadecimal digits, two for each byte") from error


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    topic_prefix: str
    """``topic.prefix``: ``source.name``, and the first part of names of topics and schemas."""
    database: str
    """``database.dbname``: ``source.db``."""
    decimal_handling: DecimalHandling = DecimalHandling.PRECISE
    time_precision: TimePrecision = TimePrecision.ADAPTIVE
    binary_handling: BinaryHandling = BinaryHandling.BYTES
    interval_handling: IntervalHandling = IntervalHandling.NUMERIC
    hstore_handling: HstoreHandling = HstoreHandling.JSON
    money_fraction_digits: int = 2
    converting_failure: FailureHandling = FailureHandling.WARN
    include_unknown_datatypes: bool = False
    """``include.unknown.datatypes``: columns of unknown types are opaque bytes rather than left out."""
    propagated_columns: tuple[JavaPattern, ...] = ()
    """``column.propagate.source.type``: names ``schema.table.column``."""
    propagated_types: tuple[JavaPattern, ...] = ()
    """``datatype.propagate.source.type``: names ``schema.table.type``."""
    tombstones_on_delete: bool = True
    provide_transaction_metadata: bool = False
    unavailable_value: bytes = UNAVAILABLE.encode()
    """``unavailable.value.placeholder``, as bytes: it may be given by its hexadecimal digits (`placeholder_bytes`)."""
    context_headers: tuple[tuple[str, bytes], ...] = ()
    """``__debezium.context.*``: headers that every record carries, already converted."""
    version: str = DEBEZIUM_VERSION
    transaction_topic: str = ""
    """The transaction topic; empty: ``<prefix>.transaction``."""
    heartbeat_topic: str = ""
    """The heartbeat topic; empty: ``__debezium-heartbeat.<prefix>``."""
    schema_names: NameAdjustment = NameAdjustment.NONE
    field_names: NameAdjustment = NameAdjustment.NONE
    skip_unchanged: bool = False
    """``skip.messages.without.change``: leaves out updates whose row is the same before and after."""
    skipped_operations: frozenset[str] = frozenset()
    """``skipped.operations``: ``c``, ``u``, ``d``, ``t``."""
    mappers: ColumnMappers = field(default_factory=ColumnMappers)
    """What ``column.mask.*`` and its like do to columns."""

    @property
    def unavailable_value_placeholder(self) -> str:
        """`unavailable_value` as text, what is not UTF-8 replaced as Java does."""
        return self.unavailable_value.decode(errors="replace")
