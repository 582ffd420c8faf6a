"""What converting one column means.

A `Conversion` is made once per column and relation version. Its `convert` takes a cell in PostgreSQL's text format and
returns the value of the Connect schema: int, float, str, bytes, bool, `decimal.Decimal`, dict (struct), list (array).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidings_envelope.schema import ConnectSchema
from tidings_service.errors import Retry, TidingsError


class ConversionError(TidingsError):
    """A value or a combination of type and options that cannot be converted; names the column, never the value."""

    code = "conversion"
    default_retry = Retry.MANUAL


class CellError(ValueError):
    """A cell that a conversion refuses; the message says why without the cell's content."""


class NoRepresentationError(CellError):
    """A valid cell that the column's schema cannot represent, such as NaN in a Decimal. Debezium writes null for it, or
    fails, as ``event.converting.failure.handling.mode`` says."""


class UnknownLabelError(LookupError):
    """A label that the enum did not have when its labels were read from the catalog. It is in no message."""

    def __init__(self, known: set[bytes], label: bytes) -> None:
        super().__init__("an enum's label that the catalog did not show")
        self._known = known
        self._label = label

    def admit(self) -> None:
        """Take the label from now on, although the schema does not list it."""
        self._known.add(self._label)


class Kind(StrEnum):
    """Shapes of cells for which the plan knows a direct way to JSON; `OTHER` goes through Python values."""

    INTEGER = "integer"
    """Digits, which are their own JSON."""
    BOOLEAN = "boolean"
    TEXT = "text"
    PLAIN_TEXT = "plain text"
    """Text that never needs an escape, such as a uuid."""
    LABEL = "label"
    """Text with few different values, such as an enum's."""
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    MICROSECONDS = "microseconds"
    """A timestamp as microseconds since the Unix epoch."""
    ZONED_MICROSECONDS = "zoned microseconds"
    """A timestamp with time zone as ISO text with six decimals."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Conversion:
    schema: ConnectSchema
    """Without a default, and mostly required; the column adds both."""
    convert: Callable[[bytes], Any]
    """Raises ValueError or ArithmeticError for a cell that is not of the type. None stands for a null."""
    zero: Any
    """What stands for a null in a column that allows none and has no default: Debezium invents it for the non-key
    columns of a deleted row under replica identity DEFAULT."""
    unchanged: Any = None
    """What stands for an unchanged TOASTed value; None where Debezium writes null."""
    kind: Kind = Kind.OTHER
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What `kind` needs besides, for example a decimal's scale."""
