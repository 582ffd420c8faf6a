"""From rows as Debezium represents them to an author's typed rows, by a plan that is compiled once per Row class.

msgspec does nearly all of it (text to Decimal, UUID, aware datetime, enum; checks of every type). What Debezium writes
as a bare number is converted here: `date` is days since 1970, `timestamp` microseconds since 1970, `time` microseconds
since midnight. A json column arrives as text. A TOAST placeholder means "unchanged", so the value comes from the row
that the state holds. Formats: Debezium's PostgreSQL connector, "Data type mappings", with time.precision.mode=adaptive
and default precision.
"""

import re
import types
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any, Union, get_args, get_origin

import msgspec

from tidings_translator.changes import identity
from tidings_translator.errors import TranslatorError
from tidings_translator.model import Row
from tidings_translator.rules import key_getter

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp column has no zone
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_UNAVAILABLE = "__debezium_unavailable_value"
_PLACEHOLDERS: tuple[object, ...] = (
    _UNAVAILABLE,
    _UNAVAILABLE.encode(),
    b64encode(_UNAVAILABLE.encode()).decode(),
    [_UNAVAILABLE],
)
Raw = Mapping[str, Any]
References = Mapping[str, Mapping[str, Raw]]


class RowError(TranslatorError):
    """A row does not fit the columns that the domain declares for its table."""

    code = "row"


def _to_date(value: Any) -> Any:
    return date.fromordinal(_EPOCH_DAY + value) if type(value) is int else value


def _to_datetime(value: Any) -> Any:
    return _EPOCH + timedelta(microseconds=value) if type(value) is int else value


def _to_time(value: Any) -> Any:
    return (_EPOCH + timedelta(microseconds=value)).time() if type(value) is int else value


def _to_json(value: Any) -> Any:
    return msgspec.json.decode(value) if type(value) is str else value


_CONVERTED: dict[object, Callable[[Any], Any]] = {date: _to_date, datetime: _to_datetime, time: _to_time}


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The types an annotation allows besides None, without their arguments."""
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(kind for part in get_args(annotation) for kind in _kinds(part))
    if annotation is type(None):
        return ()
    return (get_origin(annotation) or annotation,)


def _conversion(annotation: Any) -> Callable[[Any], Any] | None:
    for kind in _kinds(annotation):
        if kind in _CONVERTED:
            return _CONVERTED[kind]
        if kind in (dict, list, tuple) or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            return _to_json
    return None


class ReferencePlan(msgspec.Struct, frozen=True):
    """How one reference of a row is found: by the row's columns `by` among the referred table's rows."""

    field: str
    by: tuple[str, ...]
    plan: "RowPlan"
    key_of: Callable[[Row], Any]


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
        wide = (str, bytes, dict, list, tuple)
        self.may_be_unavailable = tuple(
            (field.encode_name, field.name)
            for field in fields
            if any(kind in wide for kind in _kinds(field.type))
        )
        self.references = tuple(
            ReferencePlan(name, relation.by, RowPlan(relation.row), key_getter(relation.row))
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
        self._key_struct = msgspec.defstruct(f"{cls.__name__}Key", key_fields, kw_only=True)

    def load(self, raw: Raw, previous: Row | None, references: References, **more: object) -> Row:
        """The typed row.

        Args:
            raw: the row as Debezium represents it.
            previous: the same row in the state, for unchanged TOAST values and references that are not in `references`.
            references: rows by table and identity, as of the commit.
            more: fields that are no columns (an aggregate's children).

        Raises:
            RowError: a declared column is missing or has a value of another type; the message holds no value.
        """
        changed: dict[str, Any] = more
        for column, field in self.may_be_unavailable:
            value = raw.get(column)
            if value is not None and value in _PLACEHOLDERS:
                changed[column] = self._unchanged(column, field, previous)
        for column, convert in self.conversions:
            value = raw.get(column)
            if value is not None and column not in changed:
                try:
                    changed[column] = convert(value)
                except (ValueError, OverflowError, msgspec.DecodeError) as error:
                    raise RowError(
                        f"{self.table}.{column}: {type(error).__name__} while its value was read"
                    ) from error
        for reference in self.references:
            changed[reference.field] = self._refer(reference, raw, previous, references)
        try:
            return msgspec.convert({**raw, **changed} if changed else raw, self.cls)
        except msgspec.ValidationError as error:
            raise RowError(
                f"{self.table} does not fit {self.cls.__name__}: {_words(error)}",
                hint=f"compare the table's columns with {self.cls.__name__} at {self.cls.__site__}; numeric columns need"
                " decimal.handling.mode=string or Avro",
            ) from error

    def key(self, raw: Raw) -> Any:
        """The key of a row of which only the key columns can be trusted, comparable with `key_of`.

        Raises:
            RowError: a key column is missing or of another type.
        """
        try:
            return self._raw_key(msgspec.convert(raw, self._key_struct))
        except msgspec.ValidationError as error:
            raise RowError(
                f"{self.table}: the key does not fit {self.cls.__name__}: {_words(error)}"
            ) from error

    def refresh(self, row: Row, references: References) -> dict[str, Row]:
        """The references of an unchanged row for which there is a newer row, by field."""
        fresh: dict[str, Row] = {}
        for reference in self.references:
            known: Row | None = getattr(row, reference.field)
            found = (
                references.get(reference.plan.table, {}).get(_text(reference.key_of(known)))
                if known
                else None
            )
            if found is not None:
                fresh[reference.field] = reference.plan.load(found, known, references)
        return fresh

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
        return known if known is not None and _text(reference.key_of(known)) == wanted else None


def _text(key: object) -> str:
    """The identity of a key that `key_of` gave."""
    if isinstance(key, tuple):
        columns = [str(number) for number in range(len(key))]
        return identity(dict(zip(columns, key, strict=True)), columns)
    return str(key)


def _words(error: msgspec.ValidationError) -> str:
    """msgspec's message without the cell's value, which it quotes for enums."""
    return re.sub(r"value (['\"]).*\1", "value", str(error), flags=re.DOTALL)
