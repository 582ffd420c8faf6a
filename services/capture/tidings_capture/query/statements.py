"""The statements that find new rows, and how far they have come. Pure.

The conditions are those of the well-known JDBC source connectors, so that what is stored means the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tidings_capture.query.config import QueryConfig
from tidings_capture.query.options import BOTH, BULK, INCREMENTING
from tidings_capture.query.packed import Key
from tidings_connect.errors import OffsetError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS_OF_MILLI: Final = 1_000_000
_NAMES: Final = frozenset({"incrementing", "timestamp", "timestamp_nanos"})


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a table has been read."""

    number: int | None = None
    moment: datetime | None = None
    """With its zone, to the microsecond."""

    def stored(self) -> dict[str, int]:
        """As the well-known connectors store it."""
        offset: dict[str, int] = {}
        if self.moment is not None:
            micros = (self.moment - EPOCH) // timedelta(microseconds=1)
            offset["timestamp"] = micros // 1000
            offset["timestamp_nanos"] = micros % 1_000_000 * 1000
        if self.number is not None:
            offset["incrementing"] = self.number
        return offset


def read_offset(offset: Mapping[str, Any], table: str) -> Reached:
    """What is stored.

    Raises:
        OffsetError: it is not of our form.
    """
    wrong = offset.keys() - _NAMES or [
        name for name, value in offset.items() if not isinstance(value, int) or isinstance(value, bool)
    ]
    if wrong or not offset:
        raise OffsetError(
            f"the stored offset of {table} has not the numbers incrementing, timestamp and timestamp_nanos",
            hint="correct it with PATCH /connectors/{name}/offsets, or delete it",
        )
    millis = offset.get("timestamp")
    moment = None
    if millis is not None:
        micros = millis * 1000 + offset.get("timestamp_nanos", 0) % _NANOS_OF_MILLI // 1000
        moment = EPOCH + timedelta(microseconds=micros)
    return Reached(offset.get("incrementing"), moment)


def begin(config: QueryConfig, now: datetime) -> Reached:
    """Where a table without an offset begins."""
    number = config.incrementing_initial if config.by_number else None
    moment = None
    if config.by_timestamp:
        initial = config.timestamp_initial_ms
        moment = now if initial < 0 else EPOCH + timedelta(milliseconds=initial)
    return Reached(number, moment)


@dataclass(frozen=True, slots=True)
class Names:
    """What a statement is made of, quoted."""

    source: str
    """A table, or a query in brackets with a name."""
    columns: str
    """What is selected."""
    number: str = ""
    moment: str = ""
    """The timestamp as an expression."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A SELECT, what stands behind it, and the values for its %s."""

    select: str
    rest: str = ""
    parameters: Sequence[Any] = ()


def statement(mode: str, names: Names, reached: Reached, end: Any, moment: Any) -> Statement:
    """What finds the rows behind a position, in order.

    Args:
        end: timestamps before it are read, in the database's form.
        moment: the position's timestamp, in that form.
    """
    select = f"SELECT {names.columns} FROM {names.source}"  # noqa: S608 - names are quoted, values are parameters
    if mode == BULK:
        return Statement(select)
    if mode == INCREMENTING:
        rest = f"WHERE {names.number} > %s ORDER BY {names.number} ASC"
        return Statement(select, rest, [reached.number])
    if mode == BOTH:
        where = (
            f"{names.moment} < %s AND (({names.moment} = %s AND {names.number} > %s) OR {names.moment} > %s)"
        )
        rest = f"WHERE {where} ORDER BY {names.moment}, {names.number} ASC"
        return Statement(select, rest, [end, moment, reached.number, moment])
    where = f"{names.moment} > %s AND {names.moment} < %s"
    return Statement(select, f"WHERE {where} ORDER BY {names.moment} ASC", [moment, end])


def between(columns: Sequence[str], after: Key | None, until: Key | None) -> tuple[str, list[Any]]:
    """The condition for the rows behind one key, up to another, with its parameters.

    In words of which an index on the columns serves the first, in every database: comparisons of rows do not everywhere.

    Args:
        columns: the key's, quoted.
    """
    parts: list[str] = []
    parameters: list[Any] = []
    for key, sign in ((after, ">"), (until, "<")):
        if key is None:
            continue
        alternatives = []
        for place in range(len(columns)):
            equal = "".join(f"{column} = %s AND " for column in columns[:place])
            last = place == len(columns) - 1 and sign == "<"
            alternatives.append(f"({equal}{columns[place]} {sign}{'=' * last} %s)")
            parameters += key[: place + 1]
        bound = f"{columns[0]} {sign}= %s AND " if len(columns) > 1 else ""
        if bound:
            parameters.insert(len(parameters) - sum(range(1, len(columns) + 1)), key[0])
        parts.append(f"{bound}({' OR '.join(alternatives)})")
    return " AND ".join(parts), parameters


def one_of(columns: Sequence[str], keys: Sequence[Key]) -> tuple[str, list[Any]]:
    """The condition for the rows of some keys, with its parameters."""
    one = "(" + " AND ".join(f"{column} = %s" for column in columns) + ")"
    return " OR ".join([one] * len(keys)), [part for key in keys for part in key]
