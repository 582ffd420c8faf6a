"""What `init` knows of a source's tables, wherever it learnt it. Pure data."""

import json

import msgspec


class Kind(msgspec.Struct, frozen=True):
    """How the values of a column are declared, and what they look like on a technical topic.

    Attributes:
        python: the annotation for a Row class, without ``| None``.
        sample: a value as Debezium represents it in JSON, for generated tests.
        literal: the Python text of the value that the sample becomes.
        avro: the Avro type of such a value in a contract; None where a key cannot have one.
        note: what its author should know, for a comment behind the field; empty for nothing.
    """

    python: str
    sample: object
    literal: str
    avro: object = None
    note: str = ""


class Column(msgspec.Struct, frozen=True):
    """A column that is on the technical topic."""

    name: str
    kind: Kind
    nullable: bool


class ForeignKey(msgspec.Struct, frozen=True):
    """Columns that refer to another table's primary key.

    Attributes:
        columns: in the order of the other table's key.
        table: ``schema.table`` that is referred to.
        owned: the rows go when the other goes (ON DELETE CASCADE).
        guessed: by its name only; the registry knows no foreign keys.
        partial: only some of the table's partitions have it.
    """

    columns: tuple[str, ...]
    table: str
    owned: bool = False
    guessed: bool = False
    partial: bool = False

    @property
    def promised(self) -> bool:
        """Whether the database sees to it that the other row is there."""
        return not (self.guessed or self.partial)


class Table(msgspec.Struct, frozen=True):
    """One table.

    Attributes:
        notes: what could not be taken over.
        partitioned: its rows are in partitions, which are not tables of their own here.
        identity: whether PostgreSQL would take its updates and deletes once it is published.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    notes: tuple[str, ...] = ()
    partitioned: bool = False
    identity: bool = True

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(column for column in self.columns if column.name == name)


def decimal(precision: int | None, scale: int | None) -> Kind:
    """numeric, with `decimal.handling.mode=string` or precise in Avro."""
    text = "1" if not scale or scale < 0 else "1." + "0" * scale
    avro: object = None
    if precision is not None and scale is not None and 0 <= scale <= precision:
        avro = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return Kind("Decimal", text, f'Decimal("{text}")', avro)


INTEGER = Kind("int", 1, "1", "long")
FLOAT = Kind("float", 1.5, "1.5", "double")
BOOLEAN = Kind("bool", True, "True", "boolean")
TEXT = Kind("str", "text", '"text"', "string")
UUID_TEXT = "6f1c2a9e-3f4b-5d6c-8e7f-0a1b2c3d4e5f"
UUID = Kind("UUID", UUID_TEXT, f'UUID("{UUID_TEXT}")', {"type": "string", "logicalType": "uuid"})
BYTES = Kind("bytes", "Ynl0ZXM=", 'b"bytes"', "bytes")
DATE = Kind("date", 20454, "date(2026, 1, 1)", {"type": "int", "logicalType": "date"})
TIME = Kind("time", 43_200_000_000, "time(12, 0)", {"type": "long", "logicalType": "time-micros"})
TIMESTAMP = Kind(
    "datetime",
    1_767_225_600_000_000,
    "datetime(2026, 1, 1)",
    {"type": "long", "logicalType": "local-timestamp-micros"},
)
TIMESTAMPTZ = Kind(
    "datetime",
    "2026-01-01T12:00:00.000000Z",
    "datetime(2026, 1, 1, 12, tzinfo=UTC)",
    {"type": "long", "logicalType": "timestamp-micros"},
)
TIME_MS = Kind("Annotated[time, MILLISECONDS]", 43_200_000, TIME.literal, TIME.avro)
TIMESTAMP_MS = Kind("Annotated[datetime, MILLISECONDS]", 1_767_225_600_000, TIMESTAMP.literal, TIMESTAMP.avro)
"""Of precision 0 to 3; in JSON without schemas only the annotation tells."""
INTERVAL = Kind("int", 1_000_000, "1_000_000", "long", "microseconds, a month taken as 30.4375 days")
ZONED_TIME = Kind("str", "12:00:00Z", '"12:00:00Z"', "string", "a time with zone, as text")
JSON = Kind("str", "{}", '"{}"', None, "JSON as text; dict[str, Any] or list[Any] to have it read")
STRUCTURE = Kind("dict[str, Any]", {}, "{}", None)


def enum(labels: list[str]) -> Kind:
    """An enum; `Literal[...]` would make an unknown value a dead letter, so its author has to want that."""
    first = labels[0] if labels else "text"
    shown = ", ".join(labels)
    note = f"one of {shown}" if len(shown) <= 60 else ""
    return Kind("str", first, json.dumps(first, ensure_ascii=False), "string", note)


def array(element: Kind) -> Kind:
    """An array. Dates and times inside it stay numbers."""
    python = element.python
    note = element.note
    if isinstance(element.sample, int) and element in (DATE, TIME, TIMESTAMP, TIME_MS, TIMESTAMP_MS):
        unit = "milliseconds" if element in (TIME_MS, TIMESTAMP_MS) else "microseconds"
        note = f"{'days' if element is DATE else unit}, as numbers"
        python = "int"
    return Kind(f"list[{python}]", [], "[]", None, note)
