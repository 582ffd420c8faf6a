"""Converts rows as Debezium represents them to an author's typed rows, by a plan that is compiled once per Row class.

msgspec does nearly all of it (text to Decimal, UUID, aware datetime, enum; checks of every type). What Debezium writes
as a bare number is converted here (`tidings_domain.language.temporal`). A json column arrives as text. A TOAST placeholder means
"unchanged", so the value comes from the row that the state holds. Formats: Debezium's PostgreSQL connector, "Data type
mappings".
"""

import re
import types
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

import msgspec

from tidings_domain.changes import identity
from tidings_domain.errors import TranslatorError
from tidings_domain.language.model import Row
from tidings_domain.language.rules import key_getter
from tidings_domain.language.temporal import (
    DoubtfulTimeError,
    NoTimeOfDayError,
    Unit,
    datetime_conversion,
    time_conversion,
    timedelta_conversion,
    to_date,
)
from tidings_envelope.decimals import MOST_DIGITS
from tidings_envelope.toast import is_unavailable

Raw = Mapping[str, Any]
References = Mapping[str, Mapping[str, Raw]]

_NARROW = (bool, int, float, Decimal, UUID, date, datetime, time, timedelta)
"""Types of columns that are never TOASTed; a numeric would need thousands of digits."""


class RowError(TranslatorError):
    """A row does not fit the columns that the domain declares for its table."""

    code = "row"


def _to_json(value: Any) -> Any:
    return msgspec.json.decode(value) if type(value) is str else value


def _parts(annotation: Any) -> tuple[tuple[Any, Unit | None], ...]:
    """The types that an annotation allows besides None, without their arguments, and the unit that it names."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        unit = next((one for one in metadata if isinstance(one, Unit)), None)
        return tuple((kind, unit or own) for kind, own in _parts(inner))
    if origin in (Union, types.UnionType):
        return tuple(part for one in get_args(annotation) for part in _parts(one))
    if annotation is type(None):
        return ()
    # NewType, and `type X = ...` of Python 3.12
    named = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    if named is not None and not isinstance(annotation, type):
        return _parts(named)
    return ((origin or annotation, None),)


def _conversion(annotation: Any) -> Callable[[Any], Any] | None:
    for kind, unit in _parts(annotation):
        if kind is date:
            return to_date
        if kind is datetime:
            return datetime_conversion(unit)
        if kind is time:
            return time_conversion(unit)
        if kind is timedelta:
            return timedelta_conversion(unit)
        if kind in (dict, list, tuple) or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            return _to_json
    return None


def time_columns(aggregates: Iterable[type[Row]]) -> frozenset[str]:
    """Names of columns that are declared as a timestamp, a time of day or a duration, and nowhere as anything else."""
    found: dict[str, bool] = {}
    todo = list(aggregates)
    while todo:
        cls = todo.pop()
        todo += [relation.row for relation in cls.__relations__.values()]
        for field in msgspec.structs.fields(cls):
            is_time = any(kind in (datetime, time, timedelta) for kind, _ in _parts(field.type))
            found[field.encode_name] = found.get(field.encode_name, True) and is_time
    return frozenset(name for name, is_time in found.items() if is_time)


def _may_be_toasted(annotation: Any) -> bool:
    return any(
        kind is not Literal
        and kind not in _NARROW
        and not (isinstance(kind, type) and issubclass(kind, Enum))
        for kind, _ in _parts(annotation)
    )


class ReferencePlan(msgspec.Struct, frozen=True):
    """How one reference of a row is found: by the row's columns `by` among the referred table's rows."""

    field: str
    by: tuple[str, ...]
    plan: "RowPlan"


class RowPlan:
    """How rows of one table become instances of one Row class."""

    def __init__(self, cls: type[Row]) -> None:
        self.cls = cls
        self.table = cls.__table__
        fields = [field for field in msgspec.structs.fields(cls) if field.name not in cls.__relations__]
        self.conversions = tuple(
            (field.encode_name, convert)
            for field in fields
            if (convert := _conversion(field.type)) is not None
        )
        self._decimals = tuple(
            (field.encode_name, field.name)
            for field in fields
            if any(kind is Decimal for kind, _ in _parts(field.type))
        )
        self.may_be_unavailable = tuple(
            (field.encode_name, field.name) for field in fields if _may_be_toasted(field.type)
        )
        self.references = tuple(
            ReferencePlan(name, relation.by, RowPlan(relation.row))
            for name, relation in cls.__relations__.items()
            if relation.kind == "reference"
        )
        self.keeps_something = bool(self.references or self.may_be_unavailable)
        """Whether `load` may need the previous row."""
        self.key_of = key_getter(cls)
        self._raw_key: Callable[[Any], Any] = self.key_of
        key_fields = [
            (f.name, f.type, msgspec.field(name=f.encode_name))
            for f in fields
            if f.encode_name in cls.__key__
        ]
        self._key_conversions = tuple(one for one in self.conversions if one[0] in cls.__key__)
        self.key_is_text = all(
            kind in (int, str, UUID) for _, type_, _ in key_fields for kind, _ in _parts(type_)
        )
        """Whether a key's `identity` can be told from the typed row."""
        self._key_struct = msgspec.defstruct(f"{cls.__name__}Key", key_fields, kw_only=True)

    def load(self, raw: Raw, previous: Row | None, references: References, **more: object) -> Row:
        """The typed row.

        Args:
            raw: the row as Debezium represents it.
            previous: the same row in the state, for unchanged TOAST values and references that are not in `references`.
            references: rows by table and identity, as of the commit.
            more: fields that are not columns (an aggregate's children).

        Raises:
            RowError: a declared column is missing or has a value of another type; the message holds no value.
        """
        changed: dict[str, Any] = more
        for column, field in self.may_be_unavailable:
            value = raw.get(column)
            if value is not None and is_unavailable(value):
                changed[column] = self._unchanged(column, field, previous)
        for column, convert in self.conversions:
            value = raw.get(column)
            if value is not None and column not in changed:
                changed[column] = self._converted(column, convert, value)
        for reference in self.references:
            changed[reference.field] = self._refer(reference, raw, previous, references)
        try:
            row = msgspec.convert({**raw, **changed} if changed else raw, self.cls)
        except msgspec.ValidationError as error:
            raise RowError(
                f"{self.table} does not fit {self.cls.__name__}: {_words(error)}",
                hint=f"compare the table's columns with {self.cls.__name__} at {self.cls.__site__}"
                + _advice(error),
            ) from error
        for column, name in self._decimals:
            value = getattr(row, name)
            # An int of 1E+999999, which any rule may make of it, takes half a minute.
            if type(value) is Decimal and value.adjusted() >= MOST_DIGITS:
                raise RowError(f"{self.table}.{column} has more digits than any database's number")
        return row

    def key(self, raw: Raw) -> Any:
        """The key of a row of which only the key columns can be trusted, comparable with `key_of`.

        Raises:
            RowError: a key column is missing or of another type.
        """
        if self._key_conversions:
            raw = {**raw}
            for column, convert in self._key_conversions:
                if raw.get(column) is not None:
                    raw[column] = self._converted(column, convert, raw[column])
        try:
            return self._raw_key(msgspec.convert(raw, self._key_struct))
        except msgspec.ValidationError as error:
            raise RowError(
                f"{self.table}: the key does not fit {self.cls.__name__}: {_words(error)}"
            ) from error

    def _converted(self, column: str, convert: Callable[[Any], Any], value: Any) -> Any:
        try:
            return convert(value)
        except DoubtfulTimeError as error:
            raise RowError(
                f"{self.table}.{column}: its number is hardly one of microseconds",
                hint="where the column's precision is 3 or less, declare Annotated[..., MILLISECONDS] (from"
                " tidings_domain.language.model); with values near 1970 or midnight Annotated[..., MICROSECONDS]; and a date"
                " column is declared `date`",
            ) from error
        except NoTimeOfDayError as error:
            raise RowError(
                f"{self.table}.{column}: its number is none of a day",
                hint="declare it as a `timedelta`: a TIME of MariaDB's or MySQL's may be a duration",
            ) from error
        except (ValueError, OverflowError, msgspec.DecodeError) as error:
            raise RowError(
                f"{self.table}.{column}: {type(error).__name__} while its value was read"
            ) from error

    def names(self, key: str, raw_key: Raw, row: Row) -> bool:
        """Whether a typed row is the one with this key.

        Args:
            key: the key as `identity` gives it.
            raw_key: the same by column.
        """
        known = self.key_of(row)
        return _text(known) == key if self.key_is_text else bool(self.key(raw_key) == known)

    def refresh(self, row: Row, references: References) -> dict[str, Row]:
        """The references of an unchanged row for which there is a newer row, by field."""
        fresh: dict[str, Row] = {}
        for reference in self.references:
            known: Row | None = getattr(row, reference.field)
            found = reference.plan.among(references, known) if known is not None else None
            if found is not None:
                fresh[reference.field] = reference.plan.load(found, known, references)
        return fresh

    def among(self, references: References, row: Row) -> Raw | None:
        """The newer row of a typed one."""
        rows = references.get(self.table, {})
        if self.key_is_text:
            return rows.get(_text(self.key_of(row)))
        return next((raw for key, raw in rows.items() if self.names(key, raw, row)), None)

    def _unchanged(self, column: str, field: str, previous: Row | None) -> object:
        if previous is None:
            raise RowError(
                f"{self.table}.{column} is unchanged TOAST, and no earlier row is known",
                hint="set the table's REPLICA IDENTITY to FULL, or take a new snapshot of it",
            )
        return getattr(previous, field)

    def _refer(
        self, reference: ReferencePlan, raw: Raw, previous: Row | None, references: References
    ) -> Row | None:
        if any(raw.get(column) is None for column in reference.by):
            return None
        wanted = identity(raw, reference.by)
        known: Row | None = getattr(previous, reference.field) if previous is not None else None
        found = references.get(reference.plan.table, {}).get(wanted)
        if found is not None:
            return reference.plan.load(found, known, references)
        if known is None:
            return None
        columns = dict(zip(reference.plan.cls.__key__, (raw[column] for column in reference.by), strict=True))
        return known if reference.plan.names(wanted, columns, known) else None


def _text(key: object) -> str:
    """The identity of a key that `key_of` gave."""
    if isinstance(key, tuple):
        columns = [str(number) for number in range(len(key))]
        return identity(dict(zip(columns, key, strict=True)), columns)
    return str(key)


def _advice(error: msgspec.ValidationError) -> str:
    """What is likely the cause of a mistake of this kind; nothing where none is likelier than another."""
    text = str(error)
    if text.startswith("Invalid enum value"):
        return (
            "; the column has a value that its type does not list: add it there, or declare the column as str"
        )
    if "decimal" in text.lower():
        return "; numeric columns need decimal.handling.mode=string or Avro"
    return ""


def _words(error: msgspec.ValidationError) -> str:
    """msgspec's message without the cell's value, which it quotes for enums."""
    return re.sub(r"value (['\"]).*\1", "value", str(error), flags=re.DOTALL)
